"""The loads of a pattern while they run: their far ends, the one clock, the watch, the account.

Each load runs on a thread of its own, and one more thread takes samples. Signals reach the main thread
alone, because the other threads start while signals wait; it stops the loads and keeps what there is.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from howdah import HowdahError, interrupt
from howdah.cc.programs import provided
from howdah.traffic.account import LoadAccount, LoadSample, Traffic
from howdah.traffic.pattern import Clock, Pattern, Rbudp, Tcp, Udp
from howdah.traffic.tcp import TcpLoad
from howdah.traffic.udp import FarSink, UdpLoad, addresses_of
from howdah.values.record import HostLimits

LINGER_S = 10.0
"""How long what is on its way at the end may still arrive, and be sent again."""

_SAMPLE_S = 1.0
_TICK_S = 0.1

Progress = Callable[[float, dict[str, LoadSample]], None]
"""A function that takes the time and the last sample of each load, by name."""


class RunningLoad(Protocol):
    """A load that runs. What fails raises HowdahError."""

    name: str

    def run(self, clock: Clock, duration_s: float) -> None:
        """Sends by the pattern, on a thread of its own."""

    def stop(self) -> None:
        """Has ``run`` return soon."""

    def sample(self, t_s: float) -> LoadSample | None:
        """Takes a sample; null when that cannot be done now."""

    def settle(self) -> None:
        """Asks for the last counts, once ``run`` has returned."""

    def account(self) -> LoadAccount:
        """The account of the load."""


class Loads:
    """All loads of a pattern. They are ready to begin when it is entered, and have ended when it is left."""

    def __init__(self, pattern: Pattern, host: str, far_howdah: str | None) -> None:
        self.pattern = pattern
        self.clock = Clock()
        self.failures: list[HowdahError] = []
        self.far_limits: HostLimits | None = None
        self.rtt_s: float | None = None
        self._host, self._far_howdah = host, far_howdah
        self._ends = ExitStack()
        self._far: FarSink | None = None
        self._loads: list[RunningLoad] = []
        self._threads: list[threading.Thread] = []
        """The threads, one for each load."""
        self._watching: threading.Thread | None = None
        """The thread that takes samples."""
        self._samples: dict[str, LoadSample] = {}
        self._over = threading.Event()

    def __enter__(self) -> "Loads":
        """Has every load ready to begin. Raises HowdahError."""
        with ExitStack() as ends:
            controls = ends.enter_context(provided(self.pattern.controls()))
            addresses = self._open_far(ends)
            # A load that waits for its time must not outlive a failure of the next load.
            ends.callback(self._settle_waiting)
            for place, load in enumerate(self.pattern.loads):
                if isinstance(load, Tcp):
                    self._loads.append(self._tcp(load, controls))
                elif self._far is not None:
                    self._loads.append(UdpLoad(load, place, self._far, addresses))
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if self._threads and not self._over.is_set():
            self.end()
        self._ends.close()

    def begin(self) -> None:
        """Has all loads send from now on."""
        for load in self._loads:
            work = partial(load.run, self.clock, self.pattern.duration_s)
            self._threads.append(threading.Thread(target=self._guarded(work), name=load.name))
        self._watching = threading.Thread(target=self._guarded(self._sample), name="samples")
        with interrupt.Held():
            self.clock.begin()
            for thread in [*self._threads, self._watching]:
                thread.start()

    def watch(self, progress: Progress) -> None:
        """Waits until all have ended by themselves, or one has failed; calls ``progress`` often."""
        until_s = self.pattern.duration_s + LINGER_S
        for thread in self._threads:
            while thread.is_alive() and not self.clock.stopped:
                thread.join(_TICK_S)
                interrupt.check()
                progress(self.clock.now_s(), dict(self._samples))
                if self.clock.now_s() > until_s:
                    return

    def end(self) -> Traffic:
        """Stops what still runs and takes the account; what fails then is in ``failures``."""
        if self._far is not None and any(thread.is_alive() for thread in self._threads):
            self._far.hurry()
        self._over.set()
        self.clock.stop()
        for load in self._loads:
            load.stop()
        for thread in [*self._threads, self._watching]:
            if thread is not None and thread.ident is not None:
                thread.join()
        elapsed_s = self.clock.now_s()
        for load in self._loads:
            try:
                load.settle()
            except HowdahError as error:
                self.failures.append(error)
        return Traffic(
            pattern=self.pattern, elapsed_s=elapsed_s, loads=[load.account() for load in self._loads]
        )

    def _open_far(self, ends: ExitStack) -> list[str]:
        """Starts the far end of loads over UDP, if there are any; returns the addresses where it may be
        reached."""
        if not any(isinstance(load, Udp | Rbudp) for load in self.pattern.loads):
            return []
        with interrupt.Held():
            self._far = FarSink(self._host, self._far_howdah)
            ends.callback(self._far.close)
        hello = self._far.hello()
        self.far_limits = hello.limits
        return addresses_of(self._host, self._far.data_address, hello.address)

    def _tcp(self, load: Tcp, controls: dict[str, str]) -> TcpLoad:
        named = load.congestion_control
        made = TcpLoad(load, controls[named] if named else None, self._host, self._far_howdah)
        self.far_limits, self.rtt_s = made.far_limits, made.rtt_s
        return made

    def _settle_waiting(self) -> None:
        for load in self._loads:
            if isinstance(load, TcpLoad):
                load.settle()

    def _guarded(self, work: Callable[[], None]) -> Callable[[], None]:
        """The work of a thread, whose first failure ends the run."""

        def guarded() -> None:
            try:
                work()
            except HowdahError as error:
                self.failures.append(error)
                self.clock.stop()
            except BaseException as error:
                self.failures.append(HowdahError(f"a bug in howdah's traffic, {error!r}"))
                self.clock.stop()
                raise

        return guarded

    def _sample(self) -> None:
        number = 1
        while self.clock.wait_until(number * _SAMPLE_S) and not self._over.is_set():
            for load in self._loads:
                made = load.sample(self.clock.now_s())
                if made is not None:
                    self._samples[load.name] = made
            number = int(self.clock.now_s() / _SAMPLE_S) + 1
