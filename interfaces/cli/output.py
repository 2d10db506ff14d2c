"""What the commands print: JSON for programs, tables and transcripts for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnlog.projections import (
    Change,
    Finding,
    Found,
    Handoff,
    Hidden,
    History,
    Problem,
    UsageRow,
    VisibleMessage,
)
from turnlog.store import Event, Fault, Listed, Verified

from ..costs import Cost
from ..wires import StablePrefix

_ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_CHANGES = {
    "same": (" ", ""),
    "changed": ("~", "yellow"),
    "moved": (">", "blue"),
    "only-a": ("-", "red"),
    "only-b": ("+", "green"),
}
_PIPED_WIDTH = 400
# Control characters but newline and tab, the marks that turn the direction of writing, and line separators.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def console() -> Console:
    """Standard output; without a terminal, lines are long enough not to be folded."""
    terminal = sys.stdout.isatty()
    return Console(highlight=False, soft_wrap=not terminal, width=None if terminal else _PIPED_WIDTH)


def to_json(value: Any) -> bytes:
    """A value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def print_json(value: Any) -> None:
    """A value as JSON: indented on a terminal, else on one line."""
    terminal = sys.stdout.isatty()
    text = (to_json(value) if terminal else msgspec.json.encode(value)).decode() + "\n"
    # JSON is UTF-8, whatever the encoding of the terminal.
    sys.stdout.buffer.write((safe_json(text) if terminal else text).encode())
    sys.stdout.flush()


def safe_json(text: str) -> str:
    """Return the same JSON with what would command a terminal escaped."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def counted(count: int, what: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def safe(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters are told by their numbers."""
    return _OBEYED.sub(_escape, text)


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, cut at `limit` characters."""
    line = safe(" ".join(text[: limit * 2].split()))
    return line if len(line) <= limit and len(text) <= limit * 2 else line[: limit - 1] + "…"


def conversations(listed: list[Listed]) -> None:
    """A row for each conversation."""
    table = table_of("conversation", "version", "changed", "title")
    for each in listed:
        name = each.conversation or each.uuid
        if each.parent is not None:
            name += f" (fork at {each.forked_at})"
        table.add_row(
            Text(safe(name), "bold"),
            str(each.version),
            "damaged" if each.changed is None else f"{each.changed:%Y-%m-%d %H:%M}",
            Text(safe(each.title or "")),
        )
    show(table)


def fault_line(fault: Fault) -> str:
    """Return a fault on one line."""
    where = "the store" if fault.conversation is None else f"conversation {safe(fault.conversation)}"
    version = "" if fault.version is None else f", version {fault.version}"
    return f"{where}{version}: {safe(fault.why)}"


def verified(found: Verified) -> None:
    """What is wrong with a store, a line each, then the verdict."""
    for fault in found.faults:
        click.echo(fault_line(fault))
    for note in found.derived:
        click.echo(f"derived: {safe(note)}")
    for each in found.renamed:
        now = "it has none" if each.name is None else f"it is {safe(each.name)}"
        click.echo(f"conversation {safe(each.conversation)}: its name is not that of the checkpoint: {now}")
    verdict = counted(len(found.faults), "fault") if found.faults else "no fault"
    if found.derived and not found.faults:
        verdict = "no fault in the log, but what is derived from it differs (`turnlog rebuild` makes it again)"
    if found.renamed:
        verdict += f"; {counted(len(found.renamed), 'name')} not as at the checkpoint"
    click.echo(f"{counted(found.events, 'event')} of {counted(found.conversations, 'conversation')}: {verdict}")


def event_line(event: Event, name: str | None = None) -> Text:
    """One event on one line: version, time, scope, type, and what it says."""
    line = Text(end="")
    if name is not None:
        line.append(f"{safe(name)} ", "bold")
    line.append(f"{event.version:>6} ", "bold" if name is None else "")
    line.append(f"{event.time:%Y-%m-%d %H:%M:%S} ", "dim")
    line.append(f"{safe(event.scope or '-'):<8} {safe(event.type):<10} ")
    line.append(one_line(_told_event(event), 200))
    return line


def print_event(out: Console, event: Event, name: str | None = None) -> None:
    """Print an event's line, cut at the terminal's width."""
    _print_line(out, event_line(event, name))


def transcript(history: History, hidden: list[Hidden] | None, problems: list[Problem]) -> None:
    """Print a history as a transcript, then what is hidden and the findings; neither if `hidden` is None."""
    out = console()
    about = f"{safe(history.conversation)} · {history.scope} · version {history.version}"
    if history.assistant is not None:
        about += f" · {safe(history.assistant)}"
    out.print(Text(about, "bold"))
    for message in history.messages:
        out.print()
        out.print(_heading(message))
        _content(out, message)
    if not history.messages and hidden is not None:
        out.print(Text("nothing is visible here", "dim"))
    if hidden is None:
        out.print()
        out.print(Text("(hidden messages and findings are not shown with --last)", "dim"))
        return
    _hidden(out, hidden)
    _problems(out, problems)


def _problems(out: Console, found: list[Problem]) -> None:
    if found:
        out.print()
        out.print(Text(counted(len(found), "finding"), "bold yellow"))
    for problem in found:
        call = f" (call {safe(problem.call)})" if problem.call else ""
        out.print(Text(f"  {problem.version} {problem.rule}{call}: {problem.advice}"))


def handoffs(found: list[Handoff], costs: list[list[Cost]]) -> None:
    """Each transfer in a few lines, with what it cost in cache."""
    out = console()
    for number, (handoff, own) in enumerate(zip(found, costs, strict=True)):
        if number:
            out.print()
        heading = Text(f"{handoff.version:>5} ", "dim")
        heading.append(f"{safe(handoff.from_ or 'nobody')} → {safe(handoff.to)}", "bold")
        marks = [mark for mark in ("inferred", "abandoned") if getattr(handoff, mark)]
        heading.append("".join(f" · {mark}" for mark in (handoff.scope, *marks)), "dim")
        out.print(heading)
        context = "" if handoff.context == "all" else f", context {handoff.context}"
        out.print(Text(f"      {handoff.mode}{context}", "cyan"))
        out.print(Text(f"      {counted(handoff.before, 'message')} before, {handoff.after} after"))
        hid = _listed((hidden.version, hidden.origin, hidden.call) for hidden in handoff.hid)
        out.print(Text(f"      hid {hid}"))
        added = ", ".join(message.origin.replace("_", " ") for message in handoff.added)
        out.print(Text(f"      added {added or 'nothing'}"))
        if handoff.reason:
            out.print(Text(f"      reason: {one_line(handoff.reason)}"))
        for problem in handoff.problems:
            out.print(Text(f"      {problem.rule}: {problem.advice}", "yellow"))
        for each in own:
            if len(own) > 1:
                used = " (used)" if each.mode == handoff.mode else ""
                out.print(Text(f"      {each.mode}{used}: {counted(each.messages, 'message')}", "cyan"))
            for name, prefix in each.prefixes.items():
                size = f"  {name}: {each.tokens[name]} tokens, " if len(own) > 1 else f"{name}: "
                out.print(Text(f"      {size}{_cached(prefix)}", "dim"))


def totals(costs: list[list[Cost]]) -> None:
    """Print what all handoffs together would have kept and lost of caches under each mode."""
    if not costs:
        return
    out = console()
    out.print()
    table = table_of("mode", *(f"{name} {what}" for name in costs[0][0].prefixes for what in ("kept", "lost")))
    for number, first in enumerate(costs[0]):
        cells = []
        for name in first.prefixes:
            each = [own[number].prefixes[name] for own in costs]
            cells += [f"{sum(prefix.kept for prefix in each):,}", f"{sum(prefix.lost for prefix in each):,}"]
        table.add_row(Text(first.mode), *cells)
    show(table)


def prefixes(found: dict[str, StablePrefix]) -> None:
    """What the second of two views keeps of the first one's requests."""
    out = console()
    for name, prefix in found.items():
        _print_line(out, Text(f"{name}: {_cached(prefix)}", "dim"))


def _cached(prefix: StablePrefix) -> str:
    about = "about " if prefix.estimated else ""
    told = f"{about}{prefix.kept} tokens stay cached, {prefix.lost} are lost"
    if prefix.changed is None:
        return told
    return f"{told} (the {prefix.changed} changed" + (f" by {prefix.version})" if prefix.version else ")")


def findings(found: list[Finding]) -> None:
    """Findings, under the conversations that they are on."""
    out = console()
    conversation = None
    for each in found:
        if each.conversation != conversation:
            conversation = each.conversation
            out.print(Text(safe(conversation), "bold"))
        line = Text(f"{each.version:>5} {each.scope} ")
        line.append(each.rule + (f" (call {safe(each.call)})" if each.call else ""), "yellow")
        line.append(f": {each.advice}")
        out.print(line)


def found(hits: list[Found]) -> None:
    """What a search found, a few lines each."""
    out = console()
    for hit in hits:
        line = Text(f"{safe(hit.conversation)} ", "bold")
        line.append(f"{hit.version} {hit.scope or '-'} {hit.role or hit.type}")
        if hit.assistant not in (None, hit.role):
            line.append(f" {safe(str(hit.assistant))}", "dim")
        if hit.hidden_by is not None:
            line.append(f" · hidden by {hit.hidden_by[0]}, version {hit.hidden_by[1]}", "red")
        out.print(line)
        out.print(Text(f"      {one_line(hit.snippet, 200)}"))


def usage(rows: list[UsageRow]) -> None:
    """A row of tokens for each conversation, scope, assistant and model."""
    table = table_of("conversation", "scope", "assistant", "model", "calls", "prompt", "completion", "total", "cached")
    for row in rows:
        counts = (row.calls, row.prompt_tokens, row.completion_tokens, row.total_tokens, row.cached_tokens)
        names = (row.conversation, row.scope, row.assistant or "-", row.model or "-")
        table.add_row(*(Text(safe(name)) for name in names), *(f"{count:,}" for count in counts))
    show(table)


def changes(found: list[Change], names: tuple[str, str]) -> None:
    """Two views beside each other: `-` only in the first, `+` only in the second, `~` changed, `>` moved."""
    out = console()
    out.print(Text(f"--- {names[0]}", "red"))
    out.print(Text(f"+++ {names[1]}", "green"))
    for change in found:
        message = change.b or change.a
        assert message is not None
        sign, style = _CHANGES[change.kind]
        line = Text(f"{sign} ", style)
        line.append(f"{message.version:>5} {message.role:<9} {message.origin.replace('_', ' '):<19} ")
        line.append(one_line(_said(message), 200))
        _print_line(out, line)


def _heading(message: VisibleMessage) -> Text:
    heading = Text(f"{message.version:>5} ", "dim")
    heading.append(message.role, f"bold {_ROLE_STYLES[message.role]}")
    if message.assistant not in (None, message.role) and message.role not in ("user", "tool"):
        heading.append(f" {safe(str(message.assistant))}", "dim")
    if message.origin not in ("message", "response"):
        heading.append(f" · {message.origin.replace('_', ' ')}", "dim")
    if message.tool_call_id is not None:
        heading.append(f" · {safe(message.tool_call_id)}", "dim")
    if message.scope == "shared_memory":
        heading.append(" · shared memory", "dim")
    return heading


def _content(out: Console, message: VisibleMessage) -> None:
    parts = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
    for part in parts:
        text = part.get("text") if part.get("type") == "text" else f"[{part.get('type')}]"
        for line in safe(str(text or "")).split("\n"):
            out.print(_indented(Text(line)))
    for call in message.tool_calls:
        out.print(_indented(Text(f"→ {safe(call.name)}({safe(call.arguments)}) {safe(call.id)}", "yellow")))


def _indented(text: Text) -> Padding | Text:
    """A paragraph that keeps its indent where a terminal folds it."""
    return Padding(text, (0, 0, 0, 6)) if sys.stdout.isatty() else Text("      ") + text


def _hidden(out: Console, hidden: list[Hidden]) -> None:
    if not hidden:
        return
    out.print()
    out.print(Text(f"{len(hidden)} hidden", "bold"))
    groups: dict[tuple[str, int], list[Hidden]] = {}
    for each in hidden:
        own = each.by == each.version and not each.rule.startswith(("transfer:", "context:"))
        groups.setdefault((each.rule, 0 if own else each.by), []).append(each)
    for (rule, by), members in groups.items():
        what = _listed((each.version, each.origin, each.call) for each in members)
        out.print(Text(f"  {what} by {rule}" + (f" of {by}" if by else "")))


def _listed(items: Iterable[tuple[int, str, str | None]]) -> str:
    """Versions as ranges, with what is no plain message named: `1 prompt, 2-5, call t1 of 7`."""
    told: list[str] = []
    run: list[int] = []
    for version, origin, call in items:
        plain = origin in ("message", "response") and call is None
        if plain and run and version == run[-1] + 1:
            run.append(version)
            told[-1] = f"{run[0]}-{version}"
        elif plain:
            run = [version]
            told.append(str(version))
        else:
            run = []
            told.append(f"call {safe(call)} of {version}" if call else f"{version} {origin.replace('_', ' ')}")
    return ", ".join(told) or "nothing"


def _said(message: VisibleMessage) -> str:
    content = message.content
    if isinstance(content, list):
        content = " ".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)
    return " ".join([content, *(f"→ {call.name}({call.arguments})" for call in message.tool_calls)])


def _told_event(event: Event) -> str:
    """What an event says, in short."""
    if event.redacted:
        return "[redacted]"
    body = event.body
    calls = body.get("tool_calls")
    match event.type:
        case "message":
            said = [str(body.get("role")), _shortly(body.get("content"))]
            names = (
                [f"→ {call.get('name')}" for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
            )
            return " ".join([*said, *names])
        case "transfer":
            return f"to {body.get('to')} ({body.get('mode', 'rolling-history')}) {_shortly(body.get('message'))}"
        case "assistant":
            return f"{body.get('assistant')}: {_shortly(body.get('system'))}"
        case "summary":
            covers = f"of {body.get('first')}-{body.get('last')} " if "first" in body else ""
            return f"{covers}{_shortly(body.get('text'))}"
        case _:
            return msgspec.json.encode(body).decode()[:400]


def _shortly(content: object) -> str:
    if content is None:
        return ""
    return content[:400] if isinstance(content, str) else msgspec.json.encode(content).decode()[:400]


def _print_line(out: Console, line: Text) -> None:
    """One line, cut at the terminal's width."""
    out.print(line, soft_wrap=False, no_wrap=True, overflow="ellipsis", crop=out.is_terminal)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def table_of(*columns: str | Text) -> Table:
    """Return an empty table of the look that all have."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def show(table: Table) -> None:
    """Print a table; in a pipe its lines end where their text does."""
    out = console()
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table, soft_wrap=False)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()
