"""Sources of round trips: ICMP echo where the far end answers it, else the transfer's own streams.

On a path where nobody sends, most round trips differ by what the hosts do: some hundredths of a millisecond.
In a queue that others fill they differ by more. Who it is takes seconds to find out. That somebody is there
takes none, because a transfer connects meanwhile (``others_present``).
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from howdah import HowdahError, _native, decoding
from howdah.probing.far_end import endpoint, resolved
from howdah.probing.prober import ProbeUpdate, Probing, Rhythm
from howdah.steering.tunables import TUNED

By = Literal["icmp", "tcp_info"]

_LONGEST_NS = 24 * 3600 * 10**9
_RHYTHM = Rhythm(step_ns=round(TUNED.echo_step_s * 1e9), burst=None)


class RttSample(NamedTuple):
    """One round trip."""

    t_s: float
    """The instant when it was sent, since the session's start."""
    rtt_s: float | None
    """The RTT; None: no answer came."""
    late_s: float = 0.0
    """The time by which this host sent it late."""


class RttSource(Protocol):
    """A source of round trips."""

    by: By
    step_s: float
    begun_s: float
    """The time from which there is one round trip in each step."""

    def take(self, now_s: float, rtt_s: float | None) -> list[RttSample]:
        """The samples since the last call; ``rtt_s`` is what the streams say now."""

    def why_silent(self) -> str | None:
        """The reason why no sample will come; None: some come, or may yet."""

    def close(self) -> None:
        """Closes the source."""


class EchoSource:
    """ICMP echo, a probe in each step of 10 ms. Raises HowdahError where this user may send none."""

    by: By = "icmp"
    step_s = TUNED.echo_step_s

    def __init__(self, address: str) -> None:
        probing = Probing(way="icmp", to=endpoint(address, 0), for_ns=_LONGEST_NS, rhythm=_RHYTHM)
        self._address = address
        self._prober: _native.Prober | None = _native.Prober(msgspec.json.encode(probing))
        self._taken: ProbeUpdate | None = None
        self.begun_s = 0.0

    def take(self, now_s: float, rtt_s: float | None) -> list[RttSample]:
        """Probes whose fate is known."""
        if self._prober is None:
            return []
        taken = decoding.from_json(self._prober.take(0.0), ProbeUpdate)
        if self._taken is None:
            self.begun_s = now_s - taken.elapsed_s
        self._taken = taken
        return [RttSample(self.begun_s + look.sent_s, look.rtt_s, look.late_s) for look in taken.looks]

    def why_silent(self) -> str | None:
        """The reason: silence from the beginning, or an end."""
        taken = self._taken
        if taken is None:
            return None
        silent = taken.elapsed_s > TUNED.silent_s and not taken.counts.answered
        if not taken.ended and not silent:
            return None
        said = f" ({taken.refused})" if taken.refused else ""
        return f"{self._address} answers no ICMP echo{said}"

    def close(self) -> None:
        """Sends no more."""
        self._prober = None


class StreamSource:
    """The round trips of the transfer's own streams, smoothed by the kernel, every 100 ms."""

    by: By = "tcp_info"
    step_s = TUNED.tcp_info_step_s
    begun_s = 0.0

    def take(self, now_s: float, rtt_s: float | None) -> list[RttSample]:
        """The RTT that the streams say now, as one sample a call."""
        return [RttSample(now_s, rtt_s)]

    def why_silent(self) -> str | None:
        """Gives None: streams without round trips move nothing."""
        return None

    def close(self) -> None:
        """Closes nothing, for nothing is open."""


def best_source(names: list[str]) -> tuple[RttSource, str | None]:
    """Chooses ICMP to the first of these that is an address or a known name; else the streams, and why."""
    why = "the receiver's address for ICMP echo is not known here"
    for name in names:
        try:
            return EchoSource(resolved(name, name)[0]), None
        except HowdahError as error:
            why = str(error)
    return StreamSource(), why


def others_present(samples: Sequence[RttSample], base_rtt_s: float | None) -> bool:
    """Whether anybody else is there; no where too few answered.

    ``base_rtt_s`` is the least known of the route, beside that of ``samples`` themselves. A busy host sends
    late and answers late, so what its own timers spread by is taken off.
    """
    rtts = sorted(sample.rtt_s for sample in samples if sample.rtt_s is not None)
    if len(rtts) < TUNED.before_answers:
        return False
    late = sorted(sample.late_s for sample in samples)
    spread_s = _middle_half(rtts) - _middle_half(late)
    moves = len(rtts) >= TUNED.before_spread_answers and spread_s > TUNED.before_spread_s
    base_s = min(rtts[0], base_rtt_s or rtts[0])
    queue_s = _quantile(rtts, 0.5) - base_s - (_quantile(late, 0.5) - _quantile(late, 0.1))
    return moves or queue_s > max(TUNED.before_queue_s, TUNED.before_queue * base_s)


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[round(part * (len(ordered) - 1))]


def _middle_half(ordered: Sequence[float]) -> float:
    """The spread of the middle half of them."""
    return _quantile(ordered, 0.75) - _quantile(ordered, 0.25)
