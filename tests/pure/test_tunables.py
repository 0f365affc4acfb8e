"""The numbers of steering: each has a unit, a range that is held, and a source that is there."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from howdah.steering.tunables import TUNED, Tunables

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = fields(Tunables)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_each_number_has_a_unit_a_range_and_a_source(number: object) -> None:
    metadata = number.metadata  # type: ignore[attr-defined]
    least, most = metadata["range"]
    assert least < most
    assert metadata["unit"]
    source = metadata["source"]
    assert source.startswith("RFC ") or (ROOT / source.split(":")[0]).is_file()


def test_a_number_outside_of_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gain 2 is not from 0 to 1 \(value\)"):
        replace(TUNED, gain=2)


def test_no_number_can_be_changed() -> None:
    with pytest.raises(AttributeError):
        TUNED.gain = 0.5  # type: ignore[misc]
