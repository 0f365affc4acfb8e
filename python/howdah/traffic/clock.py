"""The one clock of a run, and what ends its waits."""

import threading
import time


class Clock:
    """Seconds since the start of a run; before it, negative."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._stopped = threading.Event()

    def begin(self) -> None:
        """The run starts now."""
        self._begin_s = time.monotonic()

    def now_s(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin_s

    def wait_until(self, at_s: float) -> bool:
        """Waits; false when the run was stopped."""
        return not self._stopped.wait(max(0.0, at_s - self.now_s()))

    def stop(self) -> None:
        """Ends the run, and all waits."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether the run has been stopped."""
        return self._stopped.is_set()
