"""A load over TCP at work: each time that it is on, a transfer from memory to memory of its own.

It is the data plane of ``howdah cp --memory``, plaintext, because nobody's data is sent. The far end for the
next time is started in the pause before it, so that it begins when it shall.
"""

import threading

import msgspec

from howdah import decoding, interrupt
from howdah.remote.far import CANCEL_S, TICK_S, hello
from howdah.remote.messages import Job, Progress
from howdah.remote.standby import FarSession
from howdah.traffic.account import LoadAccount, LoadSample, TcpPeriod
from howdah.traffic.pattern import ActivePeriod, Clock, Tcp
from howdah.values.outcome import Outcome
from howdah.values.plan import Plan, Why
from howdah.values.record import HostLimits
from howdah.values.sizes import BLOCK_BYTES

_SAMPLE_EVERY_S = 10.0
"""How often TCP_INFO is read, which is not kept."""

_SHORTEST_S = 0.01
"""The least time left of a period that is worth a connection."""


class TcpLoad:
    """One load, with one far end at a time."""

    def __init__(self, load: Tcp, control: str | None, host: str, far_howdah: str | None) -> None:
        """Starts the far end of the first time. Raises HowdahError."""
        self.name, self._load, self._host, self._far_howdah = load.name, load, host, far_howdah
        self._plan = Plan(
            congestion_control=control,
            streams=load.streams,
            pacing_bps=None if load.rate_bps is None else max(1, load.rate_bps // load.streams),
            block_bytes=BLOCK_BYTES,
            encrypt=False,
            why=Why(summary=["A pattern of traffic says so."]),
        )
        self._control: str | None = None
        self._periods: list[TcpPeriod] = []
        self._samples: list[LoadSample] = []
        self._lock = threading.Lock()
        self._before_bytes = 0
        self._moving: FarSession | None = None
        """The transfer that runs now."""
        self._ready: FarSession | None = None
        """The transfer that waits for its time."""
        self.far_limits: HostLimits | None = None
        self.rtt_s: float | None = None
        self._make_ready()

    def run(self, clock: Clock, duration_s: float) -> None:
        """Sends by the pattern. Raises HowdahError when that fails."""
        for period in self._load.wave.periods(duration_s):
            if self._ready is None:
                self._make_ready()
            if not clock.wait_until(period.begin_s):
                return
            if period.end_s - clock.now_s() >= _SHORTEST_S and not self._move(clock, period):
                return

    def stop(self) -> None:
        """Does nothing: ``run`` looks at the clock, which has stopped."""

    def sample(self, t_s: float) -> LoadSample:
        """Takes a sample."""
        with self._lock:
            made = LoadSample(t_s=t_s, received_bytes=self._received())
        self._samples.append(made)
        return made

    def settle(self) -> None:
        """Ends the far end that waits, if one does."""
        if self._ready is not None:
            _end(self._ready)
            self._ready = None

    def account(self) -> LoadAccount:
        """The account of the load."""
        return LoadAccount(
            name=self.name,
            kind="tcp",
            congestion_control=self._control or self._plan.congestion_control,
            received_bytes=self._before_bytes,
            periods=self._periods,
            samples=self._samples,
        )

    def _make_ready(self) -> None:
        with interrupt.Held():
            started = FarSession(self._host, self._far_howdah)
        try:
            answer = hello(started, lambda _: None)
        except BaseException:
            _end(started)
            raise
        self.far_limits, self.rtt_s = answer.limits, answer.rtt_s
        self._ready = started

    def _move(self, clock: Clock, period: ActivePeriod) -> bool:
        """Sends until ``period`` is over and all has arrived; false when the run was stopped before."""
        started, self._ready = self._ready, None
        if started is None:
            raise TypeError("no far end is ready")
        begin_s, outcome = clock.now_s(), None
        job = Job(
            direction="push",
            sources=[],
            destination=b"",
            destination_is_folder=False,
            memory_s=period.end_s - begin_s,
            encrypt=False,
            data_address=started.far.login.data_address,
            sample_every_s=_SAMPLE_EVERY_S,
        )
        with self._lock:
            self._moving = started
        try:
            started.session.start(msgspec.json.encode(job), msgspec.json.encode(self._plan))
            while not started.session.wait(TICK_S) and not clock.stopped:
                pass
            if not clock.stopped:
                outcome = decoding.from_json(started.session.result(), Outcome)
                self._control = outcome.congestion_control
        finally:
            self._over(clock, begin_s, outcome)
        return outcome is not None

    def _over(self, clock: Clock, begin_s: float, outcome: Outcome | None) -> None:
        started = self._moving
        if started is None:
            return
        if outcome is None:
            started.session.cancel()
            started.session.wait(CANCEL_S)
        with self._lock:
            moved = self._received() - self._before_bytes if outcome is None else outcome.bytes
            self._before_bytes += moved
            self._moving = None
        rtts = [each.rtt_min_s for each in outcome.streams if each.rtt_min_s is not None] if outcome else []
        self._periods.append(
            TcpPeriod(
                begin_s=begin_s,
                end_s=clock.now_s(),
                bytes=moved,
                retransmissions=outcome.retransmissions if outcome else None,
                rtt_min_s=min(rtts, default=None),
            )
        )
        if outcome is None:
            started.far.end()
        else:
            started.far.exit_status(CANCEL_S)
        started.far.close()

    def _received(self) -> int:
        if self._moving is None:
            return self._before_bytes
        progress = decoding.from_json(self._moving.session.progress(), Progress)
        return self._before_bytes + progress.bytes_done


def _end(started: FarSession) -> None:
    started.session.cancel()
    started.session.wait(CANCEL_S)
    started.far.end()
    started.far.close()
