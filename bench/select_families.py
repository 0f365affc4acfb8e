"""Synthetic sweeps from families of profiles that know nothing of each other, nor of howdah's models.

Each family gives the true rate of every configuration at the papers' RTTs; runs vary around it by 3 to 8 %
(a standard deviation of its own for each configuration), and 4 % of runs are bad ones, at 30 to 90 %.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from howdah.archive.runs import Configuration, Runs

Array = NDArray[np.float64]
Rates = dict[Configuration, Array]
Family = Callable[[np.random.Generator], Rates]

RTT_S = np.array([0.4, 11.8, 22.6, 45.6, 91.6, 183, 366]) / 1e3
GOODPUT_BPS = 9.4e9
CAPACITY_BPS = 10e9
CONTROLS = ("cubic", "htcp", "scalable")
STREAMS = (1, 4, 10)
BUFFERS_BYTES = (244e3, 256e6, 1e9)
DURATION_S = 10.0

_BAD_SHARE = 0.04


def _both(first: Array | float, second: Array | float, sharpness: float) -> Array:
    """The lesser of two limits, rounded where they meet."""
    return np.asarray((first**-sharpness + second**-sharpness) ** (-1 / sharpness))


def windows(rng: np.random.Generator) -> Rates:
    """Buffers limit, after a slow start whose length depends on the congestion control."""
    usable, sharpness = rng.uniform(0.45, 1), rng.uniform(1.5, 8)
    slowness = dict(zip(CONTROLS, rng.uniform(1.2, 2.4, 3), strict=True))
    found: Rates = {}
    for control, streams, size in product(CONTROLS, STREAMS, BUFFERS_BYTES):
        peak = _both(GOODPUT_BPS, usable * streams * size * 8 / RTT_S, sharpness)
        rounds = np.log2(np.maximum(2, peak * RTT_S / 8 / 14480 / streams))
        found[Configuration(control, streams, size)] = peak * np.maximum(
            0.05, 1 - slowness[control] * rounds * RTT_S / DURATION_S
        )
    return found


def sigmoids(rng: np.random.Generator) -> Rates:
    """One flipped sigmoid each, later with more streams and buffer."""
    found: Rates = {}
    for control in CONTROLS:
        length = rng.uniform(0.09, 0.24)
        for streams, size in product(STREAMS, BUFFERS_BYTES):
            middle_s = length * streams**0.4 * (size / 256e6) ** 0.25
            slope = rng.uniform(2.5, 6) / middle_s
            rates = 1 / (1 + np.exp(slope * (RTT_S - middle_s)))
            found[Configuration(control, streams, size)] = GOODPUT_BPS * (0.02 + 0.98 * rates / rates[0])
    return found


def losses(rng: np.random.Generator) -> Rates:
    """A power of RTT between 1/4 and 1, under the capacity and the windows."""
    sharpness = rng.uniform(1.5, 8)
    found: Rates = {}
    for control in CONTROLS:
        power, rate_bps = rng.uniform(0.25, 1), rng.uniform(1.5e9, 6e9)
        for streams, size in product(STREAMS, BUFFERS_BYTES):
            limit = _both(GOODPUT_BPS, streams * size * 8 / RTT_S, 8)
            lossy = streams**0.9 * rate_bps * (0.0456 / RTT_S) ** power
            found[Configuration(control, streams, size)] = _both(limit, lossy, sharpness)
    return found


def concave_then_convex(rng: np.random.Generator) -> Rates:
    """A power below the capacity up to a transition, a hyperbola beyond, and hard window limits."""
    found: Rates = {}
    for control in CONTROLS:
        base_s, loss = rng.uniform(0.03, 0.2), rng.uniform(0.03, 0.2)
        for streams, size in product(STREAMS, BUFFERS_BYTES):
            transition_s = base_s * streams**0.3 * (size / 1e9) ** 0.15
            concave = 1 - loss * (RTT_S / transition_s) ** rng.uniform(1, 2)
            convex = (1 - loss) * (transition_s / RTT_S) ** rng.uniform(0.7, 1.3)
            rates = GOODPUT_BPS * np.where(transition_s >= RTT_S, concave, convex)
            found[Configuration(control, streams, size)] = np.minimum(rates, streams * size * 8 / RTT_S)
    return found


def fixed_sizes(rng: np.random.Generator) -> Rates:
    """One size for all, sent after a number of round trips."""
    size_bits = rng.choice([1, 20, 50, 100]) * 8e9
    found: Rates = {}
    for control in CONTROLS:
        rounds = rng.uniform(6, 30)
        for streams, size in product(STREAMS, BUFFERS_BYTES):
            rates = np.minimum(GOODPUT_BPS, streams * size * 8 / RTT_S)
            ramp_s = rounds * RTT_S * (1 - 0.2 * np.log10(streams))
            found[Configuration(control, streams, size)] = size_bits / (size_bits / rates + ramp_s)
    return found


def bumps(rng: np.random.Generator) -> Rates:
    """``windows`` with each cell off by 6 %, for good: what no interpolation can know."""
    return {
        configuration: np.minimum(GOODPUT_BPS, rates * np.exp(rng.normal(0, 0.06, len(rates))))
        for configuration, rates in windows(rng).items()
    }


FAMILIES: dict[str, Family] = {
    family.__name__: family for family in (windows, sigmoids, losses, concave_then_convex, fixed_sizes, bumps)
}


def sweep(family: Family, rng: np.random.Generator, repeats: int) -> Runs:
    """Runs of a whole sweep of a family."""
    return sweep_of(family(rng), rng, repeats)


def sweep_of(rates: Rates, rng: np.random.Generator, repeats: int) -> Runs:
    """Runs of each configuration at each RTT, ``repeats`` times."""
    configurations = list(rates)
    true_bps = np.stack(list(rates.values()))[:, :, None]
    shape = (*true_bps.shape[:2], repeats)
    spreads = rng.uniform(0.03, 0.08, (len(configurations), 1, 1))
    measured = true_bps * np.exp(spreads * rng.normal(size=shape))
    bad = rng.random(shape) < _BAD_SHARE
    measured = np.minimum(np.where(bad, rng.uniform(0.3, 0.9, shape), 1) * measured, GOODPUT_BPS)
    which, rtt_index, repeat = np.indices(shape).reshape(3, -1)
    controls, streams, sizes = (np.array(column)[which] for column in zip(*configurations, strict=True))
    n = measured.size
    rate_bps = measured.ravel()
    return Runs.of(
        id=np.array([f"synthetic-{index:06}" for index in range(n)]),
        path=np.full(n, "synthetic"),
        congestion_control=controls,
        program=np.zeros(n, np.bool_),
        streams=streams,
        buffer_bytes=sizes,
        rtt_s=RTT_S[rtt_index],
        capacity_bps=np.full(n, CAPACITY_BPS),
        loss=np.zeros(n),
        rate_bps=rate_bps,
        elapsed_s=np.full(n, DURATION_S),
        bytes=(rate_bps * DURATION_S / 8).astype(np.int64),
        retransmissions=np.zeros(n, np.int64),
        late=np.zeros(n, np.bool_),
        encrypted=np.zeros(n, np.bool_),
        memory=np.ones(n, np.bool_),
        sweep=np.full(n, "synthetic"),
        repeat=repeat,
    )
