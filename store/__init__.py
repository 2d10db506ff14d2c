"""The write side of turnlog: events, the append contract, and the log in SQLite."""

from .append import Receipt
from .checkpoint import Checkpoint, read_checkpoint
from .codec import Event, Row
from .conversation import Conversation
from .errors import (
    Damaged,
    DuplicateEvent,
    InvalidArgument,
    InvalidEvent,
    NameTaken,
    NewerStore,
    NotFound,
    RestoreRefused,
    StoreBusy,
    StoreReadOnly,
    StoreUnusable,
    TurnlogError,
    VersionConflict,
)
from .events import (
    SCOPES,
    Assistant,
    CachePoint,
    Clear,
    Describe,
    Message,
    NewEvent,
    Redaction,
    Request,
    Response,
    Rewind,
    Summary,
    TokenUsage,
    ToolCall,
    Transfer,
    TransferContext,
)
from .exchange import Exported, Restored, line_of, read_line
from .expected import ANY, MUST_EXIST, NONE_YET, Expected, ExpectedVersion, Unchanged
from .faults import Fault, Renamed, Verified
from .forget import Forgotten
from .log import Store
from .mentions import Left, Mention
from .query import QueryRefused, QueryResult, QueryTimedOut
from .reading import Listed
from .redact import Redacted
from .retention import Expired, Retention
from .targets import Target

__all__ = [
    "ANY",
    "MUST_EXIST",
    "NONE_YET",
    "SCOPES",
    "Assistant",
    "CachePoint",
    "Checkpoint",
    "Clear",
    "Conversation",
    "Damaged",
    "Describe",
    "DuplicateEvent",
    "Event",
    "Expected",
    "ExpectedVersion",
    "Expired",
    "Exported",
    "Fault",
    "Forgotten",
    "InvalidArgument",
    "InvalidEvent",
    "Left",
    "Listed",
    "Mention",
    "Message",
    "NameTaken",
    "NewEvent",
    "NewerStore",
    "NotFound",
    "QueryRefused",
    "QueryResult",
    "QueryTimedOut",
    "Receipt",
    "Redacted",
    "Redaction",
    "Renamed",
    "Request",
    "Response",
    "RestoreRefused",
    "Restored",
    "Retention",
    "Rewind",
    "Row",
    "Store",
    "StoreBusy",
    "StoreReadOnly",
    "StoreUnusable",
    "Summary",
    "Target",
    "TokenUsage",
    "ToolCall",
    "Transfer",
    "TransferContext",
    "TurnlogError",
    "Unchanged",
    "Verified",
    "VersionConflict",
    "line_of",
    "read_checkpoint",
    "read_line",
]
