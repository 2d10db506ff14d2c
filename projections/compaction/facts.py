"""What a text says, as facts: the sentences that tell an error, an outcome or a decision, and clean cuts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .identifiers import identifiers, inside_cluster

ELLIPSIS = "…"
SEPARATOR = " · "

# A longer text is read at its two ends: what lies between would not fit into a summary anyway.
READ = 100_000
# A fact is at most this long, whatever the bound: two lines of prose.
LONGEST_FACT = 200
# An exclamation that is no longer and tells nothing is a courtesy: `Thank you so much!`
_LONGEST_COURTESY = 30

# What tells an error, an outcome or a decision. Stems, so that they match inflected words.
_STEMS = (
    # English
    r"error|fail|exception|denied|refused|reject|declin|invalid|unable|cannot|can't|could ?n[o't]+|won't|not found|"
    r"not available|not allowed|not enough|not possible|missing|unfortunately|time[ds]? ?out|crash|forbidden|unauthori|"
    r"broken|conflict|success|booked|cancel|updated|created|added|done\b|removed|deleted|fixed|complete|confirmed|"
    r"refund|resolved|approved|scheduled|charged|changed|merged|deployed|installed|sent\b|passed|passes|total|decid|"
    r"agreed|instead|chose|go with|going with|let's use|we use|we'll use|prefer|must|never|always|turned out|because|"
    # Portuguese, Spanish, French
    r"erro|falh|inválid|recusad|não foi|não pode|infelizmente|sucesso|conclu|decid|aprovad|fallo|fallid|éxito|rechazad|"
    r"no se pud|échec|échou|annul|refus|succès|reembols|reserva|em vez|en vez|en lugar|"
    # German
    r"fehler|fehlgeschlagen|ungültig|abgelehnt|nicht möglich|nicht gefunden|leider|erfolg|storn|gebucht|bestätigt|"
    r"erledigt|abgeschlossen|erstattet|entschied|statt|"
    # Japanese, Chinese, Korean
    r"エラー|失敗|できません|完了|成功|キャンセル|確定|予約し|変更し|返金|決定|残念|错误|失败|无法|取消|完成|退款|决定|"
    r"오류|실패|완료|성공|취소|확정|환불|결정|변경|예약|"
    # Arabic, Russian
    r"خطأ|فشل|تعذر|للأسف|نجاح|إلغاء|تأكيد|استرداد|قرر|تم |ошибк|не удалось|успешно|отмен|готово|решил"
)
# A stem begins a word, where a script has words: `terror` tells no error.
_CUE = re.compile(rf"(?:(?<![A-Za-z])|(?=[^\x00-\x7f]))(?:{_STEMS})", re.IGNORECASE)
_REQUEST = re.compile(r"\b(?:please|let me know|feel free|bitte|por favor)\b|ください|주세요|من فضلك", re.IGNORECASE)

# Where the scripts begin that put no spaces between words, but for those of South-East Asia.
_WIDE = "\u1100"
_WIDE_STOPS = "\u3002\uff01\uff1f"
# A full stop ends no sentence after `20.` or `Nr.`; no end cuts a mark off from the character that it stands on.
_MARKS = r"\u0300-\u036f\u200d\u3099\u309a\ufe00-\ufe0f"
_SENTENCES = re.compile(
    rf"(?<=[.!?؟।…])(?<!\s\d\.)(?<!\s\d\d\.)(?<!\b[A-Z][a-z]\.)\s+(?=[^\sa-z\d{_MARKS}])|(?<=[{_WIDE_STOPS}])(?![」』\uff09)\s{_MARKS}])|\s·\s+(?![{_MARKS}])"
)
_QUESTION = ("?", "\uff1f", "؟")
_EXCLAMATION = ("!", "\uff01")
_MARK = re.compile(r"(?:(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+)+")
_BOLD = re.compile(r"\*\*(?=[^\s*])([^*\n]{1,200})(?<=\S)\*\*")
_BLANKS = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")


def legible(text: str, most: int = READ) -> str:
    """A text; of one longer than `most` its two ends."""
    if len(text) <= most:
        return text
    tail = len(text) - most // 2
    while tail < len(text) and inside_cluster(text, tail):
        tail += 1
    return f"{cut(text[: most // 2], most // 2 - 1)}\n{ELLIPSIS}{text[tail:]}"


def clean(text: str) -> str:
    """A text on one line: runs of spaces, line ends and control characters become one space."""
    return _BLANKS.sub(" ", text).strip(" ")


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters: at a word if it has spaces, never inside a character, then `…`.

    A word stands apart from the `…` if it is whole: `HAT136 …` has an identifier that `HAT1…` has not.
    """
    if len(text) <= limit:
        return text
    end = max(0, limit - len(ELLIPSIS) - 1)
    places = range(end, limit // 3, -1)
    index = next((place for place in places if text[place].isspace() and not inside_cluster(text, place + 1)), None)
    if index is None:
        index = next((place for place in places if not _tears(text, place)), None)
    torn = index is None
    index = end if index is None else index
    while index and inside_cluster(text, index):
        index -= 1
    kept = text[:index].rstrip(" ,")
    if kept.endswith(ELLIPSIS):
        return kept
    return (kept + (" " if kept and kept[-1] < _WIDE and not torn else "") + ELLIPSIS)[:limit]


def _tears(text: str, index: int) -> bool:
    return inside_cluster(text, index) or (text[index - 1] < _WIDE and text[index] < _WIDE)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, each on one line; a line's end ends one, with a full stop or without. So does `·`."""
    for line in text.splitlines():
        line = _BOLD.sub(r"\1", line.strip())
        for sentence in _SENTENCES.split(_MARK.sub("", line, count=1) if _MARK.match(line) else line):
            sentence = clean(sentence)
            if any(character.isalnum() or ord(character) > 0x2FFF for character in sentence):
                yield sentence


def passages(sentence: str) -> list[str]:
    """A sentence or, of one that never stops, its beginning and what stands around the first cues after that."""
    found = [cut(sentence, LONGEST_FACT)]
    end = len(found[0])
    around = LONGEST_FACT // 2
    for match in _CUE.finditer(sentence, end) if len(sentence) > LONGEST_FACT else ():
        if match.start() < end:
            continue
        start = max(end, match.start() - around // 3)
        while start < match.start() and not (sentence[start - 1].isspace() and not inside_cluster(sentence, start)):
            start += 1
        opening = ELLIPSIS + " " * sentence[start - 1].isspace()
        found.append(cut(opening + sentence[start : start + around], around))
        end = start + around
        if len(found) == 3:
            break
    return found


def tells(sentence: str) -> bool:
    """Whether a sentence tells an error, an outcome or a decision."""
    return _CUE.search(sentence) is not None


def begins_telling(line: str) -> bool:
    """Whether a line tells one at its very beginning, as the last line of a log does."""
    return _CUE.match(line) is not None


def asked(text: str, budget: int) -> list[str]:
    """What a user's text says: all of it if it is short, else its beginning, what tells something, and its end."""
    pieces = _pieces(text)
    worth = [_worth(piece) + 5 * (place == 0) + 3 * (place == len(pieces) - 1) for place, piece in enumerate(pieces)]
    return _best(pieces, budget, worth)


def answered(text: str, budget: int) -> list[str]:
    """What an assistant's text says: the telling sentences or else the first; no requests if there is better."""
    pieces = _pieces(text)
    worth = [_worth(piece) + (place == 0) for place, piece in enumerate(pieces)]
    for place, piece in enumerate(pieces):
        worth[place] -= 3 * (piece.endswith(_QUESTION) or _REQUEST.search(piece) is not None)
    least = min(1, max(worth, default=0))
    return _best(pieces, budget, [each if each >= least else None for each in worth])


def _pieces(text: str) -> list[str]:
    pieces = [piece for sentence in sentences(text) for piece in passages(sentence)]
    return [piece for piece in pieces if not _is_courtesy(piece)] or pieces


def _is_courtesy(piece: str) -> bool:
    return len(piece) <= _LONGEST_COURTESY and piece.endswith(_EXCLAMATION) and not tells(piece) and not _names(piece)


def _worth(piece: str) -> int:
    return 3 * tells(piece) + (len(piece) > _LONGEST_COURTESY and _names(piece))


def _names(piece: str) -> bool:
    return next(identifiers(piece), None) is not None


def _best(pieces: list[str], budget: int, worth: list[int] | list[int | None]) -> list[str]:
    """Those of most worth that `budget` characters hold, in order, and at least one."""
    chosen: list[int] = []
    places = [(-each, place) for place, each in enumerate(worth) if each is not None]
    for _, place in sorted(places):
        if not chosen or len(pieces[place]) <= budget:
            chosen.append(place)
            budget -= len(pieces[place])
    return [pieces[place] for place in sorted(chosen)]
