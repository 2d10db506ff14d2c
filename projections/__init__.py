"""The read side of turnlog: pure folds over events."""

from .check import Finding, check
from .describe import Description, describe
from .diff import Change, diff
from .explain import Explained, Passed, explain
from .fold import RULES, Fold, Modes
from .following import Following, follow
from .handoffs import Handoff, handoffs
from .history import Hidden, History, history
from .path import path_of
from .plan import plan
from .problems import ADVICE, Problem
from .query import query
from .reading import MODES
from .render import VisibleCall, VisibleMessage
from .replay import Replayed, replay
from .search import Found, catch_up, rebuild, search
from .usage import UsageRow, usage

__all__ = [
    "ADVICE",
    "MODES",
    "RULES",
    "Change",
    "Description",
    "Explained",
    "Finding",
    "Fold",
    "Following",
    "Found",
    "Handoff",
    "Hidden",
    "History",
    "Modes",
    "Passed",
    "Problem",
    "Replayed",
    "UsageRow",
    "VisibleCall",
    "VisibleMessage",
    "catch_up",
    "check",
    "describe",
    "diff",
    "explain",
    "follow",
    "handoffs",
    "history",
    "path_of",
    "plan",
    "query",
    "rebuild",
    "replay",
    "search",
    "usage",
]
