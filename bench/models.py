"""The loss model beside public measurements of CUBIC on a 10 Gb/s test bed with random loss.

Source of the figures: data behind B. Tierney, E. Dart, E. Kissel, E. Adhikarla, "Exploring the BBRv2
Congestion Control Algorithm for use on Data Transfer Nodes", INDIS 2021: mean goodput at MTU 9000, of one
stream and of 16, below 30 ms (RTTs 4, 10, 20 ms) and above (50 ms).

What is held against them is the model in the long run. How the runs began is not in the figures; the
model of 60 s from the first byte, and the closed form of RFC 9438, stand beside it as differences alone.

make bench-models
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from bench.report import Row, Target, publish
from howdah.profiles.theory import ModelPrediction, PathParameters, flow, predict, predict_steady
from howdah.profiles.theory.prediction import Segment

RATE_BPS = 10e9
MTU_BYTES = 9000
BUFFER_BYTES = 1 << 30
RTTS_S = {"below 30 ms": np.array([0.004, 0.010, 0.020]), "50 ms": np.array([0.050])}
ALLOWED = {"below 30 ms": 0.15, "50 ms": 0.30}
RUN_S = 60.0


class Cell(NamedTuple):
    """One measured mean."""

    streams: int
    rtts: str
    loss: float
    measured_gbps: float


CELLS = [
    Cell(streams, rtts, lost, gbps)
    for streams, rtts, figures in [
        (1, "below 30 ms", (9.880, 3.334, 1.050, 0.331)),
        (1, "50 ms", (9.844, 1.299, 0.245, 0.047)),
        (16, "below 30 ms", (9.883, 9.882, 9.040, 5.188)),
        (16, "50 ms", (9.835, 9.779, 3.953, 0.744)),
    ]
    for lost, gbps in zip((0.0, 1e-5, 1e-4, 1e-3), figures, strict=True)
]


def mean_gbps(prediction: ModelPrediction) -> float:
    """Over the RTTs of a cell."""
    return float(prediction.rate_mid_bps.mean()) / 1e9


def formula_gbps(cell: Cell) -> float:
    """RFC 9438 §5.1, which knows no capacity."""
    rtt_s = RTTS_S[cell.rtts]
    return float(np.mean(flow.cubic(cell.loss, rtt_s) / rtt_s)) * Segment(MTU_BYTES).payload_bits / 1e9


def compare(cell: Cell) -> tuple[Row, dict[str, Any]]:
    """The row of one cell, and what it rests on."""
    path = PathParameters(RATE_BPS, RTTS_S[cell.rtts], cell.loss, mtu_bytes=MTU_BYTES)
    used = ("cubic", cell.streams, BUFFER_BYTES)
    steady = mean_gbps(predict_steady(path, *used))
    begun = mean_gbps(predict(path, *used, duration_s=RUN_S))
    allowed, measured = ALLOWED[cell.rtts], cell.measured_gbps
    within = Target.within(
        (1 - allowed) * measured, (1 + allowed) * measured, f"{measured:g} ± {100 * allowed:.0f} %"
    )
    formula = formula_gbps(cell) if cell.loss and cell.streams == 1 else None
    beside = {"": steady, f"{RUN_S:.0f} s ": begun, "RFC 9438 ": formula}
    note = ", ".join(f"{name}{rate / measured - 1:+.0%}" for name, rate in beside.items() if rate is not None)
    what = f"{cell.streams} × cubic, {cell.rtts}, {100 * cell.loss:g} % lost"
    # The target is for one stream; sixteen show what is made of it.
    row = Row(what, steady, "Gb/s", within if cell.streams == 1 else None, note)
    run = {"steady_gbps": steady, "from_first_byte_gbps": begun, "rfc9438_gbps": formula}
    return row, cell._asdict() | run


def main() -> int:
    """Every cell; exit code 1 when a target is missed."""
    rows, runs = zip(*map(compare, CELLS), strict=True)
    return 0 if publish("models", rows, runs) else 1


if __name__ == "__main__":
    sys.exit(main())
