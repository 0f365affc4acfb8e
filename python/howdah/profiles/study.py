"""A study of the archive's runs: for each path the profiles of its configurations and how they bend.

The result is a document (``--json``): every number with its unit, null where there is none.
"""

import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from howdah import HowdahError, decoding
from howdah._native import format_bytes
from howdah.archive.runs import Configuration, Runs, Value
from howdah.arguments import NotHere
from howdah.profiles.profile import Profile, Region, curvature, profiles
from howdah.profiles.transition import Transition, transition
from howdah.profiles.transition.shapes import compare_regressions
from howdah.profiles.transition.sigmoids import Sigmoids, sigmoids
from howdah.text import apart

T = TypeVar("T")

SCHEMA = 1
_NAMES = {
    "path": "the path",
    "congestion_control": "the congestion control",
    "streams": "streams",
    "buffer_bytes": "the buffer",
    "rtt_s": "the RTT",
    "sweep": "the sweep",
}


class RttStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of one configuration at one RTT."""

    rtt_s: float
    runs: int
    mean_bps: float
    sd_bps: float | None
    median_bps: float
    quartiles_bps: tuple[float, float]
    whiskers_bps: tuple[float, float]
    outliers_bps: list[float]


class TransitionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``Transition`` as a document; shares and fitted means in the order of the RTTs."""

    shape: str
    transition_rtt_s: float
    bracket_s: tuple[float, float]
    interval_s: tuple[float, float]
    shares: list[float]
    p_concave: float
    p_convex: float
    fitted_bps: list[float]


class SigmoidDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One sigmoid: 1 − 1 / (1 + e^{−a (τ − centre)}) of the scale."""

    a_per_s: float
    centre_s: float


class SigmoidPairDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``Sigmoids`` as a document."""

    transition_rtt_s: float
    concave: SigmoidDocument | None
    convex: SigmoidDocument | None
    scale_bps: float
    sse: float
    shares: list[float]


class RegressionErrors(msgspec.Struct, frozen=True, kw_only=True):
    """``LeftOutErrors`` as a document: mean relative errors at RTTs left out."""

    sigmoids: float
    concave_convex: float
    monotone: float
    noise: float
    best: str
    clear: bool


class ConfigurationProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The profile of one configuration."""

    congestion_control: str
    streams: int
    buffer_bytes: float | None
    at: list[RttStatistics]
    transition: TransitionDocument | None
    sigmoids: SigmoidPairDocument | None
    regions: list[Region]
    regressions: RegressionErrors | None
    problem: str | None
    """The reason why there is no transition; null where there is one."""


class PathProfiles(msgspec.Struct, frozen=True, kw_only=True):
    """The configurations measured on one path."""

    path: str
    encrypted: bool
    """True of encrypted streams, which a CPU may limit, so they make profiles of their own."""
    capacity_bps: float | None
    runs: int
    configurations: list[ConfigurationProfile]


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """All paths, those measured in plaintext and encrypted twice, and how many runs were left out."""

    schema: int = SCHEMA
    paths: list[PathProfiles]
    late: int
    files: int
    """The runs of files left out, which disks may have limited."""
    without_rtt: int


def runs_with(runs: Runs, **conditions: Collection[Value] | None) -> Runs:
    """Runs whose columns have one of the values given; None takes all.

    Raises HowdahError when there are none, with the values that there are.
    """
    for column, values in conditions.items():
        if values is None:
            continue
        matching = runs.where(**{column: values})
        if len(runs) and not len(matching):
            # Buffers that are autotuned are NaN there.
            known = [_or_none(each) for each in np.unique(getattr(runs, column)).tolist()]
            words = apart([*known, *values], partial(_in_words, column), partial(_exactly, column))
            there, requested = (", ".join(words[each] for each in some) for some in (known, values))
            raise HowdahError(f"no runs with {_NAMES[column]} {requested}; there are runs with {there}")
        runs = matching
    return runs


def _or_none(value: Value) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value


def _in_words(column: str, value: Value) -> str:
    if column == "rtt_s":
        return f"{float(value or math.nan) * 1e3:.4g}ms"
    if column != "buffer_bytes":
        return str(value) if value != "" else "none"
    return "auto" if value is None else format_bytes(int(value))


def _exactly(column: str, value: Value) -> str:
    if value is None or column not in {"rtt_s", "buffer_bytes"}:
        return _in_words(column, value)
    return f"{float(value) * 1e3:.12g}ms" if column == "rtt_s" else f"{int(value):,} B"


def study(runs: Runs, *, late: bool = False, files: bool = False, draws: int = 0) -> Study:
    """Profiles of these runs, without late ones and copies of files unless told.

    ``draws`` are of the bootstrap of the sigmoids, which takes the longest of all.
    Raises HowdahError when no run is left.
    """
    unknown = np.isnan(runs.rtt_s)
    spoilt = ~unknown & runs.late & (not late)
    disks = ~unknown & ~spoilt & ~runs.memory & (not files)
    counted = runs[~(unknown | spoilt | disks)]
    left_out = {"late": spoilt, "files": disks, "without_rtt": unknown}
    counts = {name: int(mask.sum()) for name, mask in left_out.items()}
    if not len(counted):
        raise NotHere(_nothing(**counts))
    names = sorted(set(zip(counted.path.tolist(), counted.encrypted.tolist(), strict=True)))
    return Study(paths=[_path(name, encrypted, counted, draws) for name, encrypted in names], **counts)


def _nothing(late: int, files: int, without_rtt: int) -> str:
    found = [
        f"{count} {what}"
        for count, what in (
            (late, "late (count them with {late})"),
            (files, "of files (count them with {files})"),
            (without_rtt, "without a known RTT"),
        )
        if count
    ]
    if found:
        return f"no run makes a profile: there are {', '.join(found)}; measure with: howdah sweep HOST"
    return "no runs to make a profile of; measure some with: howdah sweep HOST"


def _path(name: str, encrypted: bool, counted: Runs, draws: int) -> PathProfiles:
    runs = counted.where(path=name, encrypted=encrypted)
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
) -> ConfigurationProfile:
    problem = turn = pair = regressions = None
    regions: list[Region] = []
    try:
        turn = _transition(transition(measured))
        pair = _pair(sigmoids(measured, capacity_bps=capacity_bps, draws=draws))
        regions = curvature(measured).regions()
        errors = compare_regressions(measured, capacity_bps=capacity_bps)
        if errors.best is not None:
            regressions = _document(RegressionErrors, errors._asdict(), best=errors.best, clear=errors.clear)
    except HowdahError as error:
        problem = str(error)
    return ConfigurationProfile(
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


def _at(measured: Profile) -> list[RttStatistics]:
    columns = {**measured._asdict(), "outliers_bps": measured.outliers_bps}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [_document(RttStatistics, row, sd_bps=row["sd_bps"] if row["runs"] > 1 else None) for row in rows]


def _transition(found: Transition) -> TransitionDocument:
    return _document(
        TransitionDocument, found._asdict(), shape=str(found.shape), transition_rtt_s=found.rtt_s
    )


def _pair(found: Sigmoids) -> SigmoidPairDocument:
    concave, convex = (each and _document(SigmoidDocument, each._asdict()) for each in found[1:3])
    return _document(
        SigmoidPairDocument,
        found._asdict(),
        transition_rtt_s=found.transition_s,
        concave=concave,
        convex=convex,
    )


def _document(kind: type[T], found: Mapping[str, Any], **others: object) -> T:
    """The fields of ``kind`` in what was found, arrays as lists, beside ``others``."""
    plain = {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in {**found, **others}.items()
    }
    return decoding.from_plain(plain, kind)
