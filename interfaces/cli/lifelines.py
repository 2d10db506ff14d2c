"""Print lifelines: from which version until which a message was visible, and what ended that."""

from __future__ import annotations

from turnlog.projections import Explained, Span, Traced

from .output import one_line
from .printing import Printer


def explained(found: list[Explained]) -> None:
    """Print the lifelines of what an event placed."""
    out = Printer()
    for each in found:
        now = ("visible", "green") if each.visible else (f"hidden by {each.rule}, version {each.by}", "red")
        out.line((f"{each.scope} ", "bold"), f"{each.origin.replace('_', ' ')}: ", now)
        for span in each.spans:
            out.line((f"      {_lifeline(span)}", "dim"))
        for taken in each.calls:
            out.line(f"      its call {taken.call or ''} was removed by {taken.rule}, version {taken.by}")


def _lifeline(span: Span) -> str:
    if span.until == span.since:
        return f"never visible: {span.rule}, version {span.by}"
    if span.until is None:
        return f"visible from {span.since} on" + (", its text alone" if span.text_only else "")
    ended = "changed" if span.goes_on else "ended"
    return f"visible from {span.since} until {span.until}, {ended} by {span.rule}, version {span.by}"


def traced(found: list[Traced]) -> None:
    """Print the lifelines of the messages that have some words, and what would have kept them."""
    out = Printer()
    for each in found:
        out.line((f"{each.version} {each.scope} {each.role} ", "bold"), (each.origin.replace("_", " "), "dim"))
        out.line(f"      {one_line(each.excerpt, 200)}")
        for span in each.spans:
            out.line((f"      {_lifeline(span)}", "dim"))
        if each.ended_by is not None:
            kept = ", ".join(each.kept_by) or "no mode"
            out.line((f"      transfer {each.ended_by} ended it; kept by {kept}", "yellow"))
