"""What active probing sends: bursts of TCP beside the probes, for what others do then tells more of them.

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
from howdah.traffic import patternfile
from howdah.traffic.pattern import Pattern, Tcp, Wave

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
        raise HowdahError(f"--for {for_s:g}s leaves no time for bursts, which begin after {QUIET_S:g} s")
    if file is None:
        return msgspec.structs.replace(PROFILE, duration_s=lasting_s or PROFILE.duration_s)
    pattern = patternfile.load(file, lasting_s)
    other = next((load for load in pattern.loads if not isinstance(load, Tcp)), None)
    if other is not None:
        raise HowdahError(f"{file}: load {other.name} is no TCP; a path is probed by bursts of TCP alone")
    return pattern
