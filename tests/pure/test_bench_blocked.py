"""bench blocked: what a tap hears, which flights carry the program, and the rows of its table."""

import struct
from typing import Any

import pytest

from bench.blocked import first, rates, states, tap
from bench.blocked.first import phases
from bench.blocked.flights import Flight, Segment, flights, of_program, waits
from bench.blocked.judge import rows, slopes
from bench.report import Row

GIB = 1 << 30
PATH = "10 Gb/s x 100 ms"


def packet(size: int, *, to: int = 22, flags: int = 0x18) -> bytes:
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + size, 0, 0, 64, 6, 0, bytes(4), bytes(4))
    return ip + struct.pack("!HHIIBBHHH", 40_000, to, 0, 0, 0x50, flags, 0, 0, 0) + bytes(size)


def ours(state: states.State, gbps: float, number: int = 0, **other: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "part": rates.PART,
        "path": PATH,
        "round": number,
        "state": state.name,
        "direction": "push",
        "tool": rates.HOWDAH,
        "bytes": GIB,
        "wall_s": GIB * 8e-9 / gbps,
        "moving_bps": gbps * 1.5e9,
        "setup_s": 0.2,
        "error": None,
    } | other


def scp(state: states.State, gbps: float, login_s: float, number: int = 0) -> list[dict[str, Any]]:
    return [
        ours(
            state, 1, number, tool=rates.SCP, bytes=size, wall_s=login_s + size * 8e-9 / gbps, moving_bps=None
        )
        for size in rates.SCP_BYTES
    ]


def brought(rtt_ms: int, number: int, **other: Any) -> dict[str, Any]:  # noqa: ANN401
    """Twelve round trips until the first byte leaves, seven of slow start, half of one to arrive."""
    rtt_s = rtt_ms / 1e3
    turns_s = [(turn % 2 == 0, 0.2 + (turn + 1) // 2 * rtt_s) for turn in range(25)]
    return {
        "part": first.PART,
        "rtt_ms": rtt_ms,
        "round": number,
        "which": first.FIRST,
        "error": None,
        "sent_bytes": 2_737_717,
        "packed_bytes": 2_728_433,
        "kept": False,
        "asked_s": 0.2 + 11.5 * rtt_s,
        "first_s": 0.2 + 12 * rtt_s,
        "last_s": 0.2 + 19 * rtt_s,
        "whole_s": 0.3 + 19.5 * rtt_s,
        "flights": [[sent, at_s, at_s, 41] for sent, at_s in turns_s],
    } | other


def again(rtt_ms: int, sent_bytes: int = 6165, *, kept: bool = True) -> dict[str, Any]:
    nothing = dict.fromkeys(("asked_s", "first_s", "last_s", "whole_s"))
    return brought(rtt_ms, 0, which=first.SECOND, sent_bytes=sent_bytes, kept=kept, **nothing)


def by_name(runs: list[dict[str, Any]]) -> dict[str, Row]:
    return {row.what: row for row in rows(runs)}


@pytest.mark.parametrize(
    ("heard", "size"),
    [
        (packet(1448), 1448),
        (packet(0, flags=2), 0),
        (packet(0, flags=16), None),
        (packet(100, to=50_000), None),
        (packet(100)[:30], None),
        (b"\x60" + packet(100)[1:], None),
        (b"", None),
    ],
)
def test_the_tap_tells_payload_of_ssh_from_all_else(heard: bytes, size: int | None) -> None:
    assert tap.segment(heard) == size


def test_a_flight_ends_with_an_answer_or_after_half_a_round_trip() -> None:
    heard = [
        Segment(0.0, True, 0),
        Segment(0.1, False, 0),
        Segment(0.1, True, 41),
        Segment(0.11, True, 59),
        Segment(0.21, True, 1500),
    ]
    assert flights(heard, 0.1) == [
        Flight(True, 0.0, 0.0, 0),
        Flight(False, 0.1, 0.1, 0),
        Flight(True, 0.1, 0.11, 100),
        Flight(True, 0.21, 0.21, 1500),
    ]


def test_a_silence_of_a_round_trip_is_one_wait_and_what_the_near_end_computes_is_none() -> None:
    heard = [
        Flight(True, 0.0, 0.0, 0),
        Flight(False, 0.1, 0.1, 0),
        # The far end computes, and then the near one does.
        Flight(True, 0.1, 0.1, 41),
        Flight(False, 0.35, 0.35, 41),
        Flight(True, 0.6, 0.6, 16),
        # What follows waits in each kernel until the other has confirmed (Nagle).
        Flight(True, 0.74, 0.74, 44),
        Flight(False, 0.84, 0.84, 428),
        Flight(False, 0.98, 0.98, 44),
        Flight(True, 0.98, 0.99, 2176),
        Flight(False, 1.02, 1.02, 84),
        Flight(True, 1.02, 1.03, 11_600),
        Flight(True, 1.13, 1.13, 28_960),
    ]
    assert waits(heard, 0.1, 1.02) == 5
    assert waits(heard, 0.1, 0.99) == 5
    assert waits(heard, 0.1, 0.2) == 1


def test_the_program_is_in_the_flights_from_the_first_large_one_until_it_is_there() -> None:
    command = Flight(True, 1.0, 1.0, 2176)
    answer = Flight(False, 1.1, 1.1, 84)
    carrying = [Flight(True, 1.1, 1.11, 11_600), Flight(True, 1.2, 1.21, 28_960), Flight(True, 1.3, 1.3, 900)]
    hello = Flight(True, 1.6, 1.6, 296)
    heard = [command, answer, carrying[0], Flight(False, 1.25, 1.25, 36), *carrying[1:], hello]
    assert of_program(heard, 1.5) == carrying
    assert of_program(heard, None) == []
    assert of_program([command, answer, hello], 2.0) == []
    told = phases(heard, 1.5, 40_000)
    assert (told["first_s"], told["last_s"]) == (1.1, 1.3)
    # What has left is less than the program: it did not leave where it seems to have.
    assert phases(heard, 1.5, 50_000)["first_s"] is None


def test_round_trips_are_what_a_longer_one_adds() -> None:
    runs = [brought(100, 0), brought(200, 0), brought(200, 1), brought(100, 2), brought(200, 2, whole_s=None)]
    assert slopes(runs, lambda run: run["whole_s"]) == [pytest.approx(19.5)]


def test_the_round_trips_of_slow_start_are_told_apart() -> None:
    found = by_name([brought(100, 0), brought(200, 0), again(100), again(200)])
    trips = {what.removeprefix("first copy, round trips by time "): row for what, row in found.items()}
    assert trips["until the far end is there"].value == pytest.approx(19.5)
    assert trips["while its bytes leave: slow start"].value == pytest.approx(7)
    judged = trips["until the far end is there, but for slow start"]
    counted = found["first copy, round trips counted until the far end is there, but for slow start"]
    assert (judged.value, counted.value) == (pytest.approx(12.5), 12.5)
    assert not judged.met
    assert not counted.met
    assert found["second copy: all that ssh sent, of the size of what was brought"].met
    assert found["second copy: the far end there is another file"].met


def test_a_second_copy_that_brings_it_again_is_seen() -> None:
    found = by_name([brought(100, 0), brought(200, 0), again(100), again(200, 2_737_717, kept=False)])
    assert not found["second copy: all that ssh sent, of the size of what was brought"].met
    assert not found["second copy: the far end there is another file"].met


def test_first_copies_that_all_fail_meet_nothing() -> None:
    failed = [brought(rtt, 0, error="no") for rtt in first.RTTS_MS]
    assert not any(row.met for row in rows(failed))


def test_what_goes_through_ssh_is_held_against_scp_by_the_same_way() -> None:
    runs = [ours(state, 4.0) for state in states.STATES if state.way != states.THROUGH_SSH]
    runs += [ours(states.BOTH_CLOSED, 0.8), ours(states.ONLY_JUMP, 0.4)]
    runs += [*scp(states.OPEN, 0.16, 1.0), *scp(states.ONLY_JUMP, 0.1, 2.0)]
    found = by_name(runs)
    where = f"{PATH}, push"
    both, jump = (f"{where}, {state.name}, of scp" for state in (states.BOTH_CLOSED, states.ONLY_JUMP))
    assert found[f"{both}: while data moved"].value == pytest.approx(1.2 / 0.16)
    assert found[f"{jump}: while data moved"].value == pytest.approx(0.6 / 0.1)
    # scp's login counts, and so does what it would take for as many bytes.
    whole_s = 1.0 + GIB * 8e-9 / 0.16
    assert found[f"{where}, scp, open"].value == pytest.approx(GIB * 8e-9 / whole_s)
    assert found[f"{both}: whole command"].value == pytest.approx(0.8 * whole_s / (GIB * 8e-9))
    assert found[f"{both}: whole command"].met
    assert found["copies that failed, differed or took another way"].met
    assert "2.4" not in found[f"{where}, open"].note
    assert "6 while data moved" in found[f"{where}, open"].note


def test_a_copy_that_failed_or_took_another_way_has_no_rate_and_is_counted() -> None:
    wrong = ours(states.BOTH_CLOSED, 9.0, error="the data went straight, not through ssh")
    found = by_name([wrong, *scp(states.OPEN, 0.16, 1.0)])
    assert found[f"{PATH}, push, {states.BOTH_CLOSED.name}"].value is None
    assert not found[f"{PATH}, push, {states.BOTH_CLOSED.name}, of scp: whole command"].met
    counted = found["copies that failed, differed or took another way"]
    assert (counted.value, counted.met) == (1, False)
    assert counted.note.endswith("the data went straight, not through ssh")


def test_a_round_copies_in_every_state_both_ways_and_scp_by_both() -> None:
    made = [(turn.tool, turn.state.name, turn.direction, turn.bytes) for turn in rates.turns(GIB)]
    ways = [state.name for state in states.STATES]
    expected = [(rates.HOWDAH, name, way, GIB) for name in ways for way in rates.DIRECTIONS]
    for size in rates.SCP_BYTES:
        beside = (states.OPEN.name, states.ONLY_JUMP.name)
        expected += [(rates.SCP, name, way, size) for name in beside for way in rates.DIRECTIONS]
    assert sorted(made) == sorted(expected)
