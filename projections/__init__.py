"""The read side of turnlog: pure folds over events."""

from .fold import RULES, Fold, Modes
from .history import MODES, Hidden, History, history
from .problems import Problem
from .render import VisibleCall, VisibleMessage

__all__ = [
    "MODES",
    "RULES",
    "Fold",
    "Hidden",
    "History",
    "Modes",
    "Problem",
    "VisibleCall",
    "VisibleMessage",
    "history",
]
