"""Whose turn it is to use a connection, and which transactions are open on it.

Both are the store's own to know. Python may raise an exception between any two instructions (Ctrl-C, the handler of a
signal), so nothing here relies on code that still runs after one: what is open is written down beside what keeps it
open, and whoever comes next undoes what nothing keeps open any more.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, TypeVar, cast, overload

from .errors import StoreUnusable
from .file import Connection

T = TypeVar("T")

_NOTHING = object()
_PAUSE = 0.05  # Seconds after which who waits for a turn looks again, should nobody wake it.
Leave = Callable[[type[BaseException] | None, BaseException | None, TracebackType | None], None]


class _Exit:
    """The `__exit__` of turns: a new object for each `with` statement, which alone keeps it.

    Once that object is gone the statement is over, even if an exception came before the first instruction of what it
    calls. (Whoever looks it up on the class, as ExitStack does, gets a plain function.)
    """

    @overload
    def __get__(self, turn: None, owner: type) -> Callable[..., None]: ...
    @overload
    def __get__(self, turn: Turn[Any], owner: type) -> Leave: ...
    def __get__(self, turn: Turn[Any] | None, owner: type) -> Callable[..., None]:
        return _leave if turn is None else turn.kept_by_statement()


class Turn(Generic[T]):
    """A time in which one thread alone uses the connection: `with` begins it and ends it, and gives `value`.

    `begin` is the statement that opens a transaction for it, if it has one. A turn that `undoes` is rolled back after
    an error, and has a savepoint if it is inside another. `synchronous` is how SQLite is to write to the disk,
    `patience` how many seconds to wait for the lock of the file.
    """

    __exit__ = _Exit()
    __slots__ = ("begin", "patience", "savepoint", "statement", "synchronous", "turns", "undoes", "value")

    def __init__(
        self,
        turns: Turns,
        value: T,
        begin: str = "",
        undoes: bool = False,
        synchronous: int | None = None,
        patience: float | None = None,
    ) -> None:
        self.turns = turns
        self.value = value
        self.begin = begin
        self.undoes = undoes
        self.synchronous = synchronous
        self.patience = patience
        self.savepoint = ""
        self.statement: weakref.ref[Leave] | None = None

    def __enter__(self) -> T:
        self.turns.open(self)
        return self.value

    def leave(self, error: BaseException | None) -> None:
        """End the turn, whose statement came to its end or raised an error."""
        self.turns.end(self, error)

    def committed(self) -> None:
        """Do what has to be done once the transaction of the turn is committed."""

    @property
    def is_over(self) -> bool:
        """Return whether the `with` statement is over, though the turn was not ended."""
        return self.statement is not None and self.statement() is None

    def kept_by_statement(self) -> Leave:
        """Return what ends the turn when it is called; the turn is undone once nobody keeps that any more."""
        leave = partial(_leave, self)
        if not self.turns.has_open(self):
            self.statement = weakref.ref(leave, self.turns.undo_what_is_over)
        return leave


def _leave(
    turn: Turn[Any], type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
) -> None:
    turn.leave(error)


class Turns:
    """A connection that threads share, one at a time: for one piece of work (`hold`) or for a `Turn`."""

    path: str
    _connection: Connection

    def __init__(self) -> None:
        self._closed = False
        self._lock = threading.RLock()  # Held within `hold` alone, by C code that no signal can come between.
        self._thread = 0  # The thread that is within `hold`.
        self._open: tuple[Turn[Any], ...] = ()  # Outermost first, all of one thread.
        self._owner = 0  # That thread.
        self._committing: tuple[Turn[Any], ...] = ()  # The turn of `commit`, until that is done.
        self._gate = threading.Lock()  # Locked while others wait for a turn to end, to wake them: a mere hint.
        self._savepoints = 0

    def hold(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, with every other thread kept out meanwhile.

        :raises StoreUnusable: the store is closed.
        """
        thread = get_ident()
        if self._thread == thread:
            return work()
        while True:
            entered = False
            try:
                # Nothing but plain statements in here: Python does not cover the first instruction of every other.
                with self._lock:
                    entered = True
                    found = self._worked(thread, work)
            except BaseException:
                if entered:
                    self._recover()
                raise
            if found is not _NOTHING:
                return cast(T, found)
            if self._gate.acquire(timeout=_PAUSE):
                self._wake()

    def commit(self, work: Callable[[], T], turn: Turn[Any]) -> T:
        """Return what `work` returns, within `hold` and with nothing open; what it wrote is committed, or undone.

        It is a turn without a `with` statement: the C code of the connection commits and rolls back.
        """
        self._begin_transaction(turn)
        try:
            with self._connection:
                self._owner = self._thread
                self._open = self._committing = (turn,)
                found = work()
        except BaseException:
            self._undone()
            raise
        finally:
            self._open = ()
        self._committing = ()
        turn.committed()
        return found

    def _worked(self, thread: int, work: Callable[[], T]) -> T | object:
        """Return what `work` returns, or `_NOTHING` if another thread has a turn."""
        if not self._is_free_for(thread):
            return _NOTHING
        try:
            self._thread = thread
            return work()
        finally:
            self._thread = 0

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction of this thread is open."""
        return self._owner == get_ident() and _has_transaction(self._open)

    def has_open(self, turn: Turn[Any]) -> bool:
        """Return whether a turn is open."""
        return turn in self._open

    def open(self, turn: Turn[Any]) -> None:
        """Begin a turn, and the transaction or the savepoint that it has.

        :raises StoreUnusable: the store is closed, or SQLite rolled back the transaction that this is inside of.
        """
        if self._thread == get_ident():
            self._begin(turn)
        else:
            self.hold(lambda: self._begin(turn))
            self._gate.acquire(blocking=False)

    def end(self, turn: Turn[Any], error: BaseException | None) -> None:
        """End a turn: what it did is committed or, after an error, undone.

        :raises StoreUnusable: it was undone, or another that it was in.
        """
        if self._thread == get_ident():
            self._end(turn, error)
            return
        if turn in self._open:
            self._owner = get_ident()  # Another thread may have closed the generator that a statement was in.
        self.hold(lambda: self._end(turn, error))

    def undo_what_is_over(self, _: object = None) -> None:
        """Undo the turns whose `with` statement is over."""
        with self._lock, suppress(sqlite3.Error):
            if not self._closed:
                self._settle()

    def _begin(self, turn: Turn[Any]) -> None:
        if self._open or self._connection.in_transaction:
            self._settle()
        savepoint = ""
        if not _has_transaction(self._open):
            if turn.begin:
                self._begin_transaction(turn)
        elif turn.undoes:
            if not self._connection.in_transaction:
                raise StoreUnusable(self.path, "the transaction was rolled back after an error")
            # Never the same name twice: an interrupt may leave one behind that is not in use.
            self._savepoints += 1
            savepoint = f"turn{self._savepoints}"
            self._connection.execute(f"SAVEPOINT {savepoint}")
        turn.savepoint = savepoint
        self._owner = get_ident()
        self._open = (*self._open, turn)

    def _end(self, turn: Turn[Any], error: BaseException | None) -> None:
        if self._open != (turn,):
            self._settle()
        if turn not in self._open:
            if error is None:
                raise StoreUnusable(self.path, "the transaction was undone")
            return
        place = self._open.index(turn)
        commits = False
        try:
            if error is not None and turn.undoes:
                self._undo(place)
            elif turn.savepoint:
                self._connection.execute(f"RELEASE {turn.savepoint}")
            elif turn.begin and not _has_transaction(self._open[:place]):
                commits = True
                self._connection.execute("COMMIT")
        except BaseException:
            self._undo(place)
            raise
        self._shut(place)
        turn.statement = None
        if commits:
            turn.committed()
        elif not turn.begin:
            self._settle()

    def _is_free_for(self, thread: int) -> bool:
        """Return whether no other thread has a turn; what nothing keeps open any more is undone first."""
        if self._closed:
            raise StoreUnusable(self.path, "is closed")
        if self._open or self._connection.in_transaction:
            self._settle()
        return not self._open or self._owner == thread

    def _recover(self) -> None:
        """Leave no lock and no transaction, wherever an exception came from."""
        try:
            with self._lock:
                self._thread = 0
                if self._committing:
                    if self._open is self._committing:
                        self._open = ()
                    self._committing = ()
                    self._undone()
                self.undo_what_is_over()
        finally:
            with suppress(RuntimeError):
                while True:  # Until it is not this thread's any more.
                    self._lock.release()

    def _settle(self) -> None:
        """Undo the turns whose statement is over, and a transaction that belongs to none."""
        for place, turn in enumerate(self._open):
            if turn.is_over:
                self._undo(place)
                break
        if not self._open and self._connection.in_transaction:
            self._undo(0)

    def _undo(self, place: int) -> None:
        """Undo what the turns from a place on have done."""
        whole = not _has_transaction(self._open[:place])
        self._undone()
        if not self._closed and self._connection.in_transaction:
            if whole:
                self._connection.execute("ROLLBACK")
            else:
                self._undo_to([turn.savepoint for turn in self._open[place:] if turn.savepoint])
        self._shut(place)

    def _undo_to(self, savepoints: list[str]) -> None:
        try:
            for savepoint in savepoints[:1]:
                self._connection.execute(f"ROLLBACK TO {savepoint}")
                self._connection.execute(f"RELEASE {savepoint}")
        except sqlite3.Error as error:
            # One that is not there was released already. After another error nothing of the transaction can be kept.
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _shut(self, place: int) -> None:
        """Take the turns from a place on off what is open."""
        self._open = self._open[:place]
        if not place and self._gate.locked():
            self._wake()

    def _wake(self) -> None:
        """Let somebody look who waits for a turn; the next who waits is woken by that one."""
        with suppress(RuntimeError):  # Somebody else may have unlocked it.
            self._gate.release()

    def _begin_transaction(self, turn: Turn[Any]) -> None:
        """Begin the transaction of a turn, tried again for as long as its patience lasts."""
        raise NotImplementedError

    def _undone(self) -> None:
        """Forget what was remembered of rows, which are about to be undone."""
        raise NotImplementedError


def _has_transaction(turns: tuple[Turn[Any], ...]) -> bool:
    return bool(turns) and [turn for turn in turns if turn.begin and not turn.is_over] != []
