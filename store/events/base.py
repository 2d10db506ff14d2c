"""What all types of events share: their common fields, the base of their frames, and the types of fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

SCOPES = ("chat", "agent", "coder", "shared_memory")
HEADER = frozenset(("type", "v", "scope", "id", "occurred_at"))

MAX_NAME_LENGTH = 200
NO_CONTROLS = r"\A[^\x00-\x1f\x7f-\x9f]*\Z"
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NO_CONTROLS)]
SCOPE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
Scope = Annotated[str, Meta(pattern=rf"\A{SCOPE.pattern}")]
Count = Annotated[int, Meta(ge=0)]
Tool: TypeAlias = dict[str, Any]
# The field, the value and the reason why an event may not have them at its version and in its scope.
Misplaced: TypeAlias = tuple[str, object, str]


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What of an event survives erasure: all that the shape of a view needs, and nothing of the text.

    A frame is derived from its event on append and stored beside the body. A flag such as `system` is true if the
    event has text there, false if it has an empty one, and absent if it has none.
    """

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong with an event of this frame at this version and in this scope; None if it may be there.

        :returns: the field, its value and the reason.
        """
        return None


class FrameField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A field of a frame that has fields of its own."""


class NewEvent(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """An event as its writer gives it, with what every type may carry.

    A subclass adds the fields of its type and declares what else must be known of the type:

    - `frame_type` is the struct of its frame;
    - `texts` has the fields of the body that hold text which the event says, and `parts_field` is the one of them that
      may hold a list of parts instead;
    - `references` has the fields that hold the version of another event, or a list of versions.
    """

    scope: str | None = None
    id: Name | None = None
    occurred_at: Annotated[datetime, Meta(tz=True)] | None = None
    actor: Any = None
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    default_scope: ClassVar[str | None] = "chat"
    frame_type: ClassVar[type[Frame]] = Frame
    texts: ClassVar[tuple[str, ...]] = ()
    parts_field: ClassVar[str | None] = None
    references: ClassVar[tuple[str, ...]] = ()

    def written(self) -> dict[str, Any]:
        """Return the event as JSON.

        :raises TypeError: a field has what JSON cannot say.
        :raises RecursionError: it is nested too deeply.
        """
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def check(self) -> None:
        """Refuse what the types of the fields cannot express.

        :raises InvalidEvent: names the field and the value.
        """

    def frame(self) -> Frame:
        """Return the part of this event that survives erasure."""
        return self.frame_type()


def flag(text: str | None) -> bool | None:
    """Return whether a text is more than empty; None if there is none."""
    return None if text is None else bool(text)


def tool_names(tools: Sequence[Tool] | None) -> tuple[str, ...] | None:
    """Return the names of tools given either flat or as OpenAI's `{"type": "function", "function": {…}}`."""
    if tools is None:
        return None
    inner = (tool.get("function", tool) for tool in tools)
    return tuple(tool["name"] for tool in inner if isinstance(tool, dict) and isinstance(tool.get("name"), str))


def scope_missing(scope: str | None) -> Misplaced | None:
    """Return the fault of an event that needs a scope and has none."""
    return ("scope", None, "is missing") if scope is None else None


def scope_given(scope: str | None) -> Misplaced | None:
    """Return the fault of an event that concerns the whole conversation and yet has a scope."""
    return None if scope is None else ("scope", scope, "is not allowed: the event is about the whole conversation")


def assistants_scope(scope: str | None) -> Misplaced | None:
    """Return the fault of an event about assistants in a scope that has none."""
    if scope == "shared_memory":
        return "scope", scope, "is not allowed: shared memory has no assistants"
    return scope_missing(scope)


def not_earlier(field: str, reference: int, version: int, type: str, least: int = 1) -> Misplaced | None:
    """Return the fault of an event of `version` whose reference is not to an earlier one, from `least` on."""
    if least <= reference < version:
        return None
    return field, reference, f"is not a version before the {type}'s own, {version}"
