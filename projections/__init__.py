"""The read side of turnlog: pure folds over events."""

from .describe import Description, describe
from .diff import Change, diff
from .fold import RULES, Fold, Modes
from .handoffs import Handoff, handoffs
from .history import MODES, Hidden, History, history
from .path import path_of
from .problems import Problem
from .render import VisibleCall, VisibleMessage

__all__ = [
    "MODES",
    "RULES",
    "Change",
    "Description",
    "Fold",
    "Handoff",
    "Hidden",
    "History",
    "Modes",
    "Problem",
    "VisibleCall",
    "VisibleMessage",
    "describe",
    "diff",
    "handoffs",
    "history",
    "path_of",
]
