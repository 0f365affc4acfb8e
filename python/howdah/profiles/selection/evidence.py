"""The runs of the archive that count for a selection, and those that make a profile.

A run counts unless the machine spoilt it, it was too short, or a disk may have limited it. No disk is in the
way from memory to memory. A transfer of files counts when its congestion windows or send buffers limited it
nearly all the time: a sender that waits for its disk or its CPU has nothing to send (``app``), and a receiver
that does closes its window (``rwnd``), which cannot be told from a small buffer, so such a run is left out
too. Every run that counts weighs the same, whatever it moved.

Whose runs decide: those of the path itself, or of another whose profile covers its RTT.

The HPDC 2017 paper measures on emulated links and selects for real ones by their RTT (section 5.1). So a
profile of another path may stand in, if there is just one, and is named; its capacity and hosts may differ.
"""

from typing import NamedTuple

import numpy as np

from howdah import HowdahError
from howdah._native import format_bytes, format_duration
from howdah.archive.runs import Runs
from howdah.arguments import NotHere, literal
from howdah.profiles.selection.predict import uncovered
from howdah.text import count

OPEN_SHARE = 0.9
"""The least share of samples in which the network limited a transfer of files."""

LEAST_S = 5.0
"""Shorter runs outside a sweep are mostly slow start; a sweep's length is what its plan says."""

LEAST_RUNS = 3
"""A configuration that no sweep measured is part of a profile with so many runs at each RTT."""

ALIKE = 2.0
"""Sizes that differ by at most this factor are alike."""

_NETWORK = ("cwnd", "sndbuf")


class CountedRuns(NamedTuple):
    """The runs that count, and in words those that do not."""

    runs: Runs
    left_out: list[str]


def runs_that_count(runs: Runs) -> CountedRuns:
    """The runs that count, and in words those that do not."""
    known = np.isfinite(runs.rate_bps) & (runs.rate_bps > 0) & np.isfinite(runs.rtt_s) & (runs.rtt_s > 0)
    short = (runs.sweep == "") & (runs.elapsed_s < LEAST_S)
    candidates = known & ~runs.late & ~short
    limited = np.zeros(len(runs), np.bool_)
    (files,) = np.nonzero(candidates & ~runs.memory)
    if len(files):
        traces = runs.traces(runs.id[files].tolist())
        for index in files:
            trace = traces.get(str(runs.id[index]))
            limited[index] = trace is None or np.isin(trace.limited, _NETWORK).mean() < OPEN_SHARE
    reasons = (
        (~known, "without a rate or round-trip time"),
        (known & runs.late, "spoilt by a machine too slow for the lab's link"),
        (known & ~runs.late & short, f"shorter than {LEAST_S:g} s"),
        (limited, "of files, and perhaps limited by a disk or a CPU"),
    )
    left_out = [f"{count(int(which.sum()), 'run')} {why}" for which, why in reasons if which.any()]
    return CountedRuns(runs[candidates & ~limited], left_out)


def profile(runs: Runs) -> Runs:
    """The runs of sweeps and of the same configurations; without a sweep, of what was often repeated.

    ``runs``: of one path, those that count. A few transfers, all by one plan, say nothing of other plans, so
    they are no profile; they refine the model instead.
    """
    in_profile = np.zeros(len(runs), np.bool_)
    configurations, own = runs.by_configuration()
    for index in range(len(configurations)):
        mine = own == index
        swept = bool((runs.sweep[mine] != "").any())
        repeats = np.unique(runs.rtt_s[mine], return_counts=True)[1]
        if swept or repeats.min() >= LEAST_RUNS:
            in_profile |= mine
    found = runs[in_profile]
    return found if (found.sweep != "").any() or len(found.configurations()) > 1 else runs[:0]


def of_size(runs: Runs, size_bytes: int) -> Runs:
    """The runs that moved about as much, so that slow start is about as large a part of them."""
    return runs[np.abs(np.log(np.maximum(runs.bytes, 1) / max(size_bytes, 1))) <= np.log(ALIKE)]


class TransferTraits(NamedTuple):
    """The transfer that runs are to be like, where they can be chosen."""

    encrypted: bool = False
    size_bytes: int | None = None
    """The size of the transfer; None where it is not known, or of none in particular."""


_OTHERWISE = {
    True: "Measured in plaintext; this copy is encrypted, and a CPU may limit it.",
    False: "Measured on encrypted streams; plaintext may be faster.",
}


class PathRuns(NamedTuple):
    """Runs of one path that count."""

    path: str | None
    runs: Runs
    left_out: list[str]
    notes: list[str]
    """Sentences on how these runs differ from the transfer."""
    capacity_bps: float | None = None
    """The capacity of the path by all of its runs, those that do not count included; None: no run has it."""


def runs_for_path(runs: Runs, own: str | None, rtt_s: float, transfer: TransferTraits) -> PathRuns:
    """The runs to decide from at ``rtt_s`` on the path ``own``."""
    mine = _of(runs, own, rtt_s, transfer)
    if _covers(mine.runs, rtt_s):
        return mine
    others = covering(runs, rtt_s)
    if not others:
        return mine
    if len(others) > 1:
        return mine._replace(
            notes=[f"Profiles of {len(others)} other paths cover this RTT; none is this one's."]
        )
    other = _of(runs, others[0], rtt_s, transfer)
    return other._replace(notes=[f"Measured on {other.path}, which stands in for this path.", *other.notes])


def runs_named(
    runs: Runs, name: str | None, rtt_s: float, transfer: TransferTraits, *, extrapolate: bool = False
) -> PathRuns:
    """The runs of the path ``name``, else of the only one that can be meant, else of none.

    Paths whose profiles cover the RTT come first, then those with a profile, then all. Of several without a
    profile none is taken, so the models decide. With ``extrapolate`` the same holds where no profile covers
    the RTT. Raises HowdahError when nothing was measured on the path named, and when several profiles are
    left.
    """
    names = np.unique(runs.path[runs.path != ""]).tolist()
    if name is not None:
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise HowdahError(f"nothing was measured on {name!r}; measured: {known}; see: howdah archive ls")
        return _of(runs, name, rtt_s, transfer)
    there = covering(runs, rtt_s)
    profiled = there or [each for each in names if len(profile(_of(runs, each, rtt_s, transfer).runs))]
    found = profiled or names
    if len(found) <= 1:
        return _of(runs, found[0] if found else None, rtt_s, transfer)
    if profiled and (there or not extrapolate):
        several = literal(", ".join(map(repr, found)))
        what = f"has a profile that covers {format_duration(rtt_s)} ({several})"
        if not there:
            raise NotHere(
                f"none of {len(found)} paths {what}; ask the models with {{extrapolate}}, "
                "or measure with: howdah sweep HOST"
            )
        raise NotHere(f"each of {len(found)} paths {what}; choose one with {{path}}")
    note = f"The archive has runs of {len(names)} paths, and no path was named: none of them refines it."
    return _of(runs, None, rtt_s, transfer)._replace(notes=[note])


def covering(runs: Runs, rtt_s: float) -> list[str]:
    """The paths with a profile, from memory to memory, that covers the RTT."""
    return [
        name
        for name in np.unique(runs.path[runs.path != ""]).tolist()
        if _covers(runs_that_count(runs.where(path=name, memory=True)).runs, rtt_s)
    ]


def _of(runs: Runs, path: str | None, rtt_s: float, transfer: TransferTraits) -> PathRuns:
    """The runs of a path that are most like the transfer and still make a profile that covers the RTT."""
    mine = runs.where(path=path) if path else runs[:0]
    capacity_bps = float(np.nanmax(mine.capacity_bps, initial=0.0)) or None
    counted = runs_that_count(mine)
    found, notes = counted.runs, []
    alike = found.where(encrypted=transfer.encrypted)
    if _covers(alike, rtt_s):
        found = alike
    elif _covers(found, rtt_s):
        notes.append(_OTHERWISE[transfer.encrypted])
    if transfer.size_bytes is not None and _covers(found, rtt_s):
        alike = of_size(found, transfer.size_bytes)
        if _covers(alike, rtt_s):
            found = alike
        else:
            median = format_bytes(int(np.median(found.bytes)))
            notes.append(
                f"The runs moved {median} (median) each, this moves {format_bytes(transfer.size_bytes)}."
            )
    return PathRuns(path, found, counted.left_out, notes, capacity_bps)


def _covers(runs: Runs, rtt_s: float) -> bool:
    return uncovered(profile(runs).rtt_s, rtt_s) is None
