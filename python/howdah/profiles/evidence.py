"""Which runs of the archive count for a selection, and which make a profile.

A run counts unless the machine spoilt it, it was too short, or a disk may have held it. Memory to memory no
disk is in the way. A transfer of files counts when its congestion windows or send buffers held it nearly all
the time: a sender that waits for its disk or its CPU has nothing to send (``app``), and a receiver that does
closes its window (``rwnd``), which cannot be told from a small buffer, so such a run is left out too. Every
run that counts weighs the same, whatever it moved.
"""

from typing import NamedTuple

import numpy as np

from howdah.archive.runs import Runs
from howdah.text import count

OPEN_SHARE = 0.9
"""Least share of samples in which the network held a transfer of files."""

LEAST_S = 5.0
"""Shorter runs outside a sweep are mostly slow start; a sweep's length is what its plan says."""

LEAST_RUNS = 3
"""At each RTT, for a configuration that no sweep measured to stand among those of the profile."""

ALIKE = 2.0
"""Up to so many times as much or as little is about as much."""

_NETWORK = ("cwnd", "sndbuf")


class Evidence(NamedTuple):
    """The runs that count, and in words those that do not."""

    runs: Runs
    left_out: list[str]


def counting(runs: Runs) -> Evidence:
    """Of ``runs`` those that count."""
    known = np.isfinite(runs.rate_bps) & (runs.rate_bps > 0) & np.isfinite(runs.rtt_s) & (runs.rtt_s > 0)
    short = (runs.sweep == "") & (runs.elapsed_s < LEAST_S)
    candidates = known & ~runs.late & ~short
    held = np.zeros(len(runs), np.bool_)
    (files,) = np.nonzero(candidates & ~runs.memory)
    if len(files):
        traces = runs.traces(runs.id[files].tolist())
        for index in files:
            trace = traces.get(str(runs.id[index]))
            held[index] = trace is None or np.isin(trace.limited, _NETWORK).mean() < OPEN_SHARE
    reasons = (
        (~known, "without a rate or round-trip time"),
        (known & runs.late, "spoilt by a machine too slow for the lab's link"),
        (known & ~runs.late & short, f"shorter than {LEAST_S:g} s"),
        (held, "of files, and perhaps held by a disk or a CPU"),
    )
    left_out = [f"{count(int(which.sum()), 'run')} {why}" for which, why in reasons if which.any()]
    return Evidence(runs[candidates & ~held], left_out)


def profile(runs: Runs) -> Runs:
    """Those of a sweep, and others of the same configurations; without a sweep, of what was often repeated.

    ``runs``: of one path, those that count. A few transfers, all by one plan, say nothing of other plans, so
    they are no profile; they refine the model instead.
    """
    kept = np.zeros(len(runs), np.bool_)
    configurations, own = runs.by_configuration()
    for index in range(len(configurations)):
        mine = own == index
        swept = bool((runs.sweep[mine] != "").any())
        repeats = np.unique(runs.rtt_s[mine], return_counts=True)[1]
        if swept or repeats.min() >= LEAST_RUNS:
            kept |= mine
    found = runs[kept]
    return found if (found.sweep != "").any() or len(found.configurations()) > 1 else runs[:0]


def of_size(runs: Runs, size_bytes: int) -> Runs:
    """Those that moved about as much, so that slow start is about as large a part of them."""
    return runs[np.abs(np.log(np.maximum(runs.bytes, 1) / max(size_bytes, 1))) <= np.log(ALIKE)]
