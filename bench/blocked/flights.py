"""What a tap has seen, as flights: segments that one end sent together, and then waited for an answer."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

PROGRAM_BYTES = 8192
"""Before the program that is brought no flight has so much: the longest is the command, of 2 KB."""

_MOST = 0.9
"""A silence of so much of a round trip waits for one."""


class Segment(NamedTuple):
    """A TCP segment of ssh that passed the near host."""

    at_s: float
    sent: bool
    """By the near host."""
    bytes: int


class Flight(NamedTuple):
    """Segments of one end that passed the near host together."""

    sent: bool
    began_s: float
    ended_s: float
    bytes: int


def flights(segments: Sequence[Segment], rtt_s: float) -> list[Flight]:
    """The flights of both ends: one ends where the other end sends, or after half a round trip of silence."""
    found: list[Flight] = []
    for at_s, sent, size in segments:
        if found and found[-1].sent == sent and at_s - found[-1].ended_s <= rtt_s / 2:
            last = found.pop()
            found.append(Flight(sent, last.began_s, at_s, last.bytes + size))
        else:
            found.append(Flight(sent, at_s, at_s, size))
    return found


def waits(all_flights: Sequence[Flight], rtt_s: float, until_s: float) -> int:
    """The round trips that were waited for, of a conversation in small messages, before ``until_s``.

    Each silence of a round trip is one, however much longer it is because an end computes. What the near host
    needs to answer is none.
    """
    heard = [flight for flight in all_flights if flight.began_s <= until_s]
    pairs = itertools.pairwise(heard)
    return sum(
        after.began_s - before.ended_s >= _MOST * rtt_s
        for before, after in pairs
        if before.sent or not after.sent
    )


def of_program(all_flights: Sequence[Flight], whole_s: float | None) -> list[Flight]:
    """Those that carry the program, which is there at ``whole_s``; empty where it never was (None).

    Nothing else follows it before it is there.
    """
    until = (flight for flight in all_flights if whole_s is not None and flight.ended_s < whole_s)
    sent = (flight for flight in until if flight.sent)
    return list(itertools.dropwhile(lambda flight: flight.bytes < PROGRAM_BYTES, sent))
