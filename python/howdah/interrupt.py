"""Stops from outside: signals, where a command line installs handlers, and a cancelled task.

Ctrl-C, TERM and HUP come as one exception, so that one place can stop everything and clean up. Only a
program of howdah's own installs handlers; a program that imports howdah keeps those it has.

Imported before everything else when a copy starts, so only from modules the interpreter has anyway.
"""

import signal
from _thread import get_ident
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A signal asked this process to stop; uncaught, it ends with 130 (Ctrl-C), 143 (TERM) or 129 (HUP)."""

    record: "Any" = None
    """The Record of the run that it stopped; null where there is none."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return f"interrupted by {signal.Signals(self.number).name}"


class Cancelled(BaseException):
    """The task that awaits the work was cancelled; raised in the thread that does the work."""

    def __str__(self) -> str:
        return "cancelled by the program that began it"


STOPS = (Interrupted, Cancelled, KeyboardInterrupt)
"""The ways in which work is stopped from outside."""

_cancelled: "dict[int, Callable[[], bool]]" = {}
"""A callable for each thread, by its number, that says whether the thread's work is cancelled."""


class CancelledWhen:
    """Ends work of this thread with Cancelled soon after ``cancelled()`` is true, while it is entered."""

    def __init__(self, cancelled: "Callable[[], bool]") -> None:
        self._its = cancelled

    def __enter__(self) -> None:
        _cancelled[get_ident()] = self._its

    def __exit__(self, *_: object) -> None:
        del _cancelled[get_ident()]


def check() -> None:
    """Raises Cancelled where this thread's work has been cancelled. Every wait calls it each 0.1 s."""
    cancelled = _cancelled.get(get_ident())
    if cancelled is not None and cancelled():
        raise Cancelled


def install() -> None:
    """Makes the first of these signals raise Interrupted in the main thread; later ones do nothing.

    Whoever catches it has little time left, and a second Ctrl-C must not cut the cleaning short.
    """
    for number in SIGNALS:
        # nohup and background shells start us with a signal ignored: it stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def disregard() -> None:
    """Blocks these signals for good: all is done, and an exit code that is known already says how.

    Python ends for some milliseconds after that, most of them without handlers.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


class Held:
    """Defers signals while it is entered, so that whatever is begun inside is known to whoever ends it."""

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def _raise(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        # Not SIG_IGN: Python reports a signal that was already pending then as an error.
        signal.signal(each, _ignore)
    raise Interrupted(number)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Does nothing: later signals change nothing."""
