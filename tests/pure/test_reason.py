"""Why streams are steered: members for programs, words for people."""

import pytest

from howdah.values.reason import PASSING, Reason


def test_a_reason_is_found_by_its_words_on_the_wire() -> None:
    assert all(Reason.of(reason.because().words) is reason for reason in PASSING)
    assert Reason.of(Reason.ROUTE_CHANGED.value) is Reason.ROUTE_CHANGED
    assert Reason.of("a whim") is None


def test_words_name_numbers() -> None:
    why = Reason.RECOGNISED.because(label="1 bbr", probability=0.936)
    assert why == (Reason.RECOGNISED, "recognised 1 bbr (0.94)")
    with pytest.raises(KeyError, match="part"):
        Reason.LESS_THAN_SHARE.because()
