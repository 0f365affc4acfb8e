"""The growth of a queue between two losses, which shows how many streams of CUBIC fill it.

Between cuts CUBIC's window is C (t - K)^3 + W (RFC 9438, section 4.2), so of n streams, whenever each was
cut, the third derivative is 6 n C: on a path that was learnt, at the rate it had then, that is their number.
The longest queue in each quarter of a second is what counts: a late sender leaves it short for a moment.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.rows import Floats, Mask, begins, longest_span, mean, quotient

NamedColumns = Iterator[tuple[str, Floats]]

_CUT = 0.04
"""A cut loses this part of what is on its way within half a second; a queue that only grows loses none."""
_ENVELOPE_S = 0.25
_CUBIC, _CUBIC_NOT_KNOWN = (1e-8, 1e-3), 1e-5
"""The range of CUBIC's growth in s/s³, for one stream from 5 Mb/s to 500 Gb/s."""
_LAW_BUMPS, _LAW_WIDTH = np.arange(-6.5, -2.8, 0.15), 0.1
"""Two streams are 0.3 from one: a linear classifier must be shown what is so much, neither less nor more."""
_CUT_BUMPS, _CUT_WIDTH = np.arange(0.05, 0.5, 0.08), 0.05
_FITS = 0.15
"""The residual of a law that fits is at most this part of what a stretch moves by."""
_LEAST_STEPS = 8
"""The least number of steps; with fewer any polynomial fits."""
_SUREST = 30.0
_LEAST_SPAN = 0.01
"""A stretch that moves by less does not grow."""
_TURNS = np.linspace(-4, 8, 121)
"""The places where CUBIC's growth turns from concave to convex, in lengths of the stretch."""


def growth(queue: Floats, base_rtt_s: Floats, step_s: float) -> NamedColumns:
    """The features of the longest stretch in which nothing was cut, and of the cuts.

    ``queue`` is in base RTTs, of shape (n, m) in steps of ``step_s``; ``base_rtt_s`` is of shape (n,).
    """
    wide = max(1, round(_ENVELOPE_S / step_s))
    count = max(1, queue.shape[1] // wide)
    used = min(count * wide, queue.shape[1])
    pipe = 1 + np.maximum(queue[:, :used], 0).reshape(len(queue), count, -1).max(axis=2)
    cut = _cuts(pipe)
    begin, end = longest_span(~cut)
    place = np.arange(count)
    inside = (place >= begin[:, None]) & (place < end[:, None])
    steps = np.maximum(end - begin, 1)
    stretch = _Stretch(pipe, inside, steps, steps * wide * step_s, base_rtt_s)
    yield "growth_s", stretch.length_s
    yield from _polynomial(stretch)
    yield from _law(stretch)
    yield from _cutting(pipe, cut, queue.shape[1] * step_s)


class _Stretch(NamedTuple):
    """The longest stretch of each row: shape (n, m) or (n,)."""

    pipe: Floats
    """The bytes on their way, in bandwidth-delay products."""
    inside: Mask
    steps: NDArray[np.intp]
    length_s: Floats
    base_rtt_s: Floats


def _polynomial(stretch: _Stretch) -> NamedColumns:
    """A polynomial of third degree, in Legendre's from the beginning (-1) to the end (1) of a stretch."""
    pipe, inside, steps = stretch.pipe, stretch.inside, stretch.steps
    x = np.where(inside, 2 * (np.cumsum(inside, axis=1) - 0.5) / steps[:, None] - 1, 0.0)
    basis = np.stack([np.ones_like(x), x, 1.5 * x**2 - 0.5, 2.5 * x**3 - 1.5 * x], axis=1) * inside[:, None]
    gram = basis @ basis.transpose(0, 2, 1) + 1e-6 * np.eye(4)
    found = np.linalg.solve(gram, basis @ pipe[:, :, None])[:, :, 0]
    left = np.sqrt(mean((pipe - (found[:, :, None] * basis).sum(axis=1)) ** 2, inside))
    span = np.abs(found[:, 1:]).sum(axis=1) + _LEAST_SPAN
    cubic = 2.5 * found[:, 3] * (2 / stretch.length_s) ** 3 * stretch.base_rtt_s
    sure = np.where(steps < _LEAST_STEPS, 0.0, found[:, 3] * np.sqrt(steps) / (left + 1e-4))
    yield "growth_span", span
    for degree, name in enumerate(("slope", "bend", "cubic"), start=1):
        yield f"growth_{name}", found[:, degree] / span
    yield "growth_left", left / span
    yield "growth_cubic_sure", np.clip(sure, -_SUREST, _SUREST)
    yield "growth_cubic_log", np.log10(np.where(sure > 1, np.clip(cubic, *_CUBIC), _CUBIC_NOT_KNOWN))


def _law(stretch: _Stretch) -> NamedColumns:
    """The features of CUBIC's law where it fits."""
    law = _cubic_law(stretch)
    pipe, inside = stretch.pipe, stretch.inside
    moved = np.where(inside, pipe, 0).max(axis=1) - np.where(inside, pipe, np.inf).min(axis=1)
    span = np.maximum(moved, 0) + _LEAST_SPAN
    fits = (stretch.steps >= _LEAST_STEPS) & (law.rise > 0) & (law.left < _FITS * span)
    rise = np.clip(law.rise / stretch.length_s**3 * stretch.base_rtt_s, *_CUBIC)
    rise_log = np.log10(np.where(fits, rise, _CUBIC_NOT_KNOWN))
    yield "law_found", fits.astype(float)
    yield "law_left", law.left / span
    yield "law_turn_s", np.where(fits, np.clip(law.turn * stretch.length_s, -_SUREST, _SUREST), 0.0)
    yield "law_log", rise_log
    yield from _bumps("law_near", rise_log, fits, _LAW_BUMPS, _LAW_WIDTH)


def _cutting(pipe: Floats, cut: Mask, length_s: float) -> NamedColumns:
    """The rate and the depth of cuts: where one of two streams is cut, the depth is half."""
    number = begins(cut).sum(axis=1)
    fallen = np.maximum(0, np.where(cut[:, 1:], 1 - pipe[:, 1:] / pipe[:, :-1], 0)).sum(axis=1)
    depth = quotient(fallen, number.astype(float))
    lag = min(round(1 / _ENVELOPE_S), pipe.shape[1] - 1)
    yield "cut_rate_hz", number / length_s
    yield "cut_depth", depth
    yield "cut_deepest", (1 - pipe[:, lag:] / pipe[:, : pipe.shape[1] - lag]).max(axis=1)
    yield from _bumps("cut_near", depth, number > 0, _CUT_BUMPS, _CUT_WIDTH)


def _bumps(name: str, values: Floats, known: Mask, centres: Floats, width: float) -> NamedColumns:
    """The nearness of values to each centre, 1 to 0; 0 where nothing is known."""
    for centre in centres:
        yield f"{name}_{centre:.2f}", known * np.exp(-0.5 * ((values - centre) / width) ** 2)


class _Law(NamedTuple):
    """CUBIC's law as it fits rows best: shape (n,) each."""

    rise: Floats
    """The rise n C, in the unit of the rows by the length of a stretch cubed; 0 where nothing rises."""
    turn: Floats
    """K in lengths of a stretch from its beginning."""
    left: Floats
    """The residual as a standard deviation."""


def _cubic_law(stretch: _Stretch) -> _Law:
    """The fit of rise × (t - turn)³ + a constant, by least squares, which is linear but for the turn."""
    pipe, inside, steps = stretch.pipe, stretch.inside, stretch.steps
    place = np.cumsum(inside, axis=1) - 0.5
    cube = ((place / steps[:, None])[:, None] - _TURNS[:, None]) ** 3
    weight = (inside / steps[:, None])[:, None]
    cube -= (cube * weight).sum(axis=2, keepdims=True)
    centred = pipe - (pipe * weight[:, 0]).sum(axis=1, keepdims=True)
    both = (cube * (weight * centred[:, None])).sum(axis=2)
    rise = np.maximum(0, both / np.maximum((cube**2 * weight).sum(axis=2), 1e-12))
    left = np.maximum(0, (centred**2 * weight[:, 0]).sum(axis=1)[:, None] - rise * both)
    best = left.argmin(axis=1)
    rows = np.arange(len(pipe))
    return _Law(rise[rows, best], _TURNS[best], np.sqrt(left[rows, best]))


def _cuts(pipe: Floats) -> Mask:
    """The steps at which rows (n, m) lose ``_CUT`` within two steps."""
    found = np.zeros(pipe.shape, bool)
    for lag in (1, 2):
        lost = pipe[:, lag:] < (1 - _CUT) * pipe[:, :-lag]
        for place in range(1, lag + 1):
            found[:, place : place + lost.shape[1]] |= lost
    return found
