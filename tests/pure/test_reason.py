"""Why streams are steered: members for programs, words for people."""

from pathlib import Path

import msgspec
import pytest

from howdah.decoding import from_plain
from howdah.values.outcome import Change
from howdah.values.reason import PASSING, Reason

PAGE = Path(__file__).parents[2] / "docs" / "record.md"


def test_a_reason_is_found_by_its_words_on_the_wire() -> None:
    assert all(Reason.of(reason.because().words) is reason for reason in PASSING)
    assert Reason.of(Reason.ROUTE_CHANGED.value) is Reason.ROUTE_CHANGED
    assert Reason.of("a whim") is None


FIELDS = {"label": "1 bbr", "probability": 0.9, "part": 0.4, "resent": 0.12, "times": 5, "problem": "no room"}


@pytest.mark.parametrize("reason", Reason)
def test_a_record_has_the_name_of_each_reason_whatever_its_numbers(reason: Reason) -> None:
    change = Change(t_s=1.0, streams=2, why=reason.because(**FIELDS).words)
    named = change.reason
    assert named == (None if reason is Reason.FAILED else reason.key)
    assert named is None or f"| `{named}` | " in PAGE.read_text()
    kept = from_plain({**msgspec.to_builtins(change), "reason": "another"}, Change)
    assert kept == change, "the words decide"


def test_words_of_others_have_no_name() -> None:
    assert Change(t_s=1.0, streams=2, why="a whim").reason is None


def test_words_name_numbers() -> None:
    why = Reason.RECOGNISED.because(label="1 bbr", probability=0.936)
    assert why == (Reason.RECOGNISED, "recognised 1 bbr (0.94)")
    with pytest.raises(KeyError, match="part"):
        Reason.LESS_THAN_SHARE.because()
