"""Media in a digest: how many there were of each kind, in one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .compressor import MEDIA_LINE

# Parts that say or call something; what else a list of parts has is media.
_SAID = re.compile(r"(?:(?:in|out)put_|summary_)?text|reasoning|(?:redacted_)?thinking|refusal|tool_use|tool_result")
_PLURALS = {"image": "images", "video": "videos", "file": "files"}
_SINGULARS = {plural: kind for kind, plural in _PLURALS.items()}
_KNOWN = ("image", "audio", "video", "file")
_OTHER = "other"

_KIND = re.compile(r"(?:input_|output_)?([a-z]{1,20}?)(?:_url|_file)?")
_LINE = re.compile(r"media: (\d{1,9} [a-z]{1,20}(?:, \d{1,9} [a-z]{1,20})*)")
_MOST = 999_999_999


def media(parts: Sequence[dict[str, Any]]) -> Counter[str]:
    """The media among a message's parts, by kind: `image_url` and `input_image` are images."""
    kinds = (str(part.get("type")) for part in parts)
    found = (_KIND.fullmatch(kind) for kind in kinds if not _SAID.fullmatch(kind))
    return Counter(match[1].replace("document", "file") if match else _OTHER for match in found)


def media_line(counts: Counter[str]) -> str:
    """`media: 3 images, 1 audio`, at most `MEDIA_LINE` characters; kinds that do not fit are summed up as other."""
    kinds = [kind for kind in _KNOWN if counts[kind]]
    kinds += sorted(kind for kind in counts if counts[kind] and kind not in (*_KNOWN, _OTHER))
    other = counts[_OTHER]
    while len(line := _line([(kind, counts[kind]) for kind in kinds], other)) > MEDIA_LINE:
        other += counts[kinds.pop()]
    return line


def read_media(line: str) -> Counter[str]:
    """The counts in a media line; none if it is not one."""
    match = _LINE.fullmatch(line) if len(line) <= MEDIA_LINE else None
    pairs = [pair.split() for pair in match[1].split(", ")] if match else []
    counts: Counter[str] = Counter()
    for number, kind in pairs:
        counts[_SINGULARS.get(kind, kind)] += int(number)
    return counts


def _line(kinds: list[tuple[str, int]], other: int) -> str:
    told = [(kind if count == 1 else _PLURALS.get(kind, kind), count) for kind, count in kinds]
    told += [(_OTHER, other)] if other else []
    return "media: " + ", ".join(f"{min(count, _MOST)} {kind}" for kind, count in told) if told else ""
