"""Timelines: which message was visible from which version until which, and what ended that."""
