"""Search: text of every script, with whatever signs are in it, is searched as it is typed."""

from __future__ import annotations

from typing import Any

import pytest
from test_append import said

from turnlog.projections import search
from turnlog.store import Store

TEXTS = {
    "plain": "The quick brown fox",
    "quoted": 'She said "no way" and went',
    "operators": "cats AND dogs OR NOT birds",
    "near": "NEAR(stop, go)",
    "starred": "a pre*fix",
    "column": "said:secret col:umn",
    "braces": "(left) {mid} [right] ^up",
    "minus": "well-known -excluded +included",
    "apostrophe": "it's o'clock; DROP TABLE search; --",
    "code": "foo_bar.baz(qux) == 42 && x<y",
    "german": "Grüße aus Köln, Straße",
    "portuguese": "São Paulo, ação e coração",
    "decomposed": "E\u0301cole cafe\u0301",
    "chinese": "我们今天去北京大学",
    "japanese": "東京タワーへ行きました",
    "name": "佐々木さんと𠮷野家",
    "halfwidth": "ｶﾀｶﾅのﾃｽﾄ",
    "korean": "안녕하세요 세계입니다",
    "thai": "สวัสดีชาวโลก",
    "arabic": "مرحبا بالعالم",
    "hindi": "नमस्ते दुनिया",
    "russian": "Привет, мир",
    "greek": "Καλημέρα κόσμε",
    "hebrew": "שלום עולם",
    "mixed": "Python入門とCOVID感染、日本2024年",
    "nul": "before\0after",
    "lines": "first line\nsecond\tline",
}


@pytest.fixture(scope="module")
def texts() -> Any:
    """A store with each of these texts in a conversation of its own."""
    with Store(":memory:") as store:
        for name, text in TEXTS.items():
            store.append(name, [said(text)])
        yield store


def names(store: Store, query: str) -> list[str]:
    return sorted(found.conversation for found in search(store, query, limit=100))


class TestAsTyped:
    @pytest.mark.parametrize("name", [name for name in TEXTS if name != "nul"])
    def test_the_whole_text(self, texts: Store, name: str) -> None:
        """Every text is found by itself as it stands, whatever signs are in it."""
        assert name in names(texts, TEXTS[name])

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("quick", ["plain"]),
            ("QUICK fox", ["plain"]),
            ("fox quick", ["plain"]),
            ("quick cat", []),
            ("qui", []),
            ("qui*", []),
            ('"no way"', ["quoted"]),
            ('no" "way', ["quoted"]),
            ('"', []),
            ('""', []),
            ('" OR "', ["operators"]),
            ("cats OR unicorns", []),
            ("cats NOT dogs", ["operators"]),
            ("cats NOT", ["operators"]),
            ("OR", ["operators"]),
            ("NEAR(stop, go)", ["near"]),
            ("NEAR(go stop, 3)", []),
            ("pre*fix", ["starred"]),
            ("fix*", ["starred"]),
            ("*", []),
            ("said:secret", ["column"]),
            ("said : secret", ["column"]),
            ("secret:said", []),
            ("{mid}", ["braces"]),
            ("(left", ["braces"]),
            ("left)", ["braces"]),
            ("^up", ["braces"]),
            ("()", []),
            ("-excluded", ["minus"]),
            ("well-known", ["minus"]),
            ("known-well", []),
            ("it's", ["apostrophe"]),
            ("'; DROP TABLE search; --", ["apostrophe"]),
            ("foo_bar.baz(qux)", ["code"]),
            ("42 &&", ["code"]),
            ("before", ["nul"]),
            ("before\0after", ["nul"]),
            ("second line", ["lines"]),
            ("\t \n", []),
            ("", []),
            ("!?… ,;", []),
            ("\0", []),
            ("\ud800", []),
            ("fox \ud800", ["plain"]),
        ],
    )
    def test_signs(self, texts: Store, query: str, found: list[str]) -> None:
        """No sign is an operator: words are found as they stand, in any order; signs alone find nothing."""
        assert names(texts, query) == sorted(found)

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("grüße", "german"),
            ("GRUSSE", None),
            ("koln", "german"),
            ("KÖLN", "german"),
            ("straße", "german"),
            ("sao", "portuguese"),
            ("acao", "portuguese"),
            ("CORAÇÃO", "portuguese"),
            ("école", "decomposed"),
            ("ecole", "decomposed"),
            ("café", "decomposed"),
            ("北京", "chinese"),
            ("大学", "chinese"),
            ("京北", None),
            ("東京", "japanese"),
            ("タワー", "japanese"),
            ("行きました", "japanese"),
            ("佐々木", "name"),
            ("木", "name"),
            ("野家", "name"),
            ("𠮷野家", "name"),
            ("ﾃｽﾄ", "halfwidth"),
            ("세계", "korean"),
            ("안녕", "korean"),
            ("ชาว", "thai"),
            ("โลก", "thai"),
            ("مرحبا", "arabic"),
            ("بالعالم", "arabic"),
            ("दुनिया", "hindi"),
            ("ПРИВЕТ", "russian"),
            ("ΚΑΛΗΜΈΡΑ", "greek"),
            ("עולם", "hebrew"),
            ("入門", "mixed"),
            ("python", "mixed"),
            ("感染", "mixed"),
            ("covid", "mixed"),
            ("2024", "mixed"),
            ("2024年", "mixed"),
            ("日本", "mixed"),
        ],
    )
    def test_scripts(self, texts: Store, query: str, found: str | None) -> None:
        """Words of every script are found, with and without diacritics; where none are set apart, in any stretch."""
        assert names(texts, query) == ([] if found is None else [found])

    def test_long_queries(self, texts: Store) -> None:
        """A query of thousands of words, or of one word of thousands of letters, is searched like any other."""
        assert names(texts, "quick " * 5000) == ["plain"]
        assert names(texts, "fox " + "x" * 50_000) == []

    def test_the_snippet(self, texts: Store) -> None:
        """What was found is shown with the words marked, and no sign that was not there."""
        assert search(texts, "brown")[0].snippet == "The quick «brown» fox"
        assert search(texts, "北京")[0].snippet.replace("«", "").replace("»", "") == TEXTS["chinese"]
