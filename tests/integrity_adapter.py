"""turnlog as `agmi-check` attacks it: `agmi-check --adapter integrity_adapter:WithCheckpoint`, from this folder.

The attacker writes to the file and nothing else, and puts the triggers back afterwards, so that only the edit can show.
The checkpoint is kept elsewhere: here in the auditor's memory, where no edit of the file reaches it.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record  # type: ignore[import-untyped]
from test_verify import unguarded

from turnlog.store import Checkpoint, Store
from turnlog.store.chain import digest_of_body, digest_of_event, genesis, header

CONTENT = ("type", "v", "scope", "id", "recorded_at", "occurred_at", "frame", "body", "salt", "body_digest", "digest")
COLUMNS = ("position", "conversation", "version", *CONTENT)


class WithoutCheckpoint(MemoryAdapter):  # type: ignore[misc]
    """Audited by `verify` alone."""

    name = "turnlog, no checkpoint"
    detection_point = "audit"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True
    keeps_checkpoint = False
    knows_the_format = False

    def setup(self) -> None:
        self._folder = TemporaryDirectory()
        self._path = Path(self._folder.name) / "turnlog.db"
        self._kept: Checkpoint | None = None
        self._edited = False
        self._store = Store(self._path, durability="normal")

    def teardown(self) -> None:
        self._store.close()
        self._folder.cleanup()

    # What is written through the store's own interface.

    def seed(self, n: int) -> None:
        self._say("first", n)
        if self.keeps_checkpoint:
            self._kept = self._store.checkpoint()

    def seed_other(self, n: int) -> None:
        self._say("second", n)

    def append_genuine(self) -> None:
        self.seed(1)

    def _say(self, conversation: str, count: int) -> None:
        call = self._store.conversation(conversation)
        said = len(self._rows(conversation))
        for number in range(said, said + count):
            call.user(f"{conversation}: the limit is {number}")

    # What the attacker does to the file.

    def _rows(self, conversation: str) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as plain:
            return plain.execute(
                f"SELECT {', '.join(COLUMNS)} FROM events WHERE conversation ="
                " (SELECT key FROM conversations WHERE name = ?) ORDER BY version",
                (conversation,),
            ).fetchall()

    def _read(self, conversation: str) -> list[Record]:
        rows = self._rows(conversation)
        return [Record(seq, dict(zip(COLUMNS, row, strict=True))) for seq, row in enumerate(rows)]

    def read_all_raw(self) -> list[Record]:
        return self._read("first")

    def read_other_raw(self) -> list[Record]:
        return self._read("second")

    def write_raw(self, record: Record) -> None:
        """The record's content in the row at its place or, past the last one, in a new row."""
        rows = self._rows("first")
        content = [record.fields[column] for column in CONTENT]
        if record.seq < len(rows):
            changes = ", ".join(f"{column} = ?" for column in CONTENT)
            self._edit(f"UPDATE events SET {changes} WHERE position = ?", *content, rows[record.seq][0])
        else:
            _, conversation, version, *_ = rows[-1]
            self._edit(
                f"INSERT INTO events ({', '.join(COLUMNS)}) VALUES (1 + (SELECT max(position) FROM events),"
                f" ?, ?, {', '.join('?' * len(CONTENT))})",
                conversation,
                version + 1,
                *content,
            )

    def delete_raw(self, seq: int) -> None:
        self._edit("DELETE FROM events WHERE position = ?", self._rows("first")[seq][0])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self.write_raw(Record(victim_seq, dict(donor.fields)))

    def read_meta(self, seq: int) -> dict[str, Any]:
        fields = self.read_all_raw()[seq].fields
        return {column: fields[column] for column in ("scope", "recorded_at", "occurred_at")}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        scope = "coder" if meta.pop("agmi_meta_tampered", False) else meta["scope"]
        self._edit("UPDATE events SET scope = ? WHERE position = ?", scope, self._rows("first")[seq][0])

    def mutate_payload(self, record: Record) -> Record:
        body = json.loads(record.fields["body"])
        body["content"] += " [TAMPERED]"
        record.fields["body"] = json.dumps(body, separators=(",", ":"))
        return record

    def snapshot_store(self) -> bytes:
        self._store.close()
        copy = self._path.read_bytes()
        self._store = Store(self._path, durability="normal")
        return copy

    def restore_store(self, token: bytes) -> None:
        self._store.close()
        self._path.write_bytes(token)
        self._store = Store(self._path, durability="normal")

    def _edit(self, sql: str, *values: Any) -> None:
        self._edited = True
        with unguarded(self._path) as plain:
            plain.execute(sql, values)

    # What each record is, for the check that an edit landed.

    def identity_of(self, record: Record) -> str:
        return f"{record.fields['conversation']}:{record.fields['version']}"

    def payload_of(self, record: Record) -> str:
        return str(record.fields["body"])

    def owner_of(self, record: Record) -> str:
        return str(record.fields["conversation"])

    # The audit.

    def reload(self) -> None:
        self._store.close()
        if self._edited and self.knows_the_format:
            self._chain_anew()
        self._store = Store(self._path, durability="normal")

    def verify(self) -> bool:
        faults = self._store.verify(self._kept).faults
        self.verify_detail = faults[0].why if faults else None
        return not faults

    def _chain_anew(self) -> None:
        """Cover the edit up as docs/format.md teaches it: no gap, no time that falls, every digest right."""
        with unguarded(self._path) as plain:
            rows = plain.execute(
                f"SELECT uuid, {', '.join(COLUMNS)} FROM events JOIN conversations ON key = conversation"
            )
            events = sorted((dict(zip(("uuid", *COLUMNS), row, strict=True)) for row in rows), key=_position)
            plain.execute("DELETE FROM events")
            heads: dict[str, tuple[int, bytes]] = {}
            now = 0
            for position, event in enumerate(events, 1):
                version, digest = heads.get(event["uuid"], (0, genesis(event["uuid"])))
                event["recorded_at"] = now = max(now, event["recorded_at"])
                about = (event[column] for column in ("type", "v", "scope", "id", "recorded_at", "occurred_at"))
                said = digest_of_body(event["salt"], event["body"])
                digest = digest_of_event(digest, header(event["uuid"], version + 1, *about), event["frame"], said)
                heads[event["uuid"]] = version + 1, digest
                event |= {"position": position, "version": version + 1, "digest": digest}
                values = [event[column] for column in COLUMNS]
                plain.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(values))})", values)


class WithCheckpoint(WithoutCheckpoint):
    """Audited by `verify --checkpoint`."""

    name = "turnlog, checkpoint kept elsewhere"
    keeps_checkpoint = True


class KnowingWithoutCheckpoint(WithoutCheckpoint):
    """Attacked by someone who knows the format and computes the chain anew."""

    name = "turnlog, no checkpoint, chain computed anew"
    knows_the_format = True


class KnowingWithCheckpoint(KnowingWithoutCheckpoint, WithCheckpoint):
    """The same, with a checkpoint kept elsewhere."""

    name = "turnlog, checkpoint kept elsewhere, chain computed anew"


def _position(event: dict[str, Any]) -> int:
    return int(event["position"])
