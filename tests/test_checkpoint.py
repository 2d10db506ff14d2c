"""Checkpoints kept elsewhere: what they show that a store cannot show by itself (DESIGN section 7)."""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from test_append import said
from test_chain import export
from test_verify import unguarded

from turnlog.cli import main
from turnlog.store import Checkpoint, Fault, InvalidArgument, Store, read_checkpoint, read_line

KEY = b"kept by the auditor"
keyed = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of two conversations and a fork of the first."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("one", [said("a"), said("b"), said("c")])
        store.append("two", [said("d"), said("e")])
        store.fork("one", 2, "three")
        store.append("three", [said("f")])
    return path


def take(path: Path, key: bytes | None = None) -> Checkpoint:
    with Store(path, read_only=True) as store:
        return store.checkpoint(key)


def where(faults: list[Fault]) -> list[tuple[str | None, int | None]]:
    return [(fault.conversation, fault.version) for fault in faults]


def held(path: Path, kept: Checkpoint, key: bytes | None = None) -> list[tuple[str | None, int | None]]:
    """Where verify finds a fault when it is given a checkpoint."""
    with Store(path, read_only=True) as store:
        return where(store.verify(kept, key).faults)


def uuids(path: Path) -> dict[str | None, str]:
    with Store(path, read_only=True) as store:
        return {each.conversation: each.uuid for each in store.conversations()}


def document(kept: Checkpoint) -> Any:
    """A checkpoint as it stands in its file."""
    return json.loads(msgspec.json.encode(kept))


def root_text(kept: Any) -> bytes:
    """What the root of a checkpoint is made of, as docs/format.md says."""
    lines = (f"{m['uuid']} {m['version']} {m['digest']} {m.get('name', '-')}\n" for m in kept["conversations"])
    return "".join(lines).encode()


def reread(changed: Any) -> Checkpoint:
    return read_checkpoint(json.dumps(changed).encode())


def delete_newest(path: Path, name: str, count: int = 1) -> None:
    """The newest events of a conversation, gone behind the store's back."""
    with unguarded(path) as plain:
        newest = (
            "SELECT position FROM events JOIN conversations ON key = conversation WHERE name = ?"
            " ORDER BY version DESC LIMIT ?"
        )
        plain.execute(f"DELETE FROM events WHERE position IN ({newest})", (name, count))


class TestWhatItSays:
    @keyed
    def test_the_marks(self, path: Path, key: bytes | None) -> None:
        """A checkpoint holds each conversation's uuid, last version and that event's digest, by uuid."""
        kept = take(path, key)
        with Store(path) as store:
            heads = sorted((each.uuid, each.version) for each in store.conversations())
            digests = [store.event(uuid, version).digest.hex() for uuid, version in heads]
        marks = [(mark.uuid, mark.version, mark.digest) for mark in kept.conversations]
        assert marks == [(*head, digest) for head, digest in zip(heads, digests, strict=True)]
        assert kept.keyed is (key is not None)

    @keyed
    def test_the_root(self, path: Path, key: bytes | None) -> None:
        """The root is over a line for each conversation: its SHA-256, or the HMAC-SHA-256 with the key."""
        with Store(path) as store:
            store.rename("two", None)
        kept = take(path, key)
        assert [mark for mark in kept.conversations if mark.name is None]
        lines = root_text(document(kept))
        assert kept.root == (hmac.new(key, lines, "sha256") if key else sha256(lines)).hexdigest()

    @keyed
    def test_there_and_back(self, path: Path, key: bytes | None) -> None:
        """A checkpoint written as JSON and read again is the same, and the store holds to it."""
        kept = take(path, key)
        assert read_checkpoint(msgspec.json.encode(kept)) == kept
        assert reread(document(kept)) == kept
        assert held(path, reread(document(kept)), key) == []

    def test_the_names(self, path: Path) -> None:
        """A conversation's name is there as the SHA-256 of its salt, its uuid and itself; one without has none."""
        with Store(path) as store:
            store.rename("two", None)
            rows = store.db.rows("SELECT uuid, name_salt, name FROM conversations")
        digests = {
            uuid: name and sha256(f"{salt.hex()}\n{uuid}\n{name}".encode()).hexdigest() for uuid, salt, name in rows
        }
        assert {mark.uuid: mark.name for mark in take(path).conversations} == digests
        assert sorted(digests.values(), key=bool)[0] is None

    def test_the_file_says_what_it_is(self, path: Path) -> None:
        """The file says that it is a checkpoint and of which version, keyed or not."""
        for key in (None, KEY):
            assert document(take(path, key))["turnlog_checkpoint"] == 1

    def test_an_empty_store(self) -> None:
        """A checkpoint of a store without conversations is one, too."""
        with Store(":memory:") as store:
            kept = store.checkpoint()
            assert kept.conversations == []
            assert store.verify(kept).faults == []


class TestWhatIsNoFault:
    @keyed
    def test_growth(self, path: Path, key: bytes | None) -> None:
        """A store that grew, was renamed in, forked, redacted and erased since has no fault."""
        kept = take(path, key)
        with Store(path) as store:
            store.append("one", [said("more")])
            store.append("four", [said("new")])
            store.fork("three", 4, "five")
            store.rename("two", "another")
            store.redact("one", [3], reason="r")
            store.erase("another")
        assert held(path, kept, key) == []

    def test_a_restored_copy(self, path: Path) -> None:
        """A store restored from exports holds to the checkpoint of the one it was exported from."""
        kept = take(path)
        with Store(path) as store, Store(":memory:") as other:
            for name in ("two", "three", "one"):
                other.restore(map(read_line, export(store, name)))
            assert other.verify(kept).faults == []


class TestNames:
    """A rename is no event: names that are not those of the checkpoint are listed, and are no faults."""

    @staticmethod
    def listed(path: Path, kept: Checkpoint) -> dict[str, str | None]:
        with Store(path, read_only=True) as store:
            found = store.verify(kept)
        assert found.faults == []
        return {each.conversation: each.name for each in found.renamed}

    def test_as_they_were(self, path: Path) -> None:
        """A name that is as it was, or that changed and was given back, is not listed."""
        kept = take(path)
        assert self.listed(path, kept) == {}
        with Store(path) as store:
            store.rename("two", "another")
            store.rename("another", "two")
            store.append("two", [said("more")])
            store.append("since", [said("x")])
        assert self.listed(path, kept) == {}

    def test_changed(self, path: Path) -> None:
        """Names that were changed, dropped, given or exchanged behind the store's back are listed, as they are now."""
        with Store(path) as store:
            owners = [store.stream(name).uuid for name in ("one", "two", "three")]
            store.rename("three", None)
            kept = store.checkpoint()
            store.rename("one", "uno")
            store.rename("two", None)
            store.rename(owners[2], "tres")
        assert self.listed(path, kept) == dict(zip(owners, ("uno", None, "tres"), strict=True))

    def test_exchanged(self, path: Path) -> None:
        """Two names that were exchanged by a plain connection are listed, though the store knows both."""
        kept, names = take(path), uuids(path)
        with unguarded(path) as plain:
            plain.execute("UPDATE conversations SET name = iif(name = 'one', 'x', 'one') WHERE name IN ('one', 'two')")
            plain.execute("UPDATE conversations SET name = 'two' WHERE name = 'x'")
        assert self.listed(path, kept) == {names["one"]: "two", names["two"]: "one"}

    def test_with_their_salts(self, path: Path) -> None:
        """A name that took its salt along to another conversation is listed: the uuid is in the digest."""
        kept, names = take(path), uuids(path)
        with unguarded(path) as plain:
            (salt,) = plain.execute("SELECT name_salt FROM conversations WHERE name = 'one'").fetchone()
            plain.execute("UPDATE conversations SET name = 'x' WHERE name = 'one'")
            plain.execute("UPDATE conversations SET name = 'one', name_salt = ? WHERE name = 'two'", (salt,))
        assert self.listed(path, kept) == {names["one"]: "x", names["two"]: "one"}

    def test_erased(self, path: Path) -> None:
        """An erasure takes the salt with the name out of every file, so that the name cannot be guessed any more."""
        with Store(path) as store:
            owner = store.stream("two").uuid
            ((salt,),) = store.db.rows("SELECT name_salt FROM conversations WHERE name = 'two'")
            kept = store.checkpoint()
            store.erase("two")
            assert store.db.rows("SELECT name, name_salt FROM conversations WHERE uuid = ?", (owner,)) == [(None, None)]
        assert not any(salt in file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
        assert self.listed(path, kept) == {owner: None}

    def test_salts(self, path: Path) -> None:
        """The salt is made with the first name, kept over renames, and another once the name was dropped."""

        def salt() -> Any:
            return store.db.rows("SELECT name_salt FROM conversations WHERE uuid = ?", (owner,))[0][0]

        with Store(path) as store:
            owner, first = store.fork("one", 2).conversation, None
            assert salt() is None
            store.rename(owner, "four")
            first = salt()
            store.rename("four", "five")
            assert salt() == first
            assert len(first) == 16
            store.rename("five", None)
            assert salt() is None
            store.rename(owner, "four")
            assert salt() not in (None, first)

    def test_the_command(self, path: Path, tmp_path: Path) -> None:
        """`verify --checkpoint` lists the names on a line each, says how many in the verdict, and ends with 0."""
        run(path, "checkpoint", f"--output={tmp_path / 'kept.json'}")
        owner = uuids(path)["two"]
        run(path, "rename", "two", "zwei")
        told = run(path, "verify", f"--checkpoint={tmp_path / 'kept.json'}")
        assert (told.exit_code, told.stdout.splitlines()) == (
            0,
            [
                f"conversation {owner}: its name is not that of the checkpoint: it is zwei",
                "7 events of 3 conversations: no fault; 1 name not as at the checkpoint",
            ],
        )
        as_json = json.loads(run(path, "verify", f"--checkpoint={tmp_path / 'kept.json'}", "--json").stdout)
        assert as_json["renamed"] == [{"conversation": owner, "name": "zwei"}]


class TestWhatItShows:
    @pytest.mark.parametrize(("name", "count"), [("three", 1), ("three", 2), ("two", 2), ("one", 1)])
    @keyed
    def test_truncation(self, path: Path, key: bytes | None, name: str, count: int) -> None:
        """A conversation whose newest events are gone is named, with the version where it ends now."""
        kept, owner, last = take(path, key), uuids(path)[name], {"one": 3, "two": 2, "three": 4}[name]
        delete_newest(path, name, count)
        assert (owner, last - count) in held(path, kept, key)

    def test_the_last_event_of_all(self, path: Path) -> None:
        """That the newest event of the whole store is gone shows by a checkpoint alone."""
        with Store(path) as store:
            owner = store.append("two", [said("newest")]).conversation
        kept = take(path)
        delete_newest(path, "two")
        with Store(path) as store:
            assert where(store.verify().faults) == []
            assert where(store.verify(kept).faults) == [(owner, 2)]

    @keyed
    def test_rollback(self, path: Path, key: bytes | None) -> None:
        """An older copy of the file put in the place of the newer one has a fault for each conversation that grew."""
        old, names = path.read_bytes(), uuids(path)
        with Store(path) as store:
            store.append("one", [said("newer")])
            store.append("three", [said("newer")])
            store.append("born", [said("since")])
            born = store.stream("born").uuid
        kept = take(path, key)
        path.write_bytes(old)
        with Store(path) as store:
            assert store.verify().faults == []
        assert set(held(path, kept, key)) == {(names["one"], 3), (names["three"], 4), (born, None)}

    @keyed
    def test_a_vanished_conversation(self, path: Path, key: bytes | None) -> None:
        """A conversation that is gone with all its events is named, whatever else grew since."""
        with Store(path) as store:
            owner = store.append("gone", [said("x"), said("y")]).conversation
        kept = take(path, key)
        with unguarded(path) as plain:
            plain.execute("DELETE FROM events WHERE conversation = 4")
            plain.execute("DELETE FROM conversations WHERE key = 4")
        with Store(path) as store:
            store.append("one", [said("in its place"), said("in its place")])
            assert where(store.verify().faults) == []
        assert held(path, kept, key) == [(owner, None)]

    @keyed
    def test_rewritten_history(self, path: Path, key: bytes | None) -> None:
        """A history made anew from the first event, with a whole chain of its own, is named where it was kept."""
        kept, owner = take(path, key), uuids(path)["two"]
        rewrite(path, owner, [said("d, they say"), said("e")])
        with Store(path) as store:
            assert store.verify().faults == []
        assert held(path, kept, key) == [(owner, 2)]

    def test_a_rewritten_history_that_grew(self, path: Path) -> None:
        """A rewritten history that has more events than it had is named at the version of the checkpoint."""
        kept, owner = take(path), uuids(path)["two"]
        rewrite(path, owner, [said("d"), said("not e"), said("and more")])
        assert held(path, kept) == [(owner, 2)]

    def test_beside_a_bad_event(self, path: Path) -> None:
        """What a checkpoint shows is told beside what verify finds by itself."""
        names, kept = uuids(path), take(path)
        with unguarded(path) as plain:
            plain.execute("UPDATE events SET body = '{}' WHERE position = 1")
        delete_newest(path, "three")
        found = held(path, kept)
        assert (names["one"], 1) in found
        assert (names["three"], 3) in found


def rewrite(path: Path, owner: str, events: list[dict[str, Any]]) -> None:
    """Another history of a conversation with a whole chain, made by the store itself, in the place of the first."""
    identity = uuid.UUID(owner)
    with Store(":memory:") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: identity)
        assert store.append("two", events).conversation == owner
        rows = store.db.rows("SELECT * FROM events ORDER BY version")
    with unguarded(path) as plain:
        first = plain.execute("SELECT min(position) FROM events WHERE conversation = 2").fetchone()[0]
        last = plain.execute("SELECT max(position) FROM events").fetchone()[0]
        old = plain.execute("DELETE FROM events WHERE conversation = 2").rowcount
        for number, row in enumerate(rows):
            position = first + number if number < old else last + number - old + 1
            plain.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", (position, 2, *row[2:]))


def without_mark(kept: Any) -> None:
    del kept["conversations"][0]


def older_mark(kept: Any) -> None:
    kept["conversations"][0]["version"] -= 1


def other_digest(kept: Any) -> None:
    kept["conversations"][0]["digest"] = "00" * 32


def other_uuid(kept: Any) -> None:
    kept["conversations"][0]["uuid"] = "00000000-0000-4000-8000-000000000000"


def other_name(kept: Any) -> None:
    kept["conversations"][0]["name"] = "00" * 32


def no_name(kept: Any) -> None:
    del kept["conversations"][0]["name"]


def other_root(kept: Any) -> None:
    kept["root"] = "00" * 32


def no_root(kept: Any) -> None:
    kept["root"] = ""


def odd_root(kept: Any) -> None:
    kept["root"] = "é"


TAMPERED = [without_mark, older_mark, other_digest, other_uuid, other_name, no_name, other_root, no_root, odd_root]


class TestTheFile:
    @pytest.mark.parametrize("change", TAMPERED)
    @keyed
    def test_tampered_with(self, path: Path, key: bytes | None, change: Callable[[Any], None]) -> None:
        """A checkpoint of which a mark or the root is not as it was written is told of, before any conversation."""
        kept = document(take(path, key))
        change(kept)
        assert held(path, reread(kept), key)[0] == (None, None)

    @pytest.mark.parametrize("change", TAMPERED[:6])
    def test_tampered_with_and_a_root_made_anew(self, path: Path, change: Callable[[Any], None]) -> None:
        """A root made anew without the key is not the keyed one."""
        kept = document(take(path, KEY))
        change(kept)
        lines = root_text(kept)
        for root in (sha256(lines), hmac.new(b"another key", lines, "sha256"), hmac.new(b"", lines, "sha256")):
            assert held(path, reread(kept | {"root": root.hexdigest()}), KEY)[0] == (None, None)

    def test_made_keyless(self, path: Path) -> None:
        """One who expects a keyed checkpoint, and gives the key, is told of one whose root was made without."""
        kept = document(take(path, KEY))
        without_mark(kept)
        lines = root_text(kept)
        forged = reread(kept | {"root": sha256(lines).hexdigest(), "keyed": False})
        assert held(path, forged, KEY) == [(None, None)]

    @pytest.mark.parametrize("key", [None, b"", b"another key", KEY + b"\n"])
    def test_a_wrong_key_or_none(self, path: Path, key: bytes | None) -> None:
        """A keyed checkpoint needs its own key; without it, that is told, and the marks are compared all the same."""
        kept, owner = take(path, KEY), uuids(path)["three"]
        assert held(path, kept, key) == [(None, None)]
        delete_newest(path, "three")
        assert held(path, kept, key) == [(None, None), (owner, 3)]

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"[]", b"null", b"7", b'{"conversations":[]}', b"\xff\xfe", b"[" * 9999]
    )
    def test_what_is_no_checkpoint(self, data: bytes) -> None:
        """A file that is no checkpoint is refused as one, with its beginning."""
        with pytest.raises(InvalidArgument) as refused:
            read_checkpoint(data)
        assert refused.value.field == "checkpoint"
        assert refused.value.value == data[:40]

    @pytest.mark.parametrize("more", [{}, {"conversations": {"uuid": 3}}, {"root": None}])
    def test_a_newer_version(self, path: Path, more: dict[str, Any]) -> None:
        """A checkpoint of a newer version is refused by that version, whatever its shape is."""
        with pytest.raises(InvalidArgument) as refused:
            reread(document(take(path)) | {"turnlog_checkpoint": 2} | more)
        assert (refused.value.field, refused.value.value) == ("turnlog_checkpoint", 2)


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)


class TestCommands:
    @pytest.mark.parametrize("options", [[], ["--json"]], ids=["for people", "json"])
    @keyed
    def test_there_and_back(self, path: Path, tmp_path: Path, key: bytes | None, options: list[str]) -> None:
        """`checkpoint --output FILE` writes what `verify --checkpoint FILE` holds the store to, with a key file too."""
        (tmp_path / "key").write_bytes(key or b"")
        with_key = [f"--key-file={tmp_path / 'key'}"] if key else []
        file = tmp_path / "kept.json"
        taken = run(path, "checkpoint", f"--output={file}", *with_key, *options)
        assert (taken.exit_code, taken.stderr) == (0, "")
        assert take(path, key).root in taken.stdout
        assert run(path, "verify", f"--checkpoint={file}", *with_key, *options).exit_code == 0
        delete_newest(path, "three")
        told = run(path, "verify", f"--checkpoint={file}", *with_key, *options)
        assert told.exit_code == 1
        assert uuids(path)["three"] in told.stdout

    def test_to_standard_output(self, path: Path) -> None:
        """`checkpoint` without a file prints the checkpoint itself."""
        printed = read_checkpoint(run(path, "checkpoint").stdout_bytes)
        kept = take(path)
        assert (printed.conversations, printed.root) == (kept.conversations, kept.root)

    def test_a_missing_key(self, path: Path, tmp_path: Path) -> None:
        """`verify` of a keyed checkpoint without its key ends with 1 and says so."""
        (tmp_path / "key").write_bytes(KEY)
        run(path, "checkpoint", f"--output={tmp_path / 'kept.json'}", f"--key-file={tmp_path / 'key'}")
        told = run(path, "verify", f"--checkpoint={tmp_path / 'kept.json'}")
        assert told.exit_code == 1
        assert told.stdout.startswith("the store: the checkpoint was made with a key")

    def test_no_checkpoint(self, path: Path, tmp_path: Path) -> None:
        """A file that is no checkpoint is refused in one line."""
        (tmp_path / "kept.json").write_text("[]")
        told = run(path, "verify", f"--checkpoint={tmp_path / 'kept.json'}")
        assert (told.exit_code, told.stdout) == (1, "")
        assert told.stderr.startswith("Error: checkpoint")
        assert len(told.stderr.splitlines()) == 1
