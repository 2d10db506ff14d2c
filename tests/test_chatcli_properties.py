"""Any session document comes back from its import as it was, to the last key (DESIGN section 8)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.formats import chatcli
from turnlog.formats.transfers import TransferTools
from turnlog.importing import Imported, import_file
from turnlog.projections import describe, timeline
from turnlog.projections.compaction import compact
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import Store

Json = dict[str, Any]
KEYS = ("chat_history", "agent_history", "coder_history", "shared_memory")

# Keys of events and of other formats are no keys of a session: they come back like any other.
UNKNOWN = st.text(min_size=1, max_size=3).map("_".__add__) | st.sampled_from(("id", "scope", "v", "extra", "body"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
MORE = st.dictionaries(UNKNOWN, VALUES, max_size=2)
METAS = st.none() | st.builds(
    lambda more, known: more | known,
    MORE,
    st.fixed_dictionaries(
        {},
        optional={
            "is_summary": st.sampled_from((True, True, False, 1, "true", None)),
            "summary_of": st.sampled_from((14, 0, -1, True, 2.5, "14", None)),
            "mode": st.sampled_from(("chat", "agent", "coder", "", None)),
        },
    ),
)
PARTS = st.lists(
    st.sampled_from(({"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": "u"}}))
    | st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}, optional={"_cache": VALUES}),
    max_size=3,
)
CONTENTS = st.none() | st.just("") | st.text(max_size=4) | PARTS
CALL_IDS = st.sampled_from(("t1", "t2"))
ARGUMENTS = st.sampled_from(("{}", '{"destination": "b"}', "{")) | st.dictionaries(st.text(max_size=2), VALUES)
FUNCTIONS = st.fixed_dictionaries(
    {"name": st.sampled_from(("f", "transfer_to_b", "transferCall")), "arguments": ARGUMENTS}, optional={"_n": VALUES}
)
CALLS = st.fixed_dictionaries(
    {"id": CALL_IDS, "function": FUNCTIONS}, optional={"type": st.just("function"), "index": VALUES}
)
SPOKEN: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.sampled_from(("system", "developer", "user", "assistant")), "content": CONTENTS},
    optional={"name": st.none() | st.sampled_from(("Ada", "é")), "tool_calls": st.lists(CALLS, max_size=1)},
)
CALLING: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.just("assistant"), "tool_calls": st.lists(CALLS, min_size=1, max_size=2)},
    optional={"content": CONTENTS, "function_call": st.none() | FUNCTIONS},
)
ANSWERS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.just("tool"), "tool_call_id": CALL_IDS}, optional={"content": CONTENTS, "name": st.just("f")}
)
ANSWERS_BEFORE: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.just("function"), "content": CONTENTS, "name": st.just("f")}
)


@st.composite
def objects(draw: st.DrawFn, known: st.SearchStrategy[Json], more: st.SearchStrategy[Json] = MORE) -> Json:
    """An object with keys that no format knows, in any order."""
    return dict(draw(st.permutations(list((draw(more) | draw(known)).items()))))


def with_meta(messages: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    said = st.builds(lambda message, meta: message | {"meta": meta}, messages, METAS)
    return objects(messages | said)


MESSAGES = with_meta(st.one_of(SPOKEN, SPOKEN, CALLING, ANSWERS, ANSWERS_BEFORE))
SYSTEM = with_meta(st.fixed_dictionaries({"role": st.just("system"), "content": CONTENTS}))
HISTORIES = st.lists(MESSAGES, max_size=4) | st.builds(
    lambda system, rest: [system, *rest], SYSTEM, st.lists(MESSAGES, max_size=3)
)
LISTS: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"version": st.just(2), "chat_history": HISTORIES}, optional=dict.fromkeys(KEYS[1:], HISTORIES)
)
SESSIONS = objects(LISTS.filter(lambda lists: any(lists.get(key) for key in KEYS)))
settled = settings(max_examples=100, deadline=None)


def take(store: Store, document: Any, infer: bool, conversation: str = "c") -> Imported:
    tools = TransferTools() if infer else None
    data = json.dumps(document).encode()
    (imported,) = import_file(store, "s.json", data, conversation, format="chatcli", tools=tools)
    return imported


def given_back(store: Store, conversation: str = "c") -> Json:
    document = chatcli.write(lambda scope: timeline(store, conversation, scope).held(), describe(store, conversation))
    decoded: Json = json.loads(msgspec.json.encode(document))
    return decoded


def exact(document: Any) -> str:
    """A document as text in which 1, 1.0 and true differ, and the order of keys does not count."""
    return json.dumps(document, sort_keys=True)


@settled
@given(document=SESSIONS, infer=st.booleans())
def test_any_session_comes_back(document: Json, infer: bool) -> None:
    """Import then export gives an equal document, whatever it holds, and the same again adds nothing."""
    with Store(":memory:") as store:
        added = take(store, document, infer).added
        assert exact(given_back(store)) == exact(document)
        assert take(store, document, infer) == Imported("c", 0, added)


@settled
@given(document=HISTORIES.filter(bool), infer=st.booleans())
def test_any_legacy_session_comes_back(document: list[Json], infer: bool) -> None:
    """A legacy document comes back as version 2, its messages in `chat_history`."""
    with Store(":memory:") as store:
        take(store, document, infer)
        assert exact(given_back(store)) == exact(
            {"version": 2, "chat_history": document} | {key: [] for key in KEYS[1:]}
        )


@settled
@given(document=SESSIONS, infer=st.booleans(), data=st.data())
def test_any_session_may_grow(document: Json, infer: bool, data: st.DataObject) -> None:
    """A session imported as far as it went, and again when it has grown, is the one imported whole; tools leave out
    what is still empty."""
    shorter = {key: value for key, value in document.items() if key not in KEYS}
    for key in KEYS:
        length = data.draw(st.integers(0, len(document.get(key, ()))))
        if length or document.get(key) == []:
            shorter[key] = document[key][:length]
    with Store(":memory:") as store:
        before = take(store, shorter, infer)
        assert (before.present, before.rewound_to) == (0, None)
        after = take(store, document, infer)
        assert after.rewound_to is None
        assert exact(given_back(store)) == exact(document)
        assert take(store, document, infer) == Imported("c", 0, after.added + after.present)


@settled
@given(document=SESSIONS, scope=st.sampled_from(("chat", "agent", "coder", "shared_memory")))
def test_compactions_do_not_disturb(document: Json, scope: str) -> None:
    """A compacted session compares with the one it was, and what it is exported as comes back from its own import."""
    with Store(":memory:") as store:
        added = take(store, document, infer=False).added
        compact(store, "c", scope, DigestCompressor(), 1)
        assert take(store, document, infer=False) == Imported("c", 0, added)
        shorter = given_back(store)
        take(store, shorter, infer=False, conversation="d")
        assert exact(given_back(store, "d")) == exact(shorter)
