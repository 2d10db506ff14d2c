"""What the commands print for people: tables, transcripts and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from turnlog.projections import (
    Change,
    Finding,
    Found,
    Handoff,
    Hidden,
    History,
    Problem,
    Replayed,
    UsageRow,
    VisibleMessage,
)
from turnlog.store import Event, Fault, Listed, Verified

from ..costs import Cost
from ..wires import StablePrefix
from .printing import Piece, Printer

_ROLE_STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_CHANGES = {
    "same": (" ", ""),
    "changed": ("~", "yellow"),
    "moved": (">", "blue"),
    "only-a": ("-", "red"),
    "only-b": ("+", "green"),
}
_INDENT = 6


def counted(count: int, what: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def one_line(text: str, limit: int = 120) -> str:
    """Return a text on one line, cut at `limit` characters."""
    line = " ".join(text[: limit * 2].split())
    return line if len(line) <= limit and len(text) <= limit * 2 else line[: limit - 1] + "…"


def conversations(listed: list[Listed]) -> None:
    """Print a row for each conversation."""
    rows: list[tuple[Piece, ...]] = []
    for each in listed:
        name = each.conversation or each.uuid
        if each.parent is not None:
            name += f" (fork at {each.forked_at})"
        changed = "damaged" if each.changed is None else f"{each.changed:%Y-%m-%d %H:%M}"
        rows.append(((name, "bold"), str(each.version), changed, each.title or ""))
    Printer().table(("conversation", "version", "changed", "title"), rows)


def fault_line(fault: Fault) -> str:
    """Return a fault on one line."""
    where = "the store" if fault.conversation is None else f"conversation {fault.conversation}"
    version = "" if fault.version is None else f", version {fault.version}"
    return f"{where}{version}: {fault.why}"


def verified(found: Verified) -> None:
    """Print what is wrong with a store, a line each, then the verdict."""
    out = Printer()
    for fault in found.faults:
        out.line(fault_line(fault))
    for note in found.derived:
        out.line(f"derived: {note}")
    for each in found.renamed:
        now = "it has none" if each.name is None else f"it is {each.name}"
        out.line(f"conversation {each.conversation}: its name is not that of the checkpoint: {now}")
    verdict = counted(len(found.faults), "fault") if found.faults else "no fault"
    if found.derived and not found.faults:
        verdict = "no fault in the log, but what is derived from it differs (`turnlog rebuild` makes it again)"
    if found.renamed:
        verdict += f"; {counted(len(found.renamed), 'name')} not as at the checkpoint"
    out.line(f"{counted(found.events, 'event')} of {counted(found.conversations, 'conversation')}: {verdict}")


def event(out: Printer, event: Event, name: str | None = None) -> None:
    """Print an event on one line: version, time, scope, type, and what it says, cut at the terminal's width."""
    out.line(
        *([] if name is None else [(f"{name} ", "bold")]),
        (f"{event.version:>6} ", "bold" if name is None else ""),
        (f"{event.time:%Y-%m-%d %H:%M:%S} ", "dim"),
        f"{event.scope or '-':<8} {event.type:<10} ",
        one_line(_told_event(event), 200),
        cut=True,
    )


def transcript(history: History, hidden: list[Hidden] | None, problems: list[Problem]) -> None:
    """Print a history as a transcript, then what is hidden and the findings; neither if `hidden` is None."""
    out = Printer()
    about = f"{history.conversation} · {history.scope} · version {history.version}"
    if history.assistant is not None:
        about += f" · {history.assistant}"
    out.line((about, "bold"))
    for message in history.messages:
        out.line()
        out.line(*_heading(message))
        _content(out, message)
    if not history.messages and hidden is not None:
        out.line(("nothing is visible here", "dim"))
    if hidden is None:
        out.line()
        out.line(("(hidden messages and findings are not shown with --last)", "dim"))
        return
    _hidden(out, hidden)
    _problems(out, problems)


def _problems(out: Printer, found: list[Problem]) -> None:
    if found:
        out.line()
        out.line((counted(len(found), "finding"), "bold yellow"))
    for problem in found:
        call = f" (call {problem.call})" if problem.call else ""
        out.line(f"  {problem.version} {problem.rule}{call}: {problem.advice}")


def handoffs(found: list[Handoff], costs: list[list[Cost]]) -> None:
    """Print each transfer in a few lines, with what it cost in cache."""
    out = Printer()
    for number, (handoff, own) in enumerate(zip(found, costs, strict=True)):
        if number:
            out.line()
        marks = [mark for mark in ("inferred", "abandoned") if getattr(handoff, mark)]
        out.line(
            (f"{handoff.version:>5} ", "dim"),
            (f"{handoff.from_ or 'nobody'} → {handoff.to}", "bold"),
            ("".join(f" · {mark}" for mark in (handoff.scope, *marks)), "dim"),
        )
        context = "" if handoff.context == "all" else f", context {handoff.context}"
        out.line((f"      {handoff.mode}{context}", "cyan"))
        out.line(f"      {counted(handoff.before, 'message')} before, {handoff.after} after")
        hid = _listed((hidden.version, hidden.origin, hidden.call) for hidden in handoff.hid)
        out.line(f"      hid {hid}")
        added = ", ".join(message.origin.replace("_", " ") for message in handoff.added)
        out.line(f"      added {added or 'nothing'}")
        if handoff.reason:
            out.line(f"      reason: {one_line(handoff.reason)}")
        for problem in handoff.problems:
            out.line((f"      {problem.rule}: {problem.advice}", "yellow"))
        for each in own:
            if len(own) > 1:
                used = " (used)" if each.mode == handoff.mode else ""
                out.line((f"      {each.mode}{used}: {counted(each.messages, 'message')}", "cyan"))
            for name, prefix in each.prefixes.items():
                size = f"  {name}: {each.tokens[name]} tokens, " if len(own) > 1 else f"{name}: "
                out.line((f"      {size}{_cached(prefix)}", "dim"))


def totals(costs: list[list[Cost]]) -> None:
    """Print what all handoffs together would have kept and lost of caches under each mode."""
    if not costs:
        return
    out = Printer()
    out.line()
    rows = []
    for number, first in enumerate(costs[0]):
        cells: list[Piece] = [first.mode]
        for name in first.prefixes:
            each = [own[number].prefixes[name] for own in costs]
            cells += [f"{sum(prefix.kept for prefix in each):,}", f"{sum(prefix.lost for prefix in each):,}"]
        rows.append(cells)
    out.table(("mode", *(f"{name} {what}" for name in costs[0][0].prefixes for what in ("kept", "lost"))), rows)


def prefixes(found: dict[str, StablePrefix]) -> None:
    """Print what the second of two views keeps of the first one's requests."""
    out = Printer()
    for name, prefix in found.items():
        out.line((f"{name}: {_cached(prefix)}", "dim"), cut=True)


def _cached(prefix: StablePrefix) -> str:
    about = "about " if prefix.estimated else ""
    told = f"{about}{prefix.kept} tokens stay cached, {prefix.lost} are lost"
    if prefix.changed is None:
        return told
    return f"{told} (the {prefix.changed} changed" + (f" by {prefix.version})" if prefix.version else ")")


def findings(found: list[Finding]) -> None:
    """Print findings under the conversations that they are on."""
    out = Printer()
    conversation = None
    for each in found:
        if each.conversation != conversation:
            conversation = each.conversation
            out.line((conversation, "bold"))
        call = f" (call {each.call})" if each.call else ""
        out.line(f"{each.version:>5} {each.scope} ", (f"{each.rule}{call}", "yellow"), f": {each.advice}")


def found(hits: list[Found]) -> None:
    """Print what a search found, a few lines each."""
    out = Printer()
    for hit in hits:
        line: list[Piece] = [(f"{hit.conversation} ", "bold")]
        line.append(f"{hit.version} {hit.scope or '-'} {hit.role or hit.type}")
        if hit.assistant not in (None, hit.role):
            line.append((f" {hit.assistant}", "dim"))
        if hit.hidden_by is not None:
            line.append((f" · hidden by {hit.hidden_by[0]}, version {hit.hidden_by[1]}", "red"))
        out.line(*line)
        out.line(f"      {one_line(hit.snippet, 200)}")


def usage(rows: list[UsageRow]) -> None:
    """Print a row of tokens for each conversation, scope, assistant and model."""
    columns = ("conversation", "scope", "assistant", "model", "calls", "prompt", "completion", "total", "cached")
    cells = []
    for row in rows:
        counts = (row.calls, row.prompt_tokens, row.completion_tokens, row.total_tokens, row.cached_tokens)
        names = (row.conversation, row.scope, row.assistant or "-", row.model or "-")
        cells.append((*names, *(f"{count:,}" for count in counts)))
    Printer().table(columns, cells)


def replayed(found: list[Replayed]) -> None:
    """Print what became of each request, and whose redactions explain a difference."""
    out = Printer()
    for each in found:
        versions: dict[str, list[int]] = {each.conversation: []}
        for cause in each.by:
            versions.setdefault(cause.conversation, []).append(cause.version)
        causes = [
            f"version {', '.join(map(str, numbers))}" + ("" if name == each.conversation else f" of {name}")
            for name, numbers in versions.items()
            if numbers
        ]
        by = f" by {' and '.join(causes)}" if causes else ""
        out.line(f"{each.version:>5} {each.scope} at {each.at}: {each.outcome}{by}")


def changes(found: list[Change], names: tuple[str, str]) -> None:
    """Print two views beside each other: `-` only in the first, `+` only in the second, `~` changed, `>` moved."""
    out = Printer()
    out.line((f"--- {names[0]}", "red"))
    out.line((f"+++ {names[1]}", "green"))
    for change in found:
        message = change.b or change.a
        assert message is not None
        sign, style = _CHANGES[change.kind]
        out.line(
            (f"{sign} ", style),
            (f"{message.version:>5} {message.role:<9} {message.origin.replace('_', ' '):<19} ", style),
            (one_line(_said(message), 200), style),
            cut=True,
        )


def _heading(message: VisibleMessage) -> Iterator[Piece]:
    yield f"{message.version:>5} ", "dim"
    yield message.role, f"bold {_ROLE_STYLES[message.role]}"
    if message.assistant not in (None, message.role) and message.role not in ("user", "tool"):
        yield f" {message.assistant}", "dim"
    if message.origin not in ("message", "response"):
        yield f" · {message.origin.replace('_', ' ')}", "dim"
    if message.tool_call_id is not None:
        yield f" · {message.tool_call_id}", "dim"
    if message.scope == "shared_memory":
        yield " · shared memory", "dim"


def _content(out: Printer, message: VisibleMessage) -> None:
    parts = message.content if isinstance(message.content, list) else [{"type": "text", "text": message.content}]
    for part in parts:
        text = part.get("text") if part.get("type") == "text" else f"[{part.get('type')}]"
        for line in str(text or "").split("\n"):
            out.line(line, indent=_INDENT)
    for call in message.tool_calls:
        out.line((f"→ {call.name}({call.arguments}) {call.id}", "yellow"), indent=_INDENT)


def _hidden(out: Printer, hidden: list[Hidden]) -> None:
    if not hidden:
        return
    out.line()
    out.line((f"{len(hidden)} hidden", "bold"))
    groups: dict[tuple[str, int], list[Hidden]] = {}
    for each in hidden:
        own = each.by == each.version and not each.rule.startswith(("transfer:", "context:"))
        groups.setdefault((each.rule, 0 if own else each.by), []).append(each)
    for (rule, by), members in groups.items():
        what = _listed((each.version, each.origin, each.call) for each in members)
        out.line(f"  {what} by {rule}" + (f" of {by}" if by else ""))


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
            told.append(f"call {call} of {version}" if call else f"{version} {origin.replace('_', ' ')}")
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
