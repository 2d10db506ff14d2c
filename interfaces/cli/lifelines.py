"""Print lifelines: from which version until which a message was visible, and what ended that."""

from __future__ import annotations

from rich.text import Text

from turnlog.projections import Explained, Span, Traced

from .output import console, one_line, safe


def explained(found: list[Explained]) -> None:
    """Print the lifelines of what an event placed."""
    out = console()
    for each in found:
        line = Text(f"{each.scope} ", "bold")
        line.append(f"{each.origin.replace('_', ' ')}: ")
        if each.visible:
            line.append("visible", "green")
        else:
            line.append(f"hidden by {each.rule}, version {each.by}", "red")
        out.print(line)
        for span in each.spans:
            out.print(Text(f"      {_lifeline(span)}", "dim"))
        for taken in each.calls:
            out.print(Text(f"      its call {safe(taken.call or '')} was removed by {taken.rule}, version {taken.by}"))


def _lifeline(span: Span) -> str:
    if span.until == span.since:
        return f"never visible: {span.rule}, version {span.by}"
    if span.until is None:
        return f"visible from {span.since} on" + (", its text alone" if span.text_only else "")
    ended = "changed" if span.goes_on else "ended"
    return f"visible from {span.since} until {span.until}, {ended} by {span.rule}, version {span.by}"


def traced(found: list[Traced]) -> None:
    """Print the lifelines of the messages that have some words, and what would have kept them."""
    out = console()
    for each in found:
        line = Text(f"{each.version} {each.scope} {each.role} ", "bold")
        line.append(each.origin.replace("_", " "), "dim")
        out.print(line)
        out.print(Text(f"      {one_line(each.excerpt, 200)}"))
        for span in each.spans:
            out.print(Text(f"      {_lifeline(span)}", "dim"))
        if each.ended_by is not None:
            kept = ", ".join(each.kept_by) or "no mode"
            out.print(Text(f"      transfer {each.ended_by} ended it; kept by {kept}", "yellow"))
