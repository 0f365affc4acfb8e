"""bench trust: what is drawn by seed, what is counted on the wire, and the rows of its table."""

import socket
from pathlib import Path
from typing import Any

import pytest

from bench.report import Row
from bench.trust import besieged, encrypted, resent
from bench.trust.cases import KILLED, SPARED_BYTES, in_memory, kill, payload_bytes
from bench.trust.judge import came_hz, ratios, rows
from bench.trust.strangers import AT_ONCE, due, listening
from howdah.values.link import DirectionStats, Dropped

GIB = 2**30


def killed(seed: int, again_bytes: int = 0, **other: Any) -> dict[str, Any]:  # noqa: ANN401, any field of a run
    return {
        "part": resent.PART,
        "path": resent.PATHS[0].name,
        "case": seed,
        "size_bytes": 10 * GIB,
        "again_bytes": again_bytes,
        "sessions": [{"struck_at": 0.5, "exit_code": -9}, {"struck_at": None, "exit_code": 0}],
        "same": True,
        "left": [],
        "where": "source on the disk, target in memory",
    } | other


def copied(pair: int, wall_s: float, *, beside: bool, **other: Any) -> dict[str, Any]:  # noqa: ANN401
    crowd = {"connected": 500 * wall_s, "lasted_s": wall_s}
    return {
        "part": besieged.PART,
        "path": besieged.JUDGED.name,
        "tool": "howdah cp, new login",
        "pair": pair,
        "besieged": beside,
        "wall_s": wall_s,
        "error": None,
        "strangers": [crowd, crowd] if beside else [],
    } | other


def moved(tool: str, gbps: float | None, **other: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "part": encrypted.PART,
        "path": encrypted.PATH.name,
        "tool": tool,
        "streams": None,
        "goodput_bps": None if gbps is None else gbps * 1e9,
        "error": None if gbps is not None else "exit code 1: no",
        "facts": {},
    } | other


def by_name(runs: list[dict[str, Any]]) -> dict[str, Row]:
    return {row.what.partition(": ")[2]: row for row in reversed(rows(runs))}


def test_kills_are_drawn_by_seed() -> None:
    drawn = [kill(seed) for seed in range(60)]
    assert drawn == [kill(seed) for seed in range(60)]
    assert {(each.push, each.killed) for each in drawn[:6]} == {
        (push, who) for push in (True, False) for who in KILLED
    }
    points = [each.at for each in drawn]
    assert all(0 < point < 1 for point in points)
    assert min(points) < 0.2
    assert max(points) > 0.8


def test_headers_are_no_payload_and_drops_did_not_cross() -> None:
    dropped = Dropped(queue=7, loss=0, burst=0, outage=0, machine=0)
    way = DirectionStats(
        segments=1_000,
        wire_bytes=1_538_000,
        ip_bytes=1_500_000,
        dropped=dropped,
        queue_bytes_max=0,
        queue_bytes_mean=None,
        queue_delay_max_ns=0,
        queue_delay_mean_ns=None,
    )
    assert payload_bytes(way) == 1_448_000


@pytest.mark.parametrize(
    ("available_gib", "fits"),
    [(24, (True, True)), (22, (False, True)), (13, (False, True)), (12, (False, False))],
)
def test_what_does_not_fit_into_memory_is_on_the_disk(available_gib: int, fits: tuple[bool, bool]) -> None:
    assert SPARED_BYTES == 3 * GIB
    assert in_memory(available_gib * GIB, 10 * GIB) == fits


def test_what_a_kill_sends_again() -> None:
    runs = [killed(seed, again) for seed, again in enumerate((GIB // 100, GIB // 5, GIB // 20))]
    # What lies between the copies of a record is no kill.
    runs.append(killed(0, case="whole push"))
    table = by_name(runs)
    worst, middle = table["sent again, worst"], table["sent again, median"]
    assert (worst.value, worst.met) == (pytest.approx(2.0), False)
    assert (middle.value, middle.met) == (pytest.approx(0.5), True)
    assert table["kills while the copy ran"].value == 3


def test_a_kill_that_came_too_late_does_not_count() -> None:
    over = [{"struck_at": None, "exit_code": 0}]
    table = by_name([killed(0, GIB, sessions=over)])
    assert table["kills while the copy ran"].value == 0
    assert table["sent again, worst"].value is None
    assert table["sent again, worst"].met is False


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("not finished by the same command, or not identical", {"same": False}),
        (
            "not finished by the same command, or not identical",
            {"sessions": [{"struck_at": 0.5, "exit_code": 1}]},
        ),
        ("with something left beside the file", {"left": [".file.howdah-part"]}),
    ],
)
def test_a_copy_that_is_not_whole_is_told(what: str, other: dict[str, Any]) -> None:
    assert by_name([killed(0)])[what].met is True
    assert by_name([killed(0, **other)])[what].met is False


def test_pairs_are_compared_within_themselves() -> None:
    runs = [copied(0, 10.0, beside=False), copied(0, 12.5, beside=True)]
    runs += [copied(1, 20.0, beside=True), copied(1, 20.0, beside=False)]
    assert ratios(runs) == [0.8, 1.0]
    row = by_name(runs)["rate beside strangers / without, median of the pairs"]
    assert (row.value, row.met) == (pytest.approx(0.9), False)
    assert by_name(runs)["connected strangers, least of the copies"].value == 1_000


def test_a_pair_with_a_failure_or_without_its_other_copy_has_no_ratio() -> None:
    lone = [copied(0, 10.0, beside=True)]
    assert ratios(lone) == [None]
    runs = [*lone, copied(0, 10.0, beside=False, error="exit code 1: no")]
    assert ratios(runs) == [None]
    assert by_name(runs)["copies that failed or differ"].met is False
    assert by_name(runs)["rate beside strangers / without, median of the pairs"].met is False


def test_a_crowd_that_did_not_come_has_no_rate() -> None:
    nobody = {"connected": 0, "lasted_s": 0.0}
    assert came_hz(copied(0, 1.0, beside=True, strangers=[nobody, nobody])) == 0


def test_the_faster_iperf3_is_the_one_to_reach() -> None:
    runs = [moved(encrypted.OURS.name, rate) for rate in (9.0, 12.0, 15.0)]
    runs += [
        moved(encrypted.OTHER.name, 3.0),
        moved("iperf3", 20.0, streams=1),
        moved("iperf3", 16.0, streams=4),
    ]
    table = [row for row in rows(runs) if " / " in row.what and row.target]
    assert [(row.value, row.met) for row in table] == [(0.6, True), (4.0, True)]
    runs.append(moved(encrypted.OTHER.name, None))
    assert [row.met for row in rows(runs) if row.what.endswith(encrypted.OTHER.name) and row.target] == [
        False
    ]


def test_ports_that_are_listened_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
        found = listening(Path("/proc/net/tcp").read_text(encoding="ascii"))
        assert server.getsockname()[1] in found
        assert client.getsockname()[1] not in found


def test_strangers_come_at_their_rate_and_catch_up_in_steps() -> None:
    assert due(1.0, 500.0, 490) == 10
    assert due(1.0, 500.0, 500) == 0
    assert due(1.0, 500.0, 510) == 0
    assert due(60.0, 500.0, 0) == AT_ONCE
