"""What benches say of a figure: met or not, also where NumPy made the figure."""

import json

import numpy as np
import pytest

from bench.report import Row, Target


@pytest.mark.parametrize(("value", "met"), [(np.float64(1.5), True), (np.float32(0.5), False), (None, False)])
def test_a_figure_of_numpy_can_be_kept(value: float | None, met: bool) -> None:
    row = Row("x", value, "s", Target.within(1.0, 2.0))
    assert json.loads(json.dumps(row.met)) is met


def test_without_a_target_nothing_is_met_or_missed() -> None:
    assert Row("x", 1.0, "s").met is None
