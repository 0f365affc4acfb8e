"""The reasons for which the streams of a transfer are steered.

Programs compare members. The wire carries a member's sentence as ``why``, with its numbers filled in. Records
have the sentence, which people read, and beside it the member's name as ``reason``. Steering makes the
sentence and may not import ``words``, so the sentences stay here.
"""

import functools
import re
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Reason(StrEnum):
    """A member's value is its words, with a field in braces for each number that they name."""

    SCHEDULE = "the plan's schedule"
    OTHERS_PRESENT = "competing traffic before the first byte"
    TO_RECOGNISE = "to recognise competing traffic"
    ROOM = "there is room for more"
    RECOGNISED = "recognised {label} ({probability:.2f})"
    UNYIELDING = "competing traffic does not yield"
    EXCLUSIVE = "nobody else fills the path"
    CAPACITY_KNOWN = "what the path carries is known"
    ROUTE_CHANGED = "the route has changed"
    RESTING = "nothing is measured for a while"
    PROBING_CAPACITY = "to measure what the path carries"
    PROBING_EXCLUSIVITY = "to find out whether others fill the path"
    REST = "as much as others leave"
    SLOW_START_OVER = "its slow start is over"
    NOT_RECOGNISED = "competing traffic cannot be recognised any more"
    LESS_THAN_SHARE = "it gave {part:.0%} of an equal share"
    LESS_THAN_BEFORE = "it gave {part:.0%} of what there was before"
    NO_GROWTH = "it gave {part:.0%} of what there was before, and was to give more"
    RESENT = "{resent:.1%} had to be sent again, for {part:.0%} of what there was before"
    REFUSED = "{times} changes in a row were refused, the last one for: {problem}"
    FAILED = "{problem}"

    def because(self, **fields: object) -> "Why":
        """This reason with its words; raises KeyError where a field of them is missing."""
        return Why(self, self.value.format(**fields))

    @property
    def key(self) -> str:
        """The name by which records have it, as ``others-present``."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, words: str) -> "Reason | None":
        """The member whose words these are, with whatever numbers; None for others, and for an error's."""
        return next((each for each, pattern in _patterns().items() if pattern.fullmatch(words)), None)


@functools.cache
def _patterns() -> "dict[Reason, re.Pattern[str]]":
    parts = {each: re.split(r"\{[^}]*\}", each.value) for each in Reason if each is not Reason.FAILED}
    return {each: re.compile(".+".join(map(re.escape, texts))) for each, texts in parts.items()}


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What a record has of something that was done for a reason."""

    why: str
    """The reason in words."""
    reason: str | None = None
    """Its name; null: it is none of howdah's own."""

    def __post_init__(self) -> None:
        found = Reason.of(self.why)
        msgspec.structs.force_setattr(self, "reason", found and found.key)


class Why(NamedTuple):
    """A reason and its words."""

    reason: Reason
    words: str


PASSING = frozenset({Reason.PROBING_CAPACITY, Reason.PROBING_EXCLUSIVITY, Reason.REST})
"""Bounds move for these again and again, and no choice is changed."""
