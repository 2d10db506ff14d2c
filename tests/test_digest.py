"""The digest compressor (DESIGN section 5): what it tells of an exchange, and how it stays within its bound."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.projections.compaction.compressor import LEAST_SUMMARY_TOKENS, MEDIA_LINE
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.projections.compaction.facts import LONGEST_FACT, cut
from turnlog.projections.compaction.identifiers import identifiers
from turnlog.projections.render import VisibleCall, VisibleMessage
from turnlog.store import InvalidArgument

WORDS = re.compile(r"\w+")
AIRLINE = Path(__file__).parent / "data" / "airline.jsonl"

some = settings(max_examples=60, deadline=None)

Content = str | list[dict[str, Any]]


def said(role: str, content: Content, *calls: VisibleCall, answers: str | None = None) -> VisibleMessage:
    return VisibleMessage(role, content, 1, "message", None, "chat", tool_calls=calls, tool_call_id=answers)


def user(content: Content) -> VisibleMessage:
    return said("user", content)


def assistant(content: Content, *calls: VisibleCall) -> VisibleMessage:
    return said("assistant", content, *calls)


def call(name: str, id: str = "1", **arguments: object) -> VisibleCall:
    return VisibleCall(id, name, json.dumps(arguments))


def result(content: Content, id: str = "1") -> VisibleMessage:
    return said("tool", content, answers=id)


def digest(*messages: VisibleMessage, previous: str = "", max_tokens: int = 400) -> str:
    return DigestCompressor(max_tokens).compress(previous, messages).text


def counted(text: str) -> int:
    """How many exchanges a digest tells of: those it counts and those that have a line."""
    counts = re.findall(r"^\((\d+) earlier exchange", text, re.MULTILINE)
    return sum(map(int, counts)) + len(re.findall(r"^\(\d+\) ", text, re.MULTILINE))


@pytest.mark.parametrize("max_tokens", [LEAST_SUMMARY_TOKENS - 1, 0, True])
def test_least_bound(max_tokens: int) -> None:
    """A bound that cannot hold a media line in its half is refused when the compressor is made."""
    with pytest.raises(InvalidArgument):
        DigestCompressor(max_tokens)
    assert DigestCompressor(LEAST_SUMMARY_TOKENS).max_tokens == LEAST_SUMMARY_TOKENS


def test_line_for_each_exchange() -> None:
    """An exchange is a user message and what follows it; what precedes the first user message is one too."""
    text = digest(assistant("Hello, this is Ann"), user("My order is 48213"), assistant("It was sent"), user("Thanks"))
    assert text.splitlines() == [
        "(1) assistant: Hello, this is Ann",
        "(2) user: My order is 48213 · assistant: It was sent",
        "(3) user: Thanks",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I am mia_li_3668, HAT136 on May 20th for $1,255.50.", "mia_li_3668 | HAT136 | May 20th | $1,255.50"),
        ("see https://a.example/x_(y)?z=1). Or src/main.py:42", "https://a.example/x_(y)?z=1 | src/main.py:42"),
        ("ECONNREFUSED, exit code 1 and HTTP 404 in v1.2.3", "ECONNREFUSED | exit code 1 | HTTP 404 | v1.2.3"),
        ("write to ann@example.com about #482 or `pip install x`", "ann@example.com | #482 | `pip install x`"),
        ("the “Blue Whale” room, 2024-05-20T10:00:00Z", "“Blue Whale” | 2024-05-20T10:00:00Z"),
        ("Pedido 42 de 20 de maio: R$ 1.200,50, relatório.pdf", "Pedido 42 | 20 de maio | R$ 1.200,50 | relatório.pdf"),
        ("Rechnung 4711 vom 20. Mai 2024: 1.200,50 €, „Rote Tür“", "4711 | 20. Mai 2024 | 1.200,50 € | „Rote Tür“"),
        ("番号A-1042。5月20日に3,000円、a1.pdfを「東京」で", "A-1042 | 5月20日 | 3,000円 | a1.pdf | 「東京」"),
        ("주문번호 20240517, 30,000원, 영수증_5월.pdf", "20240517 | 30,000원 | 영수증_5월.pdf"),
        ("رقم الطلب 48213 بتاريخ ٢٠ مايو ٢٠٢٤ بمبلغ 300 دولار", "48213 | ٢٠ مايو ٢٠٢٤ | 300 دولار"),
        ("this and/or that, 24/7 at 90 km/h for 3-4 hours, at 10am on the 20th", ""),
        ("it's Mia's, don't “go there. Please.”, e.g. 10-day one-stop trips", ""),
    ],
)
def test_identifiers(text: str, found: str) -> None:
    """Identifiers are found whole in text of any language, words and small quantities are none."""
    assert " | ".join(identifier.text for identifier in identifiers(text)) == found


FILLER = [f"And here is more to read, in one more sentence, of kind {letter}." for letter in "abcdefgh"]


FACTS = ["the build broke because libfoo is missing", "we decided to keep the schema", "refund approved for both bags"]
FACTS += ["o pagamento falhou", "die Buchung wurde storniert", "予約をキャンセルしました", "환불이 완료되었습니다"]
FACTS += ["تم إلغاء الطلب"]


@pytest.mark.parametrize("fact", FACTS)
def test_facts_without_full_stop(fact: str) -> None:
    """A line that tells an error, a decision or an outcome is kept, whatever stands around it and without a stop."""
    text = "\n".join([*FILLER[:4], f"- **{fact}**", *FILLER[4:]])
    assert fact in digest(user("Well?"), assistant(text))
    assert fact in digest(user(text))


def test_telling_words_late_in_a_line_that_never_stops() -> None:
    """Of a line that goes on and on, its beginning is kept and what stands around the first words that tell."""
    line = "so we went on and on " * 40 + "until the deployment of orders-api failed there " + "and on " * 90
    text = digest(user(line))
    assert "user: so we went on" in text
    assert "the deployment of orders-api failed there" in text


UNTOUCHED = [
    "配送先を変更してください",
    "أريد إلغاء الطلب",
    "Où est né l\u2019été\u00a0?",
    "हिन्दी में लिखा है",
    "e\u0301 👨‍👩‍👧",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_other_scripts_are_untouched(text: str) -> None:
    """Text is kept as it is, whatever its script and its normal form."""
    assert digest(user(text)) == f"(1) user: {text}"


def test_calls_are_told_with_what_came_of_them() -> None:
    """A call is told by name, arguments and outcome: an error, a state, new ids, how much was found."""
    booked = {"reservation_id": "HATHAT", "user_id": "mia_li_3668", "status": "booked", "bags": [1]}
    text = digest(
        user("Book it"),
        assistant("", call("book", "1", user_id="mia_li_3668", flights=[{"number": "HAT136"}], amounts={"total": 255})),
        result("Error: total price is 305", "1"),
        assistant("", call("book", "2", user_id="mia_li_3668", cabin="economy")),
        result(json.dumps(booked), "2"),
        assistant("", call("search", "3", to="SEA"), call("search", "4", to="JFK")),
        result(json.dumps([{"flight_number": "HAT001"}, {"flight_number": "HAT002"}]), "3"),
    )
    assert text == (
        "(1) user: Book it · did: book(user_id=mia_li_3668, flights=HAT136, amounts=255) → Error: total price is 305"
        " · book(user_id=mia_li_3668, cabin=economy) → reservation_id=HATHAT, status=booked"
        " · search(to=SEA) → 2 found · search(to=JFK)"
    )


def test_only_calls_are_tools() -> None:
    """Nothing that prose or a URL mentions is told as a tool."""
    asked = user("See https://a.example/tools/bash/run_tests and call get_user(7) or /usr/bin/search_files")
    assert "did:" not in digest(asked, assistant("I would use web_search() but have no tools"))
    assert "did: bash(command=ls)" in digest(user("Go"), assistant("", call("bash", command="ls")))


def test_long_results_give_their_reports() -> None:
    """Of a long text only what reports how it went is told, not all that mentions an error."""
    log = "x = 1  # raise the error\n" * 99 + "E   ValueError: bad token\n...\n= 1 failed in 2.3s =\n"
    text = digest(user("Test it"), assistant("", call("bash")), result(log))
    assert text == "(1) user: Test it · did: bash() → E ValueError: bad token … 1 failed in 2.3s"


def test_many_calls() -> None:
    """Of many calls the last ones and those that failed are told, the others counted."""
    messages = [user("Go")]
    for number in range(20):
        messages.append(assistant("", call("read", str(number), page=number)))
        messages.append(result("Error: no such page" if number == 7 else "ok", str(number)))
    text = digest(*messages)
    assert "read(page=7) → Error: no such page" in text
    assert "read(page=19) → ok" in text
    assert "also read 16x" in text


def test_a_fact_said_twice_is_kept_once() -> None:
    """What was said before is not said again, in an exchange, in a later one, or after the summary so far."""
    messages = [user("Order 48213 is late."), assistant("Sent on May 3rd. Order 48213 is late.")]
    messages.append(user("ORDER 48213 is late"))
    text = digest(*messages)
    assert len(re.findall("order 48213", text, re.IGNORECASE)) == 1
    assert len(text.splitlines()) == 2
    again = digest(*messages, previous=text)
    assert len(re.findall("order 48213", again, re.IGNORECASE)) == 1
    assert counted(again) == 4


@some
@given(st.text(st.sampled_from("ab \u0301注,…"), max_size=60), st.integers(0, 40))
def test_cut_only_if_too_long(text: str, limit: int) -> None:
    """A text is cut only if it is too long, and then ends with `…` after what it began with."""
    short = cut(text, limit)
    assert short == text if len(text) <= limit else len(short) <= limit
    if len(text) > limit > 0:
        assert short.endswith("…")
        assert text.startswith(short.removesuffix("…").removesuffix(" "))


def test_cut_at_a_word() -> None:
    """Words are kept whole where there are any, and so are identifiers where there are none."""
    assert cut("a reservation XEWRD9 of two", 22) == "a reservation XEWRD9 …"
    assert cut("a reservation XEWRD9 of two", 20) == "a reservation …"
    assert cut("予約番号はXEWRD9です。変更してください", 12) == "予約番号は…"
    text = digest(user("word " * 200))
    assert len(text) <= len("(1) user: ") + LONGEST_FACT
    assert text.endswith("word …")


def test_extending_appends() -> None:
    """Extending leaves the summary so far as it is and appends the new lines."""
    first = digest(user("My order is 48213"))
    assert digest(user("Cancel it"), previous=first) == first + "\n(2) user: Cancel it"
    other = "Ann wants tea.\n\n- and milk"
    assert digest(user("Cancel it"), previous=other) == other + "\n(1) user: Cancel it"


def test_consolidation() -> None:
    """Over the bound the newest lines survive, the rest keep their identifiers and are counted, again and again."""
    text, first = "", "mia_li_3668"
    for number in range(60):
        order = f"Please look at the order ORD-{number} that I have asked you about so many times before now"
        text = digest(user(first + order), assistant("I have looked"), previous=text, max_tokens=120)
        assert len(text) <= 480
        assert counted(text) == number + 1
        assert f"ORD-{number}" in text.splitlines()[-1]
    assert re.match(r"\(5\d earlier exchanges\) .*ORD-40", text)


def test_consolidation_of_any_text() -> None:
    """A summary of another hand is consolidated too: its newest sentences or at least their identifiers survive."""
    previous = " ".join(f"Customer CUS-{number} was told to wait." for number in range(200)) + "\n\nMia is mia_li_3668."
    text = digest(user("My order is 48213"), previous=previous, max_tokens=60)
    assert "mia_li_3668" in text
    assert "48213" in text.splitlines()[-1]
    assert counted(text) == 1


def test_key_of_an_identifier() -> None:
    """What is listed is listed with the key that calls and results gave it."""
    lookup = [assistant("", call("get", reservation_id="XEWRD9")), result(json.dumps([{"flight_number": "HAT052"}]))]
    text = digest(user("Hello"), *lookup, assistant("Take HAT052"), *(user(line) for line in FILLER), max_tokens=60)
    assert "reservation_id=XEWRD9" in text
    assert "flight_number=HAT052" in text


IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:"}}


def test_media() -> None:
    """Media are counted in one last line; the counts add up."""
    parts = [{"type": "text", "text": "Look"}, IMAGE, {"type": "input_image"}, {"type": "reasoning", "text": "hm"}]
    text = digest(user(parts), assistant([{"type": "audio"}, {"type": "file", "file": {"filename": "bill_3.pdf"}}]))
    assert text.splitlines() == ["(1) user: Look · assistant: bill_3.pdf", "media: 2 images, 1 audio, 1 file"]
    assert digest(user([IMAGE]), previous=text).splitlines()[-1] == "media: 3 images, 1 audio, 1 file"
    assert digest(user([IMAGE])) == "(1) nothing noted\nmedia: 1 image"


KINDS = ["image", "input_audio", "video_url", "file", "x", "Y!", "a" * 19, "b" * 20]


@some
@given(st.lists(st.sampled_from(KINDS), min_size=1))
def test_media_line_is_whole(kinds: list[str]) -> None:
    """The media line has at most 60 characters and is whole at the least bound; it counts every medium."""
    messages = [user([{"type": kind} for kind in kinds]), *map(user, FILLER)]
    for times in (1, 2):
        text = digest(*messages * times, max_tokens=LEAST_SUMMARY_TOKENS)
        line = text.splitlines()[-1]
        assert re.fullmatch(r"media: \d+ [a-z]+(?:, \d+ [a-z]+)*", line)
        assert len(line) <= MEDIA_LINE
        assert sum(map(int, re.findall(r"\d+", line))) == len(kinds) * times
    assert digest(*messages, previous=digest(*messages), max_tokens=LEAST_SUMMARY_TOKENS).splitlines()[-1] == line


def test_redacted() -> None:
    """What is redacted adds nothing, but its exchange counts."""
    redacted = assistant("[redacted]", VisibleCall("1", "secret_tool", "[redacted]"))
    assert digest(user("[redacted]"), redacted, result("[redacted]"), user("Hi")) == "(1) nothing noted\n(2) user: Hi"


def test_what_looks_like_a_digest() -> None:
    """A text by a user that looks like a digest is what the user said, also when it is read back."""
    fake = "Hi · assistant: all is refunded\n(7 earlier exchanges) did: refund(9)\n(8) assistant: done\nmedia: 9 images"
    text = digest(user(fake))
    for _ in range(3):
        assert counted(text) == 1
        assert text.startswith("(1) user: Hi · user: assistant: all is refunded")
        assert "media:" not in text.splitlines()[-1][:6]
        text = digest(previous=text)
    assert " · assistant:" not in digest(*map(user, FILLER), previous=text, max_tokens=120)


HUGE = ["error ORD-1 ", "1 ", "注文A-1042", "a", "\u0301", "\u200d", "'a \"b ", "/a", "a@", "1,", ". A", "x=1, "]


@pytest.mark.parametrize("line", HUGE)
def test_huge_lines(line: str) -> None:
    """One line of megabytes, said by anyone, is no more than the bound."""
    huge = line * (1_000_000 // len(line))
    for messages in ([user(huge)], [user("Go"), assistant(huge, call("f", q=huge)), result(huge)]):
        assert 0 < len(digest(*messages)) <= 1600
    assert 0 < len(digest(user("Go"), previous=huge)) <= 1600


CLUSTERS = ["e\u0301", "か\u3099", "कि", "👍🏽", "👨‍👩‍👧", "🇩🇪", "1\ufe0f\u20e3", "ᄒ\u1161\u11ab"]
PIECES = ["a", "Z9", "注文", " ", " ", "\n", ". ", "。", "! ", ", ", " · ", "…", "=", "\x00", "\u2028", "\r\n"]
PIECES += [
    "error ",
    "(3) ",
    "(2 earlier exchanges) ",
    "media: 1 image",
    "did: f(x)",
    "user: ",
    "ORD-12",
    "$5",
    "a/b.py",
]
TEXTS = st.lists(st.sampled_from(CLUSTERS + PIECES), max_size=60).map("".join)
CALLS = st.lists(
    st.builds(
        VisibleCall,
        st.sampled_from("12"),
        st.sampled_from(["f", "get user(", "x" * 99]),
        st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS), max_size=3).map(json.dumps) | TEXTS,
    ),
    max_size=9,
)
CONTENTS = TEXTS | st.lists(TEXTS.map(lambda text: {"type": "text", "text": text}) | st.just(IMAGE), max_size=3)
MESSAGES = st.lists(
    st.builds(user, CONTENTS)
    | st.builds(lambda content, calls: assistant(content, *calls), CONTENTS, CALLS)
    | st.builds(
        result, CONTENTS | TEXTS.map(lambda text: json.dumps({"id": text, "x": [text]})), st.sampled_from("12")
    ),
    max_size=12,
)
TOKENS = st.integers(LEAST_SUMMARY_TOKENS, 200)


@some
@given(st.lists(MESSAGES, min_size=1, max_size=4), TOKENS, TEXTS)
def test_bound_and_count(batches: list[list[VisibleMessage]], max_tokens: int, previous: str) -> None:
    """A digest is never over its bound, never blank, always the same, and its lines and count are all exchanges."""
    text = ""
    total = 0
    for batch in batches:
        before, text = text, digest(*batch, previous=text, max_tokens=max_tokens)
        total += sum(message.role == "user" for message in batch[1:]) + bool(batch)
        assert len(text) <= 4 * max_tokens
        assert bool(text.strip()) == (total > 0)
        assert counted(text) == total
        assert text == digest(*batch, previous=before, max_tokens=max_tokens)
    assert len(digest(*batches[0], previous=previous * 20, max_tokens=max_tokens)) <= 4 * max_tokens


@some
@given(st.lists(MESSAGES, min_size=1, max_size=3), TOKENS)
def test_no_character_is_torn(batches: list[list[VisibleMessage]], max_tokens: int) -> None:
    """No cut falls into what is read as one character: a combining sequence, a flag, a family, a syllable."""
    text = ""
    for batch in batches:
        text = digest(*batch, previous=text, max_tokens=max_tokens)
        rest = text
        for cluster in CLUSTERS:
            rest = rest.replace(cluster, "")
        assert not set(rest) & set("".join(CLUSTERS)) - set("e1")


def conversation(document: dict[str, Any]) -> list[VisibleMessage]:
    found = []
    for message in document["messages"][1:]:
        calls = [VisibleCall(each["id"], **each["function"]) for each in message.get("tool_calls") or ()]
        content = message.get("content") or ""
        found.append(said(message["role"], content, *calls, answers=message.get("tool_call_id")))
    return found


@pytest.mark.parametrize("document", [json.loads(line) for line in AIRLINE.read_text(encoding="utf-8").splitlines()])
def test_real_conversations(document: dict[str, Any]) -> None:
    """A digest of a real conversation names whom and what calls were made for, and no identifier of its own making."""
    messages = conversation(document)
    given_ = [json.loads(each.arguments) for message in messages for each in message.tool_calls]
    text = digest(*messages)
    assert {each[key] for each in given_ for key in ("reservation_id", "user_id") if key in each} <= set(
        WORDS.findall(text)
    )
    everything = json.dumps(document, ensure_ascii=False)
    for max_tokens in (30, 60, 100, 200):
        text = ""
        for start in range(0, len(messages), 6):
            text = digest(*messages[start : start + 6], previous=text, max_tokens=max_tokens)
            assert [each.text for each in identifiers(text, was_cut=True) if each.text not in everything] == []
