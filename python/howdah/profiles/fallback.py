"""What the models say of the configurations a pair of hosts could use on a path with no profile."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from howdah._native import format_rate
from howdah.archive.runs import Configuration, Runs
from howdah.profiles import models
from howdah.profiles.cells import Array
from howdah.profiles.select import Fallback
from howdah.values import sizes
from howdah.values.path import Path

CONTROLS = ("cubic", "htcp", "scalable")
"""Reno and HighSpeed were convex everywhere in the papers, and never the choice."""

STREAMS = (1, 4, 8, 16)

DURATION_S = 10.0
"""Of the run that is predicted: long beside slow start on all but the longest paths."""


def fallback(path: Path, rtt_s: float, measured: Runs, capacity_bps: float | None = None) -> Fallback:
    """The models for these two hosts, at a capacity that is given, or measured, or else assumed.

    Assumed is what windows are made for, or the fastest run ``measured`` on the path if that is more.
    """
    loss = float(np.nanmax(measured.loss, initial=0.0))
    known_bps = capacity_bps or float(np.nanmax(measured.capacity_bps, initial=0.0))
    rate_bps = known_bps or max(sizes.TARGET_RATE_BPS, float(np.max(measured.rate_bps, initial=0.0)))
    window = sizes.windows(path)
    parameters = models.PathParameters(
        capacity_bps=rate_bps, rtt_s=rtt_s, loss=loss, autotuned_window_bytes=window.autotuned_bytes
    )

    def model(places: Sequence[tuple[Configuration, float]]) -> Array:
        rates = np.zeros((len(places), 3))
        for configuration in {configuration for configuration, _ in places}:
            mine = [index for index, (each, _) in enumerate(places) if each == configuration]
            at = parameters._replace(rtt_s=np.array([places[index][1] for index in mine]))
            used = models.Configuration.of(*configuration)
            rates[mine] = np.stack(models.predict(at, used, duration_s=DURATION_S), axis=1)
        return rates

    needed = sizes.HEADROOM * rate_bps / 8 * rtt_s
    configurations = [
        Configuration(control, streams, size)
        for control, streams in product(CONTROLS, STREAMS)
        for size in _buffers(needed / streams, window)
    ]
    words = f"capacity {format_rate(rate_bps)}{'' if known_bps else ' assumed'}, runs of {DURATION_S:g} s"
    return Fallback(model, configurations, rate_bps, words)


def _buffers(needed_bytes: float, window: sizes.Windows) -> tuple[float | None, ...]:
    """Autotuned, and what the path needs where autotuning does not reach it."""
    if needed_bytes <= window.autotuned_bytes or window.explicit_bytes <= window.autotuned_bytes:
        return (None,)
    return (None, float(min(window.explicit_bytes, int(np.ceil(needed_bytes)))))
