"""What the commands share: the group, the store, points of time, and how a refusal ends."""

from __future__ import annotations

import errno
import functools
import io
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from turnlog.projections import MODES, differences
from turnlog.store import InvalidArgument, Store, StoreUnusable, TurnlogError
from turnlog.store.events import Mode
from turnlog.store.times import CLOCKS

from . import output
from .printing import escape, say

At = int | datetime | None


class _Refusing(click.Group):
    """A group whose commands end with one line and exit code 1 when something is refused.

    What click says of wrong usage repeats what was typed, and is escaped like all that is printed.
    """

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _escaping():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _escaping():
                return super().invoke(ctx)
        except TurnlogError as error:
            raise click.ClickException(told(error)) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            raise click.ClickException(told(error)) from None


@contextmanager
def _escaping() -> Iterator[None]:
    try:
        yield
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        raise  # These have several lines, and nothing that was typed.
    except click.UsageError as error:
        text = escape(error.format_message())
        if text == error.format_message():
            raise
        raise click.UsageError(text, error.ctx) from None


def told(error: Exception) -> str:
    """Return an error on one line that a terminal shows and does not obey."""
    if isinstance(error, OSError) and error.strerror is not None:
        return escape(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return escape(str(error))


class _At(click.ParamType[Any]):
    """A version, or a time (UTC unless it says otherwise)."""

    name = "version|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        try:
            return TIME.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither a version nor a time such as 2026-11-29T12:00:00", param, ctx)


class _ModeOf(click.ParamType[Any]):
    """VERSION=MODE, a mode for one transfer."""

    name = "version=mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, Mode]:
        version, _, mode = value.partition("=")
        if not version.isdecimal() or mode not in MODES:
            self.fail(f"{value!r} is not VERSION=MODE, with a mode of {', '.join(MODES)}", param, ctx)
        return int(version), mode


class _Point(click.ParamType[Any]):
    """A version, a time, a mode, or MODE@VERSION."""

    name = "point"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | datetime | None, Mode | None]:
        mode, _, at = value.partition("@")
        if mode in MODES:
            return (AT.convert(at, param, ctx) if at else None), mode
        if value == "latest":
            return None, None
        try:
            return AT.convert(value, param, ctx), None
        except click.BadParameter:
            self.fail(f"{value!r} is neither a version, a time, `latest`, a mode, nor MODE@VERSION", param, ctx)


AT = _At()
POINT = _Point()


class _Time(click.ParamType[Any]):
    """A time, UTC unless it says otherwise."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-11-29T12:00:00", param, ctx)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


TIME = _Time()


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the store, opened read-only, as its first argument."""
    return _with_store(command, read_only=True)


def projecting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the store as its first argument: opened read-only if its file or folder cannot be written.

    For commands that read timelines, which are caught up in the store's file where that can be written.
    """
    return _with_store(command, read_only=None)


def writing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the store, which must be there, as its first argument."""
    return _with_store(command, must_exist=True)


def making(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the store, made if it does not exist, as its first argument."""
    return _with_store(command)


def _with_store(
    command: Callable[..., Any], read_only: bool | None = False, must_exist: bool = False
) -> Callable[..., Any]:
    @click.option("--db", metavar="PATH", help="The store's file, before TURNLOG_DB.")
    @functools.wraps(command)
    @click.pass_context
    def wrapped(ctx: click.Context, /, *arguments: Any, db: str | None, **options: Any) -> Any:
        path = db or ctx.obj
        if must_exist and not Path(path).exists():
            raise StoreUnusable(path, "does not exist")
        file = Path(path)
        unwritable = not os.access(path, os.W_OK) or not os.access(file.resolve().parent, os.W_OK)
        with Store(path, read_only=unwritable if read_only is None else read_only) as store, _damage_told(store):
            return command(store, *arguments, **_by_clock(store, options))

    return wrapped


@contextmanager
def _damage_told(store: Store) -> Iterator[None]:
    """Refuse in one line what fails because the store is damaged; what fails in a sound store is our own fault.

    :raises StoreUnusable: the store is damaged, and why.
    """
    try:
        yield
    except (TurnlogError, click.ClickException, click.exceptions.Exit, click.Abort, OSError):
        raise
    except sqlite3.Error as error:
        raise StoreUnusable(store.path, str(error)) from error
    except Exception as error:
        found = store.verify(derived=lambda: differences(store))
        damage = [*map(output.fault_line, found.faults), *found.derived]
        if not damage:
            raise
        raise StoreUnusable(store.path, f"is damaged: {damage[0]}") from error


as_json = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
scope = click.option("--scope", default="chat", show_default=True, help="chat, agent, coder, shared_memory …")
clock = click.option(
    "--clock",
    type=click.Choice(CLOCKS),
    default="event",
    show_default=True,
    help="What a time means: when events happened, if that is known, or when they were recorded.",
)
tokenizer = click.option(
    "--tokenizer", metavar="ENCODING", help="Count tokens in this encoding of tiktoken instead of estimating them."
)
mode = click.option("--mode", type=click.Choice(MODES), help="What if every transfer had this mode?")
modes = click.option(
    "--modes", type=_ModeOf(), multiple=True, help="What if the transfer of VERSION had this MODE? (repeatable)"
)


def at(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--at`, and `--clock` for what a time means."""
    option = click.option("--at", type=AT, help="A version or a time (UTC); the latest if not given.")
    return option(clock(command))


def _by_clock(store: Store, options: dict[str, Any]) -> dict[str, Any]:
    """Return a command's options without `clock`; its times are versions if it asks for the store's own clock."""
    if options.pop("clock", "event") == "event":
        return options

    def by_store(point: At, conversation: str) -> At:
        return store.version_at(conversation, point, clock="recorded") if isinstance(point, datetime) else point

    of = options["conversation"]
    found: dict[str, Any] = {name: by_store(options[name], of) for name in ("at", "since") if name in options}
    for name, conversation in (("a", of), ("b", options.get("other") or of)):
        if name in options:
            point, mode = options[name]
            found[name] = by_store(point, conversation), mode
    return options | found


def checked_modes(store: Store, conversation: str, modes: tuple[tuple[int, Mode], ...]) -> dict[int, Mode]:
    """What `--modes` says, by version.

    :raises InvalidArgument: a version is not a transfer's.
    """
    for version, _ in modes:
        found = store.event(conversation, version).type
        if found != "transfer":
            raise InvalidArgument("modes", version, f"is the version of a {found} event, not of a transfer")
    return dict(modes)


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--db", envvar="TURNLOG_DB", default="turnlog.db", show_default=True, metavar="PATH", help="The store.")
@click.version_option(package_name="turnlog")
@click.pass_context
def main(ctx: click.Context, db: str) -> None:
    """An event-sourced store for conversations with language models."""
    ctx.obj = db
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - closed with the process
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding does not have is told, not a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def tell_erasure_due(store: Store) -> None:
    """Say on standard error if copies of what was redacted may be left in the store's files, and who holds that up."""
    due = store.erasure_due()
    if due is not None:
        say(due, err=True)
