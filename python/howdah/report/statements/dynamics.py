"""Statements about traces: ramp-up, Poincaré maps, Lyapunov exponents; most of CUBIC with large buffers."""

from collections.abc import Callable, Sequence

import numpy as np

from howdah.profiles.dynamics.lyapunov import Relation
from howdah.profiles.dynamics.poincare import MapShape, of_run
from howdah.profiles.dynamics.traces import Undetermined
from howdah.report.cells import Cell, milliseconds
from howdah.report.material import Material, ramp_s
from howdah.report.statements.statement import HPDC, Finding, compared, decided, missing, statement
from howdah.text import count

_NEAR_S, _FAR_S = 0.0118, 0.183
_RAMP_UP_S = (5.0, 20.0)
"""Half and twice the paper's "for example, 10 seconds"."""


@statement(
    "ramp-up",
    "Ramp-up at 366 ms takes about 10 s.",
    f"{HPDC} §3.1, Fig. 1(b)",
    "one stream of Scalable takes 5 to 20 s to 90 % of what it then sustains, in the median",
)
def _ramp_up(material: Material) -> Finding:
    cells = _cells(material, 0.366, control="scalable", streams=1)
    times = [ramp_s(trace) for cell in cells for trace in material.traces(cell)]
    if not times:
        return missing("traces of one stream of Scalable with large buffers at 366 ms")
    middle = float(np.median(times))
    low, high = _RAMP_UP_S
    numbers = f"{middle:.3g} s in the median of {count(len(times), 'run')} (paper: 10 s)"
    return decided(low <= middle <= high, numbers, cells)


@statement(
    "wider-map",
    "One stream varies much more at 183 ms than at 11.8 ms.",
    f"{HPDC} §4.1, Fig. 12",
    "the mean spread along the 45° line, relative to the rate, is larger at 183 ms",
)
def _wider_map(material: Material) -> Finding:
    return _maps(
        material, 1, lambda shape: shape.along, "its rate wanders by {:.2g} of the mean", higher_far=True
    )


@statement(
    "tilt",
    "The aggregate's map is nearer to the 45° line at 183 ms than at 11.8 ms.",
    f"{HPDC} §4.1, Fig. 12",
    "the mean angle between its axis and the 45° line is smaller at 183 ms",
)
def _tilt(material: Material) -> Finding:
    return _maps(
        material,
        None,
        lambda shape: None if shape.tilt_deg is None else abs(shape.tilt_deg),
        "the axis is {:.3g}° from the 45° line",
        higher_far=False,
    )


@statement(
    "exponents-rtt",
    "Lyapunov exponents are nearer to zero at 183 ms than at 11.8 ms.",
    f"{HPDC} §4.1, Fig. 13",
    "the mean size of the aggregate's exponent is smaller at 183 ms by two standard errors",
)
def _nearer_with_rtt(material: Material) -> Finding:
    near, far = (_sizes_of_exponents(material, _cells(material, rtt_s)) for rtt_s in (_NEAR_S, _FAR_S))
    if not near or not far:
        return missing(f"traces at {milliseconds(_NEAR_S)} and {milliseconds(_FAR_S)} with exponents")
    numbers = f"|exponent| is {_at_both('{:.2f}', near, far)}"
    return compared(near, far, far_is_larger=False, numbers=numbers, where=_cells(material, _FAR_S))


@statement(
    "exponents-streams",
    "More streams bring the aggregate's Lyapunov exponents nearer to zero.",
    f"{HPDC} §4.1, Fig. 13",
    "over both RTTs the mean size with the most streams is below that with the fewest",
)
def _nearer_with_streams(material: Material) -> Finding:
    few, many, parts, where = [], [], [], []
    for rtt_s in (_NEAR_S, _FAR_S):
        cells = [cell for cell in _cells(material, rtt_s) if _sizes_of_exponents(material, [cell])]
        if len(cells) < 2:
            return missing(f"traces with exponents at {milliseconds(rtt_s)} of two numbers of streams")
        cells.sort(key=lambda cell: cell.configuration.streams)
        fewest, most = (_sizes_of_exponents(material, [cell]) for cell in (cells[0], cells[-1]))
        few += fewest
        many += most
        where.append(cells[-1])
        parts.append(
            f"{np.mean(fewest):.2f} with {count(cells[0].configuration.streams, 'stream')} and "
            f"{np.mean(most):.2f} with {cells[-1].configuration.streams} at {milliseconds(rtt_s)}"
        )
    return compared(few, many, far_is_larger=False, numbers=f"|exponent| is {', '.join(parts)}", where=where)


@statement(
    "throughput-falls-with-exponent",
    "Throughput falls as the Lyapunov exponent grows.",
    f"{HPDC} §4.2, Fig. 14",
    "the 95 % interval of the rank correlation over runs is below zero",
)
def _falls_with_exponent(material: Material) -> Finding:
    cells = _cells(material, _FAR_S, streams=10)
    if not cells:
        return missing("traces of CUBIC, 10 streams, large buffers at 183 ms")
    found = material.relation(cells[0])
    if isinstance(found, Undetermined):
        return missing(f"more of {cells[0].words}: {found.reason}")
    numbers = correlation_words(found)
    if found.decreasing is None:
        return Finding("cannot tell", f"needs more runs of {cells[0].words}: {numbers}")
    return decided(found.decreasing, numbers, cells)


def correlation_words(found: Relation) -> str:
    """A correlation in words, as ``rank correlation -0.62 [-0.85, -0.21] over 10 runs``."""
    interval = f"[{found.low:+.2f}, {found.high:+.2f}]"
    return f"rank correlation {found.correlation:+.2f} {interval} over {count(found.runs, 'run')}"


def _cells(
    material: Material, rtt_s: float, *, control: str = "cubic", streams: int | None = None
) -> list[Cell]:
    chosen = material.cells.where(controls=[control], streams=streams, paper_buffer="large")
    found = (material.cells.at(each, rtt_s) for each in chosen)
    return [cell for cell in found if cell is not None and material.traces(cell)]


def _sizes_of_exponents(material: Material, cells: Sequence[Cell]) -> list[float]:
    return [abs(exponent) for cell in cells for exponent in material.exponents_and_rates(cell)[0]]


def _maps(
    material: Material,
    streams: int | None,
    number: Callable[[MapShape], float | None],
    words: str,
    *,
    higher_far: bool,
) -> Finding:
    """A number of the aggregates' maps at both RTTs; it should be higher, or lower, at the long one."""
    values: list[list[float]] = []
    for rtt_s in (_NEAR_S, _FAR_S):
        shapes = [
            of_run(trace).aggregate
            for cell in _cells(material, rtt_s, streams=streams)
            for trace in material.traces(cell)
        ]
        found = [number(shape) for shape in shapes if isinstance(shape, MapShape)]
        values.append([each for each in found if each is not None])
        if not values[-1]:
            return missing(f"traces of CUBIC with large buffers at {milliseconds(rtt_s)}")
    near, far = values
    where = _cells(material, _FAR_S, streams=streams)
    numbers = _at_both(words, near, far)
    return compared(near, far, far_is_larger=higher_far, numbers=numbers, where=where)


def _at_both(words: str, near: Sequence[float], far: Sequence[float]) -> str:
    sides = ((near, _NEAR_S), (far, _FAR_S))
    return ", ".join(f"{words.format(np.mean(values))} at {milliseconds(rtt_s)}" for values, rtt_s in sides)
