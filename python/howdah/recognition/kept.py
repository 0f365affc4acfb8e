"""A probe's record as a recording."""

from collections.abc import Iterable

import numpy as np

from howdah import HowdahError
from howdah.recognition.recording import Burst, Recording
from howdah.values import probe as probed
from howdah.values.record import Record


def of_probe(record: Record, background: dict[str, int] | None) -> Recording:
    """The fine series of ``howdah probe``. Raises HowdahError when the record is of something else.

    Each look is said to be in the middle of its step; it was somewhere in it.
    """
    probe = record.probe
    if probe is None:
        raise HowdahError(f"{record.id} is the record of a {record.kind}; only a probe's can be kept")
    rtt_s = np.array(probe.rtt_s, dtype=np.float64)
    return Recording(
        times_s=(np.arange(rtt_s.size, dtype=np.float64) + 0.5) * np.float64(probe.step_s),
        rtt_s=rtt_s,
        base_rtt_s=probe.base_rtt_s,
        step_s=probe.step_s,
        run=record.id,
        path=record.host or probe.address,
        background=background,
        bursts=of_bursts(probe.bursts),
    )


def of_bursts(sent: Iterable[probed.Burst]) -> tuple[Burst, ...]:
    """What active probing sent."""
    return tuple(
        Burst(start_s=each.start_s, end_s=each.end_s, congestion_control=each.congestion_control)
        for each in sent
    )
