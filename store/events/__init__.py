"""The types of events: how each is written, what of it is its frame, and what else is known of it.

Each type has a module with its struct and its frame; `registry` has what is derived from all of them. Every event may
carry `scope` (`chat` if absent), `id` (an idempotency key, unique in its conversation), `occurred_at`, and `actor`,
`meta` and `extra`, which are kept as they are. A field that is None is absent.
"""

from .assistant import Assistant, AssistantFrame
from .base import HEADER, SCOPE, SCOPES, Frame, Name, NewEvent, Tool, tool_names
from .cache_points import CachePoint, Messages, System, Tools, Within, read_point
from .clear import Clear, ClearFrame
from .describe import Describe, DescribeFrame
from .fork import Fork, ForkFrame
from .message import Message, MessageFrame, Role
from .parts import (
    KINDS,
    Call,
    Content,
    Kind,
    Part,
    PartKind,
    ToolCall,
    calls_of,
    frame_parts,
    has_other,
    has_text,
    kind_of,
    text_of,
)
from .redaction import Redaction, RedactionFrame
from .registry import CONTENTS, CUSTOM_TYPE, TEXTS, TYPES, Custom, read_frame, references_of, texts_of
from .request import Request, RequestFrame
from .response import Response, ResponseFrame, Status
from .rewind import Rewind, RewindFrame
from .summary import Summary, SummaryFrame, SummaryRole
from .transfer import Context, ContextType, FirstMessageMode, Mode, Transfer, TransferContext, TransferFrame
from .usage import TokenUsage, Usage

__all__ = [
    "CONTENTS",
    "CUSTOM_TYPE",
    "HEADER",
    "KINDS",
    "SCOPE",
    "SCOPES",
    "TEXTS",
    "TYPES",
    "Assistant",
    "AssistantFrame",
    "CachePoint",
    "Call",
    "Clear",
    "ClearFrame",
    "Content",
    "Context",
    "ContextType",
    "Custom",
    "Describe",
    "DescribeFrame",
    "FirstMessageMode",
    "Fork",
    "ForkFrame",
    "Frame",
    "Kind",
    "Message",
    "MessageFrame",
    "Messages",
    "Mode",
    "Name",
    "NewEvent",
    "Part",
    "PartKind",
    "Redaction",
    "RedactionFrame",
    "Request",
    "RequestFrame",
    "Response",
    "ResponseFrame",
    "Rewind",
    "RewindFrame",
    "Role",
    "Status",
    "Summary",
    "SummaryFrame",
    "SummaryRole",
    "System",
    "TokenUsage",
    "Tool",
    "ToolCall",
    "Tools",
    "Transfer",
    "TransferContext",
    "TransferFrame",
    "Usage",
    "Within",
    "calls_of",
    "frame_parts",
    "has_other",
    "has_text",
    "kind_of",
    "read_frame",
    "read_point",
    "references_of",
    "text_of",
    "texts_of",
    "tool_names",
]
