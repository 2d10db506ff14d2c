"""One read-only SQL statement over the store: what it may do, how long it runs, and how its rows are printed."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_cli_terminal import FORBIDDEN, ORDERS, on_terminal

from turnlog.cli import main
from turnlog.projections import query
from turnlog.store import InvalidArgument, Message, NotFound, QueryRefused, QueryTimedOut, Store, StoreUnusable

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
MILLION = ENDLESS.format("i, 'some text'") + " LIMIT 1000000"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("c", [Message(role="user", content="Hi"), {"type": "transfer", "to": "b"}])
        store.append("d", [Message(role="user", content="=1+1"), Message(role="user", content="bye")])
    return path


@pytest.fixture(params=["file", "read-only", "memory"])
def store(request: pytest.FixtureRequest, db: Path) -> Iterator[Store]:
    """The same store in a file, opened read-only, and in memory."""
    if request.param == "memory":
        with Store(":memory:") as memory:
            memory.append("c", [Message(role="user", content="Hi"), {"type": "transfer", "to": "b"}])
            memory.append("d", [Message(role="user", content="=1+1"), Message(role="user", content="bye")])
            yield memory
    else:
        with Store(db, read_only=request.param == "read-only") as opened:
            yield opened


def ran(db: Path, *arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, [f"--db={db}", "query", *arguments], catch_exceptions=False, **options)


# What a statement may do.


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT conversation, content FROM messages ORDER BY 1, version", [("c", "Hi"), ("d", "=1+1"), ("d", "bye")]),
        ("SELECT to_assistant, time = recorded_at FROM handoffs", [("b", 1)]),
        (
            "SELECT name, (SELECT count(*) FROM events WHERE conversation = key) FROM conversations",
            [("c", 2), ("d", 2)],
        ),
        ("  -- a note\n /* another */ ; WITH a AS (VALUES (1), (2)) SELECT sum(column1) FROM a; -- end", [(3,)]),
        ("VALUES (x'00ff', NULL, 1.5)", [(b"\x00\xff", None, 1.5)]),
        (ENDLESS.format("i") + " LIMIT 3", [(1,), (2,), (3,)]),
        ("SELECT value FROM json_each('[1, 2]')", [(1,), (2,)]),
        ("""SELECT '{"a": 5}' ->> 'a', row_number() OVER ()""", [(5, 1)]),
        ("SELECT name FROM pragma_table_info('conversations') WHERE pk", [("key",)]),
        ("SELECT 1 WHERE 0", []),
    ],
)
def test_what_is_read(store: Store, sql: str, rows: list[Any]) -> None:
    """Tables, views, functions that compute, recursion and JSON can be read, in every kind of store."""
    assert list(query(store, sql)) == rows


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("INSERT INTO events DEFAULT VALUES", "INSERT"),
        ("WITH a AS (SELECT 1) INSERT INTO conversations (uuid) SELECT * FROM a", "INSERT conversations"),
        ("WITH a AS (SELECT 1) UPDATE conversations SET name = 'x'", "UPDATE conversations"),
        ("WITH a AS (SELECT 1) DELETE FROM timelines", "DELETE timelines"),
        ("WITH a AS (SELECT 1) UPDATE sqlite_master SET sql = ''", "sqlite_master may not be modified"),
        ("DROP TABLE events", "DROP"),
        ("CREATE TEMP TABLE t (a)", "CREATE"),
        ("ATTACH '/tmp/x.db' AS x", "ATTACH"),
        ("VACUUM INTO '/tmp/x.db'", "VACUUM"),
        ("PRAGMA query_only = OFF", "PRAGMA"),
        ("BEGIN", "BEGIN"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("/* SELECT */ ANALYZE", "ANALYZE"),
        ("SELECT load_extension('evil')", "load_extension"),
        ("SELECT fts3_tokenizer('simple')", "fts3_tokenizer"),
        ("SELECT total_changes()", "total_changes"),
        ("SELECT * FROM pragma_function_list", "PRAGMA function_list"),
        ("SELECT writefile('/tmp/x', 'y')", "writefile"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT 1; DROP TABLE events", "one statement"),
        ("SELEKT 1", "SELEKT"),
        ("SELECT nothing FROM messages", "nothing"),
        ("SELECT", "incomplete input"),
        ("", "no statement"),
        (" -- SELECT", "no statement"),
        ("SELECT \x00", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELECT ?", "binding"),
        ("SELECT " + "1, " * 1000 + "1", "columns"),
        ("SELECT " + " " * 100_000, "100,000"),
        ("SELECT zeroblob(100000000)", "too big"),
        ("SELECT 1 LIKE printf('%2000s', '%')", "too complex"),
    ],
)
def test_what_is_refused(store: Store, sql: str, named: str) -> None:
    """Whatever does not only read is refused, by one line that names it, and the store goes on as it was."""
    with pytest.raises(QueryRefused) as refused:
        list(query(store, sql))
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [row for (row,) in query(store, "SELECT count(*) FROM events")] == [4]


def test_every_function_that_is_not_listed(db: Path) -> None:
    """No function of this SQLite that could write, load or tell of the machine is on the list."""
    with Store(db) as store, closing(sqlite3.connect(":memory:")) as plain:
        names = {name for (name,) in plain.execute("SELECT name FROM pragma_function_list")}
        refused = set()
        for name in names:
            for arguments in ("", "1", "1, 1", "1, 1, 1"):
                try:
                    list(query(store, f'SELECT "{name}"({arguments})'))
                except QueryRefused as error:
                    if error.what == f"the function {name}":
                        refused.add(name)
    assert refused <= names
    assert {"load_extension", "fts3_tokenizer", "sqlite_log", "changes", "last_insert_rowid"} & names <= refused
    assert {"abs", "json_extract", "strftime", "printf"} & refused == set()


def test_a_store_in_memory_goes_on_writing() -> None:
    """After a query, and after one that is refused, the connection of a store in memory is as it was."""
    with Store(":memory:") as store:
        store.append("c", [Message(role="user", content="Hi")])
        assert list(query(store, "SELECT content FROM messages")) == [("Hi",)]
        with pytest.raises(QueryRefused):
            query(store, "WITH a AS (SELECT 1) DELETE FROM events")
        assert store.append("c", [Message(role="user", content="x" * 100)]).last == 2
        assert store.db.rows("SELECT length(zeroblob(100000000))") == [(100000000,)]


def test_a_view_that_does_harm_does_none(db: Path) -> None:
    """Views of a file that somebody changed are held to the same list."""
    with closing(sqlite3.connect(db)) as plain:
        plain.execute("CREATE VIEW evil AS SELECT load_extension('x')")
        plain.commit()
    with Store(db) as store, pytest.raises(QueryRefused, match="load_extension"):
        query(store, "SELECT * FROM evil")


def test_parameters(store: Store) -> None:
    """Values are given beside the statement, by place or by name."""
    assert list(query(store, "SELECT ? || ?", ("a", "b"))) == [("ab",)]
    assert list(query(store, "SELECT :a", {"a": 1})) == [(1,)]


# How long, and beside whom.


def test_the_time_limit(store: Store) -> None:
    """A statement that runs for too long is ended by an error that says how long it had."""
    with pytest.raises(QueryTimedOut, match=r"ended after 0\.05 s") as ended:
        list(query(store, ENDLESS.format("count(*)"), timeout=0.05))
    assert ended.value.seconds == 0.05
    assert list(query(store, "SELECT 1", timeout=0.05)) == [(1,)]


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_limit_that_is_none(store: Store, timeout: float) -> None:
    """A time limit is above 0."""
    with pytest.raises(InvalidArgument, match="timeout"):
        query(store, "SELECT 1", timeout=timeout)


def test_the_limit_is_the_statement_s_own(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What passes between two rows that are asked for is not the statement's time, so that a reader may be slow."""
    now = [0.0]
    monkeypatch.setattr("turnlog.store.query.time.monotonic", lambda: now[0])
    with Store(db) as store:
        result = query(store, ENDLESS.format("i") + " LIMIT 1000", timeout=1)
        for _ in result:
            now[0] += 10


def test_rows_are_read_as_they_are_asked_for(db: Path) -> None:
    """Memory does not grow with the rows of a result."""
    with Store(db) as store:
        result = query(store, MILLION)
        next(result.rows)
        tracemalloc.start()
        count = sum(1 for _ in islice_of(result, 100_000))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        result.close()
        assert (count, peak < 1_000_000) == (100_000, True)


def islice_of(result: Any, count: int) -> Iterator[Any]:
    for _ in range(count):
        yield next(result.rows)


def test_while_others_write(db: Path) -> None:
    """A query neither waits for a writer nor makes one wait, and sees one state of the store to its end."""
    with Store(db) as store, Store(db) as other:
        with other.transaction():
            other.append("c", [{"type": "clear"}])
            assert list(query(store, "SELECT count(*) FROM events")) == [(4,)]
        with query(store, "SELECT a.position FROM events a, events b, events c, events d") as result:
            next(result.rows)
            other.append("c", [{"type": "clear"}])
            assert len(list(result)) == 5**4 - 1
        assert list(query(store, "SELECT count(*) FROM events")) == [(6,)]


def test_in_other_threads(db: Path) -> None:
    """A result may be read in another thread than the one that asked."""
    with Store(db) as store:
        result = query(store, ENDLESS.format("i") + " LIMIT 1000")
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(result))
        thread.start()
        thread.join()
        assert len(found) == 1000


def test_closing(db: Path) -> None:
    """A result that is closed, begun or not, leaves no connection open; what is closed has no more rows."""
    with Store(db) as store:
        for begun in (False, True):
            result = query(store, ENDLESS.format("i"))
            if begun:
                next(result.rows)
            result.close()
            result.close()
            assert list(result) == []
            assert store.redact("c", [1], reason="r").left_every_file
    with pytest.raises(StoreUnusable, match="closed"):
        query(store, "SELECT 1")


def test_a_read_only_folder(db: Path) -> None:
    """A store that nobody can write to can be queried."""
    os.chmod(db, 0o444)
    os.chmod(db.parent, 0o555)
    try:
        with Store(db, read_only=True) as store:
            assert list(query(store, "SELECT count(*) FROM events")) == [(4,)]
    finally:
        os.chmod(db.parent, 0o755)


def test_the_conversation_must_be_there(store: Store) -> None:
    """The conversation whose histories are caught up is looked for."""
    assert list(query(store, "SELECT 1", conversation="c")) == [(1,)]
    with pytest.raises(NotFound, match="nobody"):
        query(store, "SELECT 1", conversation="nobody")


# How the rows are printed.


def test_a_table(db: Path) -> None:
    """Without an option the rows are a table, each cell on one line; nothing is taken for markup."""
    result = ran(db, "SELECT 1 AS \"[red]n\", NULL AS empty, 'a\nb' AS t, x'00ff' AS bytes, '[/]' AS m")
    assert result.stdout.splitlines() == ["[red]n  empty  t    bytes  m", "1       NULL   a b  00ff   [/]"]


def test_a_long_table(db: Path) -> None:
    """A table ends after 1,000 rows and says so, and long texts are cut."""
    lines = ran(db, ENDLESS.format("i, printf('%500s', 'x')") + " LIMIT 1001").stdout.splitlines()
    assert (len(lines), lines[-1]) == (1002, "(only the first 1,000 rows are shown; --csv and --json give all)")
    assert len(ran(db, ENDLESS.format("i") + " LIMIT 1000").stdout.splitlines()) == 1001


def test_json(db: Path) -> None:
    """`--json` is a list of objects, an object a line; bytes are hexadecimal, and no column is lost."""
    result = ran(db, "SELECT 1 AS a, 2 AS a, NULL AS n, x'00ff' AS b, 9e999 AS i, 'ü\x1b' AS t", "--json")
    assert json.loads(result.stdout) == [{"a": 1, "a_2": 2, "n": None, "b": "00ff", "i": "inf", "t": "ü\x1b"}]
    assert json.loads(ran(db, "SELECT 1 WHERE 0", "--json").stdout) == []
    lines = ran(db, "VALUES (1), (2)", "--json").stdout.splitlines()
    assert lines == ['[{"column1":1}', ',{"column1":2}', "]"]


def test_csv(db: Path) -> None:
    """`--csv` has the columns' names first; quotes, commas and lines are quoted, bytes are hexadecimal."""
    result = ran(db, "SELECT 'a,\"b' AS t, 'two\nlines' AS l, NULL AS n, x'00ff' AS b, 1.5 AS f", "--csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["t", "l", "n", "b", "f"],
        ['a,"b', "two\nlines", "", "00ff", "1.5"],
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_spreadsheet_runs_a_cell(db: Path, start: str) -> None:
    """A text that a spreadsheet would run begins with an apostrophe in CSV, a name too; numbers stay numbers."""
    result = ran(db, f"SELECT char({ord(start)}) || '1' AS \"=x\", -5 AS n, -1.5 AS f, '5' AS t", "--csv")
    header, row = csv.reader(io.StringIO(result.stdout, newline=""))
    assert (header[0], row) == ("'=x", [f"'{start}1", "-5", "-1.5", "5"])


@pytest.mark.parametrize("option", ["", " --csv", " --json"])
def test_text_commands_no_terminal(db: Path, option: str) -> None:
    """What would command a terminal is escaped on one, in each form; files and pipes get it as it is."""
    with Store(db) as store:
        store.append("e", [Message(role="user", content=ORDERS)])
    command = f"query SELECT/**/content/**/FROM/**/messages{option}"
    if not option:
        assert not FORBIDDEN & set(ran(db, "SELECT content FROM messages").stdout)
    assert not FORBIDDEN & set(on_terminal(db, command).replace("\x1b[1m", "").replace("\x1b[0m", ""))


def test_standard_input(db: Path) -> None:
    """`-` reads the statement from standard input."""
    assert json.loads(ran(db, "-", "--json", input="SELECT 7 AS n\n").stdout) == [{"n": 7}]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["DELETE FROM events"], 1, "Error: query: 'DELETE' is refused: a statement begins with SELECT, VALUES, WITH"),
        (["SELECT load_extension('x')"], 1, "Error: query: the function load_extension is refused: a query only reads"),
        (["SELECT \x1b"], 1, 'Error: query: unrecognized token: "\\x1b"'),
        ([ENDLESS.format("count(*)"), "--timeout", "0.05"], 1, "Error: query: ended after 0.05 s, its time limit"),
        (["SELECT 1", "--conversation", "nobody"], 1, "Error: conversation 'nobody' does not exist"),
        (["SELECT 1", "--timeout", "0"], 1, "Error: timeout: 0.0 is not a number of seconds above 0"),
        (["SELECT 1", "--csv", "--json"], 2, "Error: give --csv or --json"),
    ],
)
def test_a_refusal_is_one_line(db: Path, arguments: list[str], code: int, line: str) -> None:
    """What is refused is named in one line, with exit code 1; wrong usage is 2."""
    result = ran(db, *arguments)
    assert (result.exit_code, result.stdout, result.stderr.splitlines()[-1]) == (code, "", line)
