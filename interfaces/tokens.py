"""Counting tokens with `tiktoken`, instead of estimating them.

Needs the extra: `pip install 'turnlog[tiktoken]'`.
"""

from __future__ import annotations

from collections.abc import Callable

from turnlog.store import NotFound
from turnlog.store.arguments import text
from turnlog.store.errors import printable


def counter(encoding: str) -> Callable[[str], int]:
    """What counts a text's tokens in an encoding of tiktoken, such as `o200k_base`.

    :raises NotFound: tiktoken is not installed, or has no such encoding.
    """
    try:
        import tiktoken
    except ImportError:
        raise NotFound("encoding", encoding, "needs the tiktoken package: pip install 'turnlog[tiktoken]'") from None
    try:
        found = tiktoken.get_encoding(text("encoding", encoding))
    except (ValueError, OSError) as error:
        why = printable(" ".join(str(error).split()))
        raise NotFound("encoding", encoding, f"cannot be had from tiktoken: {why}") from None
    return lambda text: len(found.encode_ordinary(text))
