"""What the archive's runs say of each path: the profiles of its configurations and how they bend.

What is found is a document (``--json``): every number with its unit, null where there is none.
"""

import math
from collections.abc import Collection

import msgspec
import numpy as np

from howdah import HowdahError
from howdah._native import format_bytes
from howdah.archive.runs import Configuration, Runs, Value
from howdah.profiles.compare import Errors, compare
from howdah.profiles.profile import Profile, profiles
from howdah.profiles.regions import Region, curvature
from howdah.profiles.sigmoids import Sigmoids, sigmoids
from howdah.profiles.transition import Transition, transition

SCHEMA = 1
_NAMES = {
    "path": "the path",
    "congestion_control": "the congestion control",
    "streams": "streams",
    "buffer_bytes": "the buffer",
    "rtt_s": "the RTT",
    "sweep": "the sweep",
}


class AtRtt(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one configuration at one RTT."""

    rtt_s: float
    runs: int
    mean_bps: float
    sd_bps: float | None
    median_bps: float
    quartiles_bps: tuple[float, float]
    whiskers_bps: tuple[float, float]
    outliers_bps: list[float]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """``Transition`` as a document; shares and fitted means in the order of the RTTs."""

    shape: str
    transition_rtt_s: float
    bracket_s: tuple[float, float]
    interval_s: tuple[float, float]
    shares: list[float]
    p_concave: float
    p_convex: float
    fitted_bps: list[float]


class Flipped(msgspec.Struct, frozen=True, kw_only=True):
    """One sigmoid: 1 − 1 / (1 + e^{−a (τ − centre)}) of the scale."""

    a_per_s: float
    centre_s: float


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """``Sigmoids`` as a document."""

    transition_rtt_s: float
    concave: Flipped | None
    convex: Flipped | None
    scale_bps: float
    sse: float
    shares: list[float]


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """``Errors`` as a document: mean relative errors at RTTs left out."""

    sigmoids: float
    concave_convex: float
    monotone: float
    noise: float
    best: str
    clear: bool


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The profile of one configuration."""

    congestion_control: str
    streams: int
    buffer_bytes: float | None
    at: list[AtRtt]
    transition: Turn | None
    sigmoids: Pair | None
    regions: list[Region]
    regressions: Regression | None
    problem: str | None
    """Why there is no transition."""


class PathProfiles(msgspec.Struct, frozen=True, kw_only=True):
    """The configurations measured on one path."""

    path: str
    encrypted: bool
    """The streams; a CPU may hold encrypted ones to less, so they make profiles of their own."""
    capacity_bps: float | None
    runs: int
    configurations: list[Measured]


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """All paths, those measured in plaintext and encrypted twice, and how many runs were left out."""

    schema: int = SCHEMA
    paths: list[PathProfiles]
    late: int
    files: int
    """Of files, which disks may have held back."""
    without_rtt: int


def choose(runs: Runs, **conditions: Collection[Value] | None) -> Runs:
    """Runs whose columns have one of the values given; None takes all.

    Raises HowdahError when there are none, with the values that there are.
    """
    for column, wanted in conditions.items():
        if wanted is None:
            continue
        kept = runs.where(**{column: wanted})
        if len(runs) and not len(kept):
            there = ", ".join(_in_words(column, value) for value in np.unique(getattr(runs, column)).tolist())
            asked = ", ".join(_in_words(column, value) for value in wanted)
            raise HowdahError(f"no runs with {_NAMES[column]} {asked}; there are runs with {there}")
        runs = kept
    return runs


def _in_words(column: str, value: Value) -> str:
    if column == "rtt_s":
        return f"{float(value or math.nan) * 1e3:.4g}ms"
    if column != "buffer_bytes":
        return str(value) if value != "" else "none"
    return "auto" if value is None or math.isnan(float(value)) else format_bytes(int(value))


def study(runs: Runs, *, late: bool = False, files: bool = False, draws: int = 0) -> Study:
    """Profiles of these runs, without late ones and copies of files unless told.

    ``draws`` are of the bootstrap of the sigmoids, which takes the longest of all.
    Raises HowdahError when no run is left.
    """
    unknown = np.isnan(runs.rtt_s)
    spoilt = ~unknown & runs.late & (not late)
    disks = ~unknown & ~spoilt & ~runs.memory & (not files)
    kept = runs[~(unknown | spoilt | disks)]
    left_out = {"late": spoilt, "files": disks, "without_rtt": unknown}
    counts = {name: int(mask.sum()) for name, mask in left_out.items()}
    if not len(kept):
        raise HowdahError(_nothing(**counts))
    names = sorted(set(zip(kept.path.tolist(), kept.encrypted.tolist(), strict=True)))
    return Study(paths=[_path(name, encrypted, kept, draws) for name, encrypted in names], **counts)


def _nothing(late: int, files: int, without_rtt: int) -> str:
    found = [
        f"{count} {what}"
        for count, what in (
            (late, "late (count them with --late)"),
            (files, "of files (count them with --files)"),
            (without_rtt, "without a known RTT"),
        )
        if count
    ]
    if found:
        return f"no run makes a profile: there are {', '.join(found)}; measure with: howdah sweep HOST"
    return "no runs to make a profile of; measure some with: howdah sweep HOST"


def _path(name: str, encrypted: bool, kept: Runs, draws: int) -> PathProfiles:
    runs = kept.where(path=name, encrypted=encrypted)
    capacity = float(runs.capacity_bps.max())
    capacity_bps = capacity if np.isfinite(capacity) else None
    configurations, own = runs.by_configuration()
    found = profiles(own, runs.rtt_s, runs.rate_bps)
    return PathProfiles(
        path=name,
        encrypted=encrypted,
        capacity_bps=capacity_bps,
        runs=len(runs),
        configurations=[
            _measured(configuration, one, capacity_bps, draws)
            for configuration, one in zip(configurations, found, strict=True)
        ],
    )


def _measured(
    configuration: Configuration, measured: Profile, capacity_bps: float | None, draws: int
) -> Measured:
    problem = turn = pair = regressions = None
    regions: list[Region] = []
    try:
        turn = _turn(transition(measured))
        pair = _pair(sigmoids(measured, capacity_bps=capacity_bps, draws=draws))
        regions = curvature(measured).regions()
        regressions = _regression(compare(measured, capacity_bps=capacity_bps))
    except HowdahError as error:
        problem = str(error)
    return Measured(
        congestion_control=configuration.congestion_control,
        streams=configuration.streams,
        buffer_bytes=configuration.buffer_bytes,
        at=_at(measured),
        transition=turn,
        sigmoids=pair,
        regions=regions,
        regressions=regressions,
        problem=problem,
    )


def _at(measured: Profile) -> list[AtRtt]:
    columns = zip(
        measured.rtt_s.tolist(),
        measured.runs.tolist(),
        measured.mean_bps.tolist(),
        measured.sd_bps.tolist(),
        measured.median_bps.tolist(),
        measured.quartiles_bps.tolist(),
        measured.whiskers_bps.tolist(),
        measured.outliers_bps,
        strict=True,
    )
    return [
        AtRtt(
            rtt_s=rtt,
            runs=runs,
            mean_bps=mean,
            sd_bps=None if runs == 1 else deviation,
            median_bps=median,
            quartiles_bps=(low, high),
            whiskers_bps=(least, most),
            outliers_bps=outliers.tolist(),
        )
        for rtt, runs, mean, deviation, median, (low, high), (least, most), outliers in columns
    ]


def _turn(found: Transition) -> Turn:
    return Turn(
        shape=found.shape,
        transition_rtt_s=found.rtt_s,
        bracket_s=found.bracket_s,
        interval_s=found.interval_s,
        shares=found.shares.tolist(),
        p_concave=found.p_concave,
        p_convex=found.p_convex,
        fitted_bps=found.fitted_bps.tolist(),
    )


def _pair(found: Sigmoids) -> Pair:
    concave, convex = (each and Flipped(**each._asdict()) for each in (found.concave, found.convex))
    return Pair(
        transition_rtt_s=found.transition_s,
        concave=concave,
        convex=convex,
        scale_bps=found.scale_bps,
        sse=found.sse,
        shares=found.shares.tolist(),
    )


def _regression(found: Errors) -> Regression | None:
    if found.best is None:
        return None
    return Regression(**found._asdict(), best=found.best, clear=found.clear)
