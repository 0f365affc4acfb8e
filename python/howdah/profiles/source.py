"""Whose runs decide: those of the path itself, or of another whose profile covers its RTT.

The HPDC 2017 paper measures on emulated links and selects for real ones by their RTT (section 5.1). So a
profile of another path may stand in, if there is just one, and is named; its capacity and hosts may differ.
"""

from typing import NamedTuple

import numpy as np

from howdah import HowdahError
from howdah._native import format_bytes, format_duration
from howdah.archive.runs import Runs
from howdah.profiles.evidence import counting, of_size, profile
from howdah.profiles.predict import outside


class Wanted(NamedTuple):
    """The transfer that runs are to be like, where they can be chosen."""

    encrypted: bool = False
    size_bytes: int | None = None
    """None: not known, or none in particular."""


_OTHERWISE = {
    True: "Measured in plaintext; this copy is encrypted, and a CPU may hold it to less.",
    False: "Measured on encrypted streams; plaintext may be faster.",
}


class Source(NamedTuple):
    """Runs of one path that count."""

    path: str | None
    runs: Runs
    left_out: list[str]
    said: list[str]
    """What a reader has to know of them, in sentences."""


def source(runs: Runs, own: str | None, rtt_s: float, wanted: Wanted) -> Source:
    """The runs to decide from at ``rtt_s`` on the path ``own``."""
    mine = _of(runs, own, rtt_s, wanted)
    if _covers(mine.runs, rtt_s):
        return mine
    others = covering(runs, rtt_s)
    if not others:
        return mine
    if len(others) > 1:
        return mine._replace(
            said=[f"Profiles of {len(others)} other paths cover this RTT; none is this one's."]
        )
    other = _of(runs, others[0], rtt_s, wanted)
    return other._replace(said=[f"Measured on {other.path}, which stands in for this path.", *other.said])


def only(runs: Runs, name: str | None, rtt_s: float, wanted: Wanted) -> Source:
    """The runs of the path ``name``, else of the only one whose profile covers the RTT, else of the only one.

    Raises HowdahError when nothing was measured on the path named, and when there are several.
    """
    names = np.unique(runs.path[runs.path != ""]).tolist()
    if name is not None:
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise HowdahError(f"nothing was measured on {name!r}; measured: {known}; see: howdah archive ls")
        return _of(runs, name, rtt_s, wanted)
    found = covering(runs, rtt_s) or names
    if len(found) > 1:
        several = ", ".join(map(repr, found))
        raise HowdahError(
            f"{len(found)} paths were measured at or around {format_duration(rtt_s)} ({several}); "
            "choose one with --path"
        )
    return _of(runs, found[0] if found else None, rtt_s, wanted)


def covering(runs: Runs, rtt_s: float) -> list[str]:
    """The paths with a profile, from memory to memory, that covers the RTT."""
    return [
        name
        for name in np.unique(runs.path[runs.path != ""]).tolist()
        if _covers(counting(runs.where(path=name, memory=True)).runs, rtt_s)
    ]


def _of(runs: Runs, path: str | None, rtt_s: float, wanted: Wanted) -> Source:
    """Of what counts on a path, what is most like the transfer and still a profile that covers the RTT."""
    counted = counting(runs.where(path=path) if path else runs[:0])
    found, said = counted.runs, []
    alike = found.where(encrypted=wanted.encrypted)
    if _covers(alike, rtt_s):
        found = alike
    elif _covers(found, rtt_s):
        said.append(_OTHERWISE[wanted.encrypted])
    if wanted.size_bytes is not None and _covers(found, rtt_s):
        alike = of_size(found, wanted.size_bytes)
        if _covers(alike, rtt_s):
            found = alike
        else:
            median = format_bytes(int(np.median(found.bytes)))
            said.append(
                f"The runs moved {median} (median) each, this moves {format_bytes(wanted.size_bytes)}."
            )
    return Source(path, found, counted.left_out, said)


def _covers(runs: Runs, rtt_s: float) -> bool:
    return outside(profile(runs).rtt_s, rtt_s) is None
