"""The reasons for which the streams of a transfer are steered.

Programs compare members. The sentence of a member is stored: the wire and the record carry it as ``why``,
with its numbers filled in. Readers of ``--json`` show and match that text, so a member's name in its place
would break them. Steering makes the text and may not import ``words``, so the sentences stay here.
"""

from enum import StrEnum
from typing import NamedTuple


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

    @classmethod
    def of(cls, words: str) -> "Reason | None":
        """The member with exactly these words; None for those that name numbers, and for other words."""
        return next((each for each in cls if each.value == words), None)


class Why(NamedTuple):
    """A reason and its words."""

    reason: Reason
    words: str


PASSING = frozenset({Reason.PROBING_CAPACITY, Reason.PROBING_EXCLUSIVITY, Reason.REST})
"""Bounds move for these again and again, and no choice is changed."""
