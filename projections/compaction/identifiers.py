"""Finding in text, of any language, what a reader needs letter by letter: numbers, codes, paths, dates, amounts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

# A pasted key or encoded file is longer than this, an identifier that a summary should repeat is not.
LONGEST = 120

# The letters of scripts that put spaces between words. A token must end where Japanese or Korean begins:
# `report.pdf를` and `注文番号A-1042です` hold `report.pdf` and `A-1042`.
_W = r"0-9A-Za-z_\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0dff"

# A file's name in a script without capitals or spaces is known by its end, and begins where such a text breaks off.
_EXTENSIONS = (
    "pdf|docx?|xlsx?|pptx?|hwpx?|csv|tsv|txt|md|json|ya?ml|xml|html?|png|jpe?g|gif|svg|zip|gz|py|js|ts|sql|log"
)
_BREAKS = r"<>\"'`(),;:\u3000-\u303f\uff01-\uff0f\uff1a-\uff20"

_NUMBER = r"\d(?:[\d.,'\u2019\u00a0\u202f]{0,20}\d)?"
_CURRENCY = r"(?:R\$|[$€£¥₹₩₽₺₴₦₫₪฿])"
_CURRENCIES = (
    "USD|EUR|GBP|BRL|JPY|KRW|CNY|INR|CHF|CAD|AUD|MXN|SEK|NOK|DKK|PLN|AED|SAR|EGP|dollars?|euros?|pounds?|reais|Euro|"
    "円|元|원|دولار|يورو|ريال|درهم|جنيه"
)
_MONTHS = (
    "Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|May|Mai|June?|Juni|July?|Juli|Aug(?:ust)?|"
    "Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?|"
    "janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro|"
    "enero|febrero|marzo|mayo|junio|julio|septiembre|octubre|noviembre|diciembre|"
    "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre|"
    "يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر"
)
# In `May 20, 2024-06-01` there are two dates.
_YEAR_OF_DATE = rf"\d{{4}}(?![{_W}/年년-]|\.\d)"

_FOUND = re.compile(
    rf"""
    (?:(?<![{_W}.@/\\-])[a-z]+[ ,\n]+)+  # Plain words, the most of most texts, are passed over at once.
    |(?P<url>(?<![{_W}])[A-Za-z][A-Za-z0-9+.-]{{1,15}}://[^\s<>"'`\u00b4\u2026\u3000-\u303f\uff01-\uff60]+)
    |(?P<quoted>"[^"\n]{{2,60}}"(?!\s?:)|`[^`\n]{{2,60}}`|“[^“”\n]{{2,60}}”|„[^„“\n]{{2,60}}“|«[^«»\n]{{2,60}}»
        |「[^「」\n]{{2,60}}」|『[^『』\n]{{2,60}}』|(?<![{_W}'])'[^'\n]{{2,60}}'(?![{_W}']))
    |(?P<date>(?<![{_W}.])(?:
        \d{{4}}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)?)?
        |\d{{1,2}}(?P<sep>[./-])\d{{1,2}}(?P=sep)\d{{2,4}}
        |(?:\d{{4}}[年년][ ]?)?\d{{1,2}}[月월][ ]?\d{{1,2}}[日일]
        |(?:{_MONTHS})\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?(?![{_W}.:])(?:,?[ ]{_YEAR_OF_DATE})?
        |\d{{1,2}}(?:st|nd|rd|th|\.)?[ ](?:of[ ]|de[ ])?(?:{_MONTHS})(?![{_W}])(?:(?:,|[ ]de)?[ ]{_YEAR_OF_DATE})?
        )(?![0-9A-Za-z_]))
    |(?P<amount>{_CURRENCY}\s?{_NUMBER}(?:[kKMB]n?(?![{_W}]))?
        |(?<![{_W}.])(?:{_NUMBER}\s?[万億千百만억천]?(?:%|{_CURRENCY}|(?:{_CURRENCIES})(?![A-Za-z]))
        |(?:USD|EUR|GBP|BRL|JPY|KRW)\s?{_NUMBER}))
    |(?P<mail>(?<![{_W}.+-])[{_W}.+-]{{1,64}}@[0-9A-Za-z-]{{1,63}}(?:\.[0-9A-Za-z-]{{1,63}}){{1,5}})
    |(?P<path>(?<![{_W}./\\~:@+%-])(?:
        (?:[A-Za-z]:|~|\.{{1,2}})?[\\/][{_W}.@+%-]+(?:[\\/][{_W}.@+%-]+)*(?::\d{{1,6}})*[\\/]?
        |[{_W}.@+-]+(?:[\\/][{_W}.@+%-]+)+(?::\d{{1,6}})*[\\/]?))
    |(?P<small>(?<![{_W}.,-])\d{{1,3}}(?![{_W}-]|[.,:/]\d))
    |(?P<phone>\+\d[\d ()-]{{6,20}}\d)
    |(?P<handle>(?<![{_W}@])@[A-Za-z][0-9A-Za-z_.-]+|(?<![{_W}\#])\#\d+)
    |(?P<token>(?<![{_W}])[{_W}]+(?:[.:-]+[{_W}]+)*)
    |(?P<file>(?<![^\s{_BREAKS}])[^\s{_BREAKS}]{{1,60}}\.(?i:{_EXTENSIONS})(?![0-9A-Za-z]))
    """,
    re.VERBOSE,
)

# What gives a number of one to three digits a meaning, standing before it: `exit code 1`, `Bestellung 42`.
_NUMBERING = (
    "error|errors|exit|status|code|http|line|port|order|ticket|case|invoice|issue|gate|room|seat|request|pr|"
    "pedido|fatura|erro|código|bestellung|auftrag|rechnung|fehler|zeile|"
    "注文|番号|エラー|行|订单|주문|번호|오류|طلب|رقم|خطأ"
)
_NUMBERED = tuple(_NUMBERING.split("|"))
_OF = (" code", " status", " number", " no", " no.", " nº")
_LONGEST_NUMBERED = 32

_QUANTITY = re.compile(r"\d+(?:[.,:]\d+)*-?(?:[a-z]{1,3}|[A-Z]{1,2}|[a-z]+(?:-[a-z]+)*)")
_DOTTED = re.compile(r"[A-Za-z][A-Za-z-]+(?:\.[a-z][a-z-]+)*\.[a-z]{1,5}")
_CAMEL = re.compile(r"[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)+|[A-Z][a-z]+[A-Z]+")
_CAPITALS = re.compile(r"[A-Z]{5,}")
_FILE = re.compile(rf".\.(?i:{_EXTENSIONS})$")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_SENTENCE_END = ".!?…؟\u3002\uff01\uff1f"


@dataclass(frozen=True)
class Identifier:
    """An identifier as it stands in the text, and its kind: `url`, `quoted`, `date`, `amount`, `path`, `code`, …"""

    kind: str
    text: str


def identifiers(text: str, was_cut: bool = False) -> Iterator[Identifier]:
    """The identifiers of a text in order, repeated ones too; if it was cut, none that a `…` touches."""
    for match in _FOUND.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        if kind == "small":
            found = _numbered(text[max(0, match.start() - _LONGEST_NUMBERED) : match.end()], match[0])
        else:
            found = _accepted(kind, match[0])
        if found is None or len(found.text) > LONGEST:
            continue
        start, end = match.span()
        if inside_cluster(text, start) or (found.text == match[0] and inside_cluster(text, end)):
            continue
        if not (was_cut and "…" in (text[start - 1 : start], text[end : end + 1])):
            yield found


def inside_cluster(text: str, index: int) -> bool:
    """Whether a cut before `text[index]` would tear what is read as one character."""
    if not 0 < index < len(text):
        return False
    after, before = text[index], text[index - 1]
    if "\u0020" <= after < "\u0300" and before < "\u0300":
        return False
    return (
        unicodedata.category(after).startswith("M")
        or before == "\u200d"
        or after in "\u200c\u200d"
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # Skin tones.
        or ("\U0001f1e6" <= after <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")  # Flags are pairs.
        or "\U000e0020" <= after <= "\U000e007f"  # Tags, as in regional flags.
        or "\u1160" <= after <= "\u11ff"  # Vowels and finals of decomposed Korean.
    )


def _accepted(kind: str, text: str) -> Identifier | None:
    match kind:
        case "token":
            return _token(text)
        case "path":
            return _path(text.rstrip(".-"))
        case "url":
            return Identifier("url", _url(text))
        case "quoted":
            return _quoted(text)
        case "file":
            return Identifier("path", text)
        case "phone" | "handle":
            return Identifier("code", text.rstrip(".-"))
        case "sep":
            return Identifier("date", text)
        case "small":
            return None
        case _:
            return Identifier(kind, text.rstrip(".-"))


def _token(text: str) -> Identifier | None:
    """A token that no one takes for a word: digits among letters, many digits, or the shapes of program names."""
    if len(text) > LONGEST:
        return None
    if text.isdigit():
        return Identifier("code", text) if len(text) > 3 and not _YEAR.fullmatch(text) else None
    digits = 0 if text.isalpha() else sum(map(str.isdigit, text))
    if not digits:
        if "_" in text.strip("_") or _CAMEL.fullmatch(text) or _CAPITALS.fullmatch(text):
            return Identifier("name", text)
        return Identifier("path", text) if _DOTTED.fullmatch(text) or _FILE.search(text) else None
    if not any(map(str.isalpha, text)):
        return Identifier("code", text) if ":" not in text and (digits > 5 or _VERSION.fullmatch(text)) else None
    if len(text) < 3 or _QUANTITY.fullmatch(text):
        return None
    return Identifier("path" if _FILE.search(text) else "code", text)


def _numbered(text: str, number: str) -> Identifier | None:
    """The number at the end of a text with the word that says what it numbers."""
    rest = text[: -len(number)].rstrip(" :#=")
    before = rest.lower()
    if len(before) != len(rest) or not before.endswith((*_NUMBERED, *_OF)):  # `İ` becomes two characters.
        return None
    stem = next((before[: -len(of)] for of in _OF if before.endswith(of)), before)
    stem = stem if stem.endswith(_NUMBERED) else before
    for word in _NUMBERED:
        start = len(stem) - len(word)
        if stem.endswith(word) and not (start and word[0].isascii() and stem[start - 1].isalpha()):
            return Identifier("code", text[start:])
    return None


def _path(text: str) -> Identifier | None:
    """A path, not `and/or`, `24/7` or `km/h`."""
    segments = re.split(r"[\\/]", text)
    if text[:1] in "/\\~." or text[1:2] == ":":
        return Identifier("path", text) if any(character.isalpha() for character in text) else None
    if not any(character.isalpha() for character in text):
        return None
    named = any(mark in text for mark in "._") or any(character.isdigit() for character in text)
    return Identifier("path", text) if len(segments) > 2 or named else None


def _url(text: str) -> str:
    text = text.rstrip(".,;:!?*_'\"")
    while text.endswith((")", "]", "}")) and text.count(text[-1]) > text.count("([{"[")]}".index(text[-1])]):
        text = text[:-1].rstrip(".,;:!?*_'\"")
    return text


def _quoted(text: str) -> Identifier | None:
    """A name, with its quotes; an identifier in quotes is that identifier, a sentence or a list is none."""
    inner = text[1:-1]
    if inner != inner.strip() or inner[-1] in _SENTENCE_END or ", " in inner or " · " in inner:
        return None
    match = _FOUND.fullmatch(inner)
    if match is not None and match.lastgroup is not None:
        within = _accepted(match.lastgroup, inner)
        if within is not None:
            return within
    return Identifier("quoted", text) if any(character.isalnum() for character in inner) else None
