"""Ctrl-C, TERM and HUP as one exception, so that one place can stop everything and clean up."""

import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SystemExit):
    """A signal asked this process to stop; uncaught, it ends with 130 (Ctrl-C), 143 (TERM) or 129 (HUP)."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return f"interrupted by {signal.Signals(self.number).name}"


def install() -> None:
    """From now on the first of these signals raises Interrupted in the main thread; later ones do nothing.

    Whoever catches it has little time left, and a second Ctrl-C must not cut the cleaning short.
    """
    for number in SIGNALS:
        # nohup and background shells start us with a signal ignored: it stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


class Held:
    """While this is entered, signals wait: what is begun inside is also known to whoever ends it."""

    def __enter__(self) -> None:
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def _raise(number: int, frame: FrameType | None) -> None:
    for each in SIGNALS:
        # Not SIG_IGN: Python reports a signal that was already pending then as an error.
        signal.signal(each, _heard)
    raise Interrupted(number)


def _heard(number: int, frame: FrameType | None) -> None:
    """Later signals change nothing."""
