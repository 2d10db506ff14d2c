"""Restores of exports that somebody else wrote: with frames of their own, and digests that fit them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_append import said
from test_restore import refused, restore

from turnlog.projections import history
from turnlog.store import Store, line_of
from turnlog.store.chain import digest_of_body, digest_of_event


class TestFrames:
    """An export that somebody else wrote, with frames of its own and digests that fit them."""

    @staticmethod
    def lines(frame: str, event: dict[str, Any] | None = None) -> list[str]:
        """Return a conversation whose second event is a note, or the one that is given, and has this frame."""
        with Store(":memory:") as store:
            store.append("c", [said("hi"), event or {"type": "message", "role": "system", "content": "note"}])
            first, note = store.events("c")
            body_digest = digest_of_body(note.salt or b"", note.body_text or "")
            digest = digest_of_event(first.digest, note.header, frame, body_digest)
            return [line_of(first, "c"), line_of(msgspec.structs.replace(note, frame_text=frame, digest=digest))]

    def test_keys_in_another_order(self) -> None:
        """A note is a note wherever in its frame that stands, for every reader."""
        with Store(":memory:") as store:
            restore(store, self.lines('{"parts":["text"],"role":"system"}'))
            assert store.verify().faults == []
            view = history(store, "c")
            assert [(message.version, message.content) for message in view.messages] == [(1, "hi"), (2, "note")]
            assert [message.role for message in view.messages] == ["user", "system"]

    @pytest.mark.parametrize(
        "frame", ['{"role": "system","parts":["text"]}', '{"role":"\\u0073ystem","parts":["text"]}']
    )
    def test_written_otherwise_than_the_format_says(self, frame: str) -> None:
        """White space outside of texts and needless escapes are refused, since the text of a frame is looked at."""
        with Store(":memory:") as store:
            assert "frame" in str(refused(store, self.lines(frame)))

    @pytest.mark.parametrize(
        ("frame", "usual"),
        [
            ('{"role":"system","parts":["text"]%s}', ',"interim":false'),
            ('{"role":"system","parts":["text"]%s}', ',"tool_calls":[]'),
            ('{"role":"system","parts":["text"]%s}', ',"assistant":null'),
            ('{"summary_of":1,"text":true%s}', ',"role":"user"'),
            ('{"summary_of":1,"text":true%s}', ',"keep":[]'),
            ('{"summary_of":1,"text":true,"usage":{"total_tokens":2%s}}', ',"prompt_tokens":0'),
            ('{"summary_of":1,"text":true,"usage":{"total_tokens":2%s}}', ',"cached_tokens":null'),
        ],
    )
    def test_what_is_usual_is_left_out(self, frame: str, usual: str) -> None:
        """A frame that writes down a usual value is refused, at any depth, and without it is restored."""
        tokens = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 2}
        of_summary = {"type": "summary", "text": "s", "summary_of": 1} | ({"usage": tokens} if "usage" in frame else {})
        event = of_summary if "summary_of" in frame else None
        with Store(":memory:") as store:
            assert "frame" in str(refused(store, self.lines(frame % usual, event)))
            assert restore(store, self.lines(frame % "", event))[0].added == 2

    def test_fields_of_a_newer_build(self) -> None:
        """A field of the frame that this build does not know is restored as it is, whatever its value."""
        with Store(":memory:") as store:
            assert restore(store, self.lines('{"role":"system","parts":["text"],"mood":false}'))[0].added == 2

    @pytest.mark.parametrize(
        ("event", "frame"),
        [
            (
                {"type": "message", "role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]},
                '{"role":"assistant","tool_calls":[{"id":"t","name":"f"}]}',
            ),
            (
                {"type": "message", "role": "tool", "tool_call_id": "t", "content": "", "interim": True},
                '{"role":"tool","tool_call_id":"t"}',
            ),
            (
                {"type": "summary", "text": "s", "summary_of": 1, "first": 1, "last": 1, "keep": [1]},
                '{"summary_of":1,"text":true,"first":1,"last":1}',
            ),
            (
                {"type": "message", "role": "user", "content": [{"type": "audio", "transcript": "x"}]},
                '{"role":"user","parts":["audio"]}',
            ),
        ],
        ids=["a call among the parts", "interim", "keep", "a transcript"],
    )
    def test_a_frame_that_leaves_out_something(self, event: dict[str, Any], frame: str) -> None:
        """A frame without something that the body gives is refused: a call's place, `interim`, `keep`, a transcript."""
        with Store(":memory:") as store:
            assert "frame" in str(refused(store, self.lines(frame, event)))
