"""The plan of ``howdah sweep HOST``: what is worth knowing of a path, in the time there is."""

import math

from howdah import HowdahError
from howdah._native import format_duration
from howdah.cc import controls
from howdah.measure.plan import Ranges, SweepPlan
from howdah.measure.schedule import RUN_ROUND_TRIPS, RUN_S
from howdah.remote.endpoints import bare
from howdah.remote.far import greet
from howdah.values.path import ASSUMED_RTT_S
from howdah.values.plan import BUFFER_BYTES_MAX
from howdah.values.record import HostLimits
from howdah.values.sizes import BUFFER_MIN_BYTES, HEADROOM, TARGET_RATE_BPS

STREAMS = (1, 4, 8)
TIME_S = (5.0, 10.0, 60.0)
"""The time of one run: at first, when there is time for REPEATS[0] of them, and at most."""
REPEATS = (3, 10)
"""Repeats at first and at most. The HPDC 2017 paper has ten."""
TIME_LEAST_S = 1.0


def plan(host: str, far_howdah: str | None, for_s: float | None) -> SweepPlan:
    """All controls that this host has × streams × buffers autotuned and as the path needs, within ``for_s``.

    Raises HowdahError when the host does not answer, or the time is too short to say anything.
    """
    here, host = HostLimits.here(), bare(host)
    far = greet(host, far_howdah)
    rtt_s = far.rtt_s or ASSUMED_RTT_S
    names = controls.available(controls.DEFAULT, here)
    explicit = _explicit_bytes(rtt_s, here, far.limits)
    buffers = (None, explicit) if explicit is not None else (None,)
    cells = len(names) * len(STREAMS) * len(buffers)
    time_s, repeats = fitted(cells, RUN_S + RUN_ROUND_TRIPS * rtt_s, for_s)
    ranges = Ranges(tuple(names), STREAMS, buffers, (), (time_s,), (), repeats)
    return SweepPlan(name=_name(host), host=host, far_howdah=far_howdah, ranges=(ranges,))


def fitted(cells: int, beside_s: float, for_s: float | None) -> tuple[float, int]:
    """Time of a run and repeats of each cell within ``for_s``, when a run costs ``beside_s`` beside its time.

    First repeats, for without them nothing can be said of how sure it is; then time, for the ramp-up to weigh
    less; then both to their most. Raises HowdahError when not even one short run of each cell fits.
    """
    least_s = cells * (TIME_LEAST_S + beside_s)
    if for_s is None:
        return TIME_S[0], REPEATS[0]
    if for_s < least_s:
        raise HowdahError(
            f"{format_duration(for_s)} is too short: {cells} configurations take at least "
            f"{format_duration(math.ceil(least_s))}; give more time, or a plan with fewer of them"
        )
    a_run_s = for_s / cells
    repeats = max(1, min(REPEATS[0], int(a_run_s // (TIME_S[0] + beside_s))))
    if a_run_s > REPEATS[0] * (TIME_S[1] + beside_s):
        repeats = min(REPEATS[1], int(a_run_s // (TIME_S[1] + beside_s)))
    time_s = min(TIME_S[2], a_run_s / repeats - beside_s)
    return math.floor(time_s * 10) / 10, repeats


def _explicit_bytes(rtt_s: float, here: HostLimits, far: HostLimits) -> int | None:
    """The buffer that one stream needs for 10 Gb/s, a power of two, so that it is the same the next time."""
    needed = max(BUFFER_MIN_BYTES, HEADROOM * TARGET_RATE_BPS / 8 * rtt_s)
    wanted = min(1 << round(math.log2(needed)), BUFFER_BYTES_MAX)
    allowed = (
        BUFFER_BYTES_MAX if here.privileged else here.wmem_max_bytes,
        BUFFER_BYTES_MAX if far.privileged else far.rmem_max_bytes,
    )
    return wanted if wanted <= min(allowed) else None


def _name(host: str) -> str:
    """The letters, digits, dots and dashes of the host, without a user name before it."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "-" for c in host.rpartition("@")[2])
    return kept.strip(".-_")[:64] or "host"
