"""The bursts of active probing: TCP beside the probes, for what others do then tells more of them.

The sources of ``howdah traffic`` send them.

Source: Anvari, Huard, Lu, *Optimization through Protocol Selection* (Computers 2021, 10, 76): CUBIC, BBR,
CUBIC and nothing, 5 s each. Deviations: nothing is sent for ``QUIET_S`` before the first, so that the base
RTT is seen without a queue of ours; and bursts are paced at ``RATE_BPS``, because what the slow start of an
unbounded one takes from others' CUBIC is not back before the next on a long path, and all who may be there
then sound alike. At ten times that rate a burst still moves the queue of 500 Mb/s × 128 ms by 4 ms, and one
CUBIC stream is taken for two more often.
"""

from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah.arguments import BadArgument
from howdah.traffic.account import LoadAccount
from howdah.traffic.loads import Loads
from howdah.traffic.pattern import Load, Pattern, Tcp, Wave, load_pattern
from howdah.values import probe as probed


class Bursts:
    """The bursts of one probing. Their far ends are there while it is entered."""

    def __init__(self, pattern: Pattern, host: str, far_howdah: str | None) -> None:
        self.lasts_s = QUIET_S + pattern.duration_s
        """Seconds that the bursts last, with the time before the first."""
        self._loads = Loads(pattern, host, far_howdah)
        self._begun_s: float | None = None
        """The start of the first burst, on the clock of the probing."""

    def __enter__(self) -> "Bursts":
        """Raises HowdahError when the far host cannot take them."""
        self._loads.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._loads.__exit__(*what)

    def look(self, elapsed_s: float) -> bool:
        """Begins when it is time; call it often with how long has been probed. Returns false when a burst has
        failed."""
        if self._begun_s is None and elapsed_s >= QUIET_S:
            self._begun_s = elapsed_s
            self._loads.begin()
        return not self._loads.failures

    def end(self) -> list[probed.Burst]:
        """Ends the bursts; returns what was sent, on the clock of the probing. Raises HowdahError when a load
        failed."""
        if self._begun_s is None:
            return []
        traffic = self._loads.end()
        if self._loads.failures:
            raise self._loads.failures[0]
        found = [
            probed.Burst(
                start_s=self._begun_s + period.begin_s,
                end_s=self._begun_s + period.end_s,
                congestion_control=_control(wanted, load),
                bytes=period.bytes,
            )
            for wanted, load in zip(traffic.pattern.loads, traffic.loads, strict=True)
            for period in load.periods
        ]
        return sorted(found, key=lambda burst: burst.start_s)


def _control(wanted: Load, load: LoadAccount) -> str:
    """The congestion control as the user named it: howdah's own has another name at the socket."""
    named = wanted.congestion_control if isinstance(wanted, Tcp) else None
    return named or load.congestion_control or "other"


QUIET_S = 2.0
RATE_BPS = 1_000_000


def _paced(control: str, wave: Wave) -> Tcp:
    return Tcp(name=control, congestion_control=control, rate_bps=RATE_BPS, wave=wave)


PROFILE = Pattern(
    name="probe-bursts",
    summary="CUBIC, BBR, CUBIC and nothing, 5 s each, at 1 Mb/s",
    duration_s=20.0,
    loads=(
        _paced("cubic", Wave(on_s=5.0, every_s=10.0)),
        _paced("bbr", Wave(start_s=5.0, on_s=5.0, every_s=20.0)),
    ),
)


def profile(file: Path | None, for_s: float | None) -> Pattern:
    """The bursts of a probing that lasts ``for_s``; of a file, else the paper's. Raises HowdahError."""
    lasting_s = None if for_s is None else for_s - QUIET_S
    if lasting_s is not None and lasting_s <= 0:
        raise BadArgument(
            f"{{for_s}} leaves no time for bursts, which begin after {QUIET_S:g} s", for_s=for_s
        )
    if file is None:
        return msgspec.structs.replace(PROFILE, duration_s=lasting_s or PROFILE.duration_s)
    pattern = load_pattern(file, lasting_s, "see: howdah probe --help")
    other = next((load for load in pattern.loads if not isinstance(load, Tcp)), None)
    if other is not None:
        raise HowdahError(f"{file}: load {other.name} is not TCP; bursts that probe a path must be TCP")
    return pattern
