"""The numbers of steering: each has a unit, a range that is held, and a source that is there."""

from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from howdah.steering.tunables import TUNED, Tunables

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = get_type_hints(Tunables, include_extras=True)


@pytest.mark.parametrize("name", Tunables.__struct_fields__)
def test_each_number_has_a_unit_a_range_and_a_source(name: str) -> None:
    _, meta = get_args(NUMBERS[name])
    assert meta.ge < meta.le
    assert meta.ge <= getattr(TUNED, name) <= meta.le
    assert meta.extra["unit"]
    source = meta.extra["source"]
    assert source.startswith("RFC ") or (ROOT / source.split(":")[0]).is_file()


def test_a_number_outside_of_its_range_is_refused() -> None:
    assert msgspec.convert(msgspec.to_builtins(TUNED), Tunables) == TUNED
    with pytest.raises(msgspec.ValidationError, match=r"<= 1.*gain"):
        msgspec.convert({"gain": 2}, Tunables)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"gains": 0.1}, Tunables)


def test_no_number_can_be_changed() -> None:
    with pytest.raises(AttributeError):
        TUNED.gain = 0.5  # type: ignore[misc]
