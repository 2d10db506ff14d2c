"""The read side of turnlog: timelines of what a model could see, and what is asked of them."""

from .check import Finding, check
from .derived import differences, rebuild
from .describe import Description, describe
from .diff import Change, diff
from .explain import Explained, explain
from .handoffs import Handoff, handoffs
from .history import History
from .plan import plan
from .problems import ADVICE, Problem, problems
from .query import query
from .render import VisibleCall, VisibleMessage
from .replay import Cause, Replayed, replay
from .search import Found, search
from .timelines.catch_up import RULES
from .timelines.modes import MODES
from .timelines.spans import Changes, Hidden, Span, Step
from .timelines.timeline import Timeline, history, timeline
from .trace import Traced, trace
from .usage import UsageRow, usage

__all__ = [
    "ADVICE",
    "MODES",
    "RULES",
    "Cause",
    "Change",
    "Changes",
    "Description",
    "Explained",
    "Finding",
    "Found",
    "Handoff",
    "Hidden",
    "History",
    "Problem",
    "Replayed",
    "Span",
    "Step",
    "Timeline",
    "Traced",
    "UsageRow",
    "VisibleCall",
    "VisibleMessage",
    "check",
    "describe",
    "diff",
    "differences",
    "explain",
    "handoffs",
    "history",
    "plan",
    "problems",
    "query",
    "rebuild",
    "replay",
    "search",
    "timeline",
    "trace",
    "usage",
]
