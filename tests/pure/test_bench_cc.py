"""What bench cc says follows from the runs, and its model of the tail from chance alone."""

import random
import statistics
from typing import Any

import pytest

from bench.cc import crowd, judge, rate, tail
from bench.cc.table import Cell, link, paper

SIZE_BYTES, RATE_BPS = 20_000_000, 100_000_000
HONEST = {"lateness": {"spoilt": False, "why": None}}


def whole_s(draw: random.Random, rtt_s: float, loss: float, at_once: int) -> float:
    """One transfer, group of segments by group, each repeated until it is not lost."""
    groups = SIZE_BYTES // tail.PAYLOAD_BYTES // at_once
    span_s = tail.floor_s(SIZE_BYTES, RATE_BPS, loss)
    last_s = 0.0
    for group in range(groups):
        arrives_s = span_s * group / groups + rtt_s
        while draw.random() < loss:
            arrives_s += rtt_s
        last_s = max(last_s, arrives_s)
    return last_s


@pytest.mark.parametrize(("loss", "at_once"), [(0.0, 1), (0.001, 1), (0.02, 1), (0.002, 10)])
def test_the_tail_is_what_drawing_every_loss_comes_to(loss: float, at_once: int) -> None:
    draw = random.Random(7)  # noqa: S311
    rtt_s = 0.4
    drawn = statistics.median(whole_s(draw, rtt_s, loss, at_once) for _ in range(201))
    assert tail.median_s(SIZE_BYTES, RATE_BPS, rtt_s, loss, at_once) == pytest.approx(drawn, abs=0.025)


def test_the_papers_losses_came_ten_at_a_time() -> None:
    def off(at_once: int) -> float:
        cells = {where: said for where, said in paper().items() if 0 < where.loss < 0.01}
        return max(
            abs(tail.median_s(268_800_000, 10**9, where.rtt_ms / 1000, where.loss, at_once) / said - 1)
            for where, said in cells.items()
        )

    assert off(10) < 0.02
    assert off(1) > 0.2


def test_both_ways_of_losing_lose_the_same_share() -> None:
    there = link(Cell(180, 0.001), "ten").near_to_far
    assert there.burst is not None
    assert there.burst.enter / (there.burst.enter + there.burst.leave) == pytest.approx(0.001)
    assert 1 / there.burst.leave == 10
    assert link(Cell(180, 0.001), "one").near_to_far.loss == 0.001


def test_a_reader_who_waits_for_repairs_is_read_where_nothing_is_missing() -> None:
    # 1,000 B/ns; whatever was sent in the first half of each 100 ns waits for its end.
    samples = [(t, 1000 * (t - t % 100 if t % 100 < 50 else t)) for t in range(37, 10_000)]
    assert rate.furthest_ahead_Bps(samples, 200e-9) == pytest.approx(1e12, rel=1e-3)


def test_a_rate_is_in_force_from_when_arrivals_keep_to_its_line() -> None:
    ms = 1_000_000
    bytes_by_ms = [200 * t if t < 90 else 200 * 90 + 100 * (t - 90) for t in range(2000)]
    bytes_by_ms[300:350] = [bytes_by_ms[300]] * 50
    samples = [(5 * ms + t * ms, n) for t, n in enumerate(bytes_by_ms)]
    wire_bps = 100_000 * 8 * 1538 / 1448
    found = rate.in_force(samples, 5 * ms, 2005 * ms, wire_bps)
    # 4 ms of the new rate are 400 bytes, which the old one is ahead by in 4 ms.
    assert found["after_s"] == pytest.approx(0.086, abs=0.002)
    assert found["seen_bps"] == pytest.approx(wire_bps, rel=1e-4)
    assert rate.in_force(samples, 5 * ms, 2005 * ms, 1.1 * wire_bps)["after_s"] == 2.0


def transfers(where: Cell, seconds: float, falling: str = "one") -> dict[str, Any]:
    return {
        "part": "table",
        "rtt_ms": where.rtt_ms,
        "loss": where.loss,
        "falling": falling,
        "transfers": [{"s": s, "total_rto": 0} for s in (seconds, 0.0, 99.0, seconds, seconds)],
        "stats": HONEST,
    }


def test_a_cell_is_above_the_paper_from_one_percent_on() -> None:
    said = paper()
    three_rtts = {where: 2.29 + 2.99 * where.rtt_ms / 1000 for where in said}
    runs = [transfers(where, min(1.009 * seconds, three_rtts[where])) for where, seconds in said.items()]
    assert all(row.met is not False for row in judge.rows(runs))
    runs[3] = transfers(Cell(0, 0.001), 1.011 * said[Cell(0, 0.001)])
    failed = [row for row in judge.rows(runs) if row.met is False]
    assert [row.value for row in failed] == [1, pytest.approx(1.1)]


def test_far_cells_are_judged_in_round_trips() -> None:
    runs = [transfers(Cell(800, 0.01), 2.29 + 3.1 * 0.8)]
    (row,) = (row for row in judge.rows(runs) if row.unit == "RTT")
    assert row.value == pytest.approx(3.1)
    assert row.met is False


def test_a_control_is_compared_within_its_round() -> None:
    turns = [
        {
            "control": control,
            "round": number,
            "bytes": 10**9,
            "s": 1.0,
            "busy_s": busy_s * drift,
            "retransmitted": 0,
        }
        for number, drift in enumerate((1.0, 2.0, 4.0))
        for control, busy_s in (("cubic", 1.0), ("hd_hold", 1.05))
    ]
    run = {"part": "cpu", "series": "paced", "turns": turns, "stats": HONEST}
    (row,) = (row for row in judge.rows([run]) if "against" in row.what)
    assert row.value == pytest.approx(100 / 1.05 - 100)
    assert row.met is False


def test_a_connection_on_another_control_or_target_is_counted() -> None:
    last = crowd.RATES_BPS[-1]
    good = {"asked": 9, "whole": True, "moved": 5, "chosen": 4, "given_back": 9}
    outcome = crowd.Outcome(controls={"hd_hold": 9}, rates_bps={last: 9}, **good)
    assert (outcome.lost, outcome.wrong) == (0, 0)
    outcome = crowd.Outcome(controls={"hd_hold": 8, "cubic": 1}, rates_bps={last: 8}, **good)
    assert (outcome.lost, outcome.wrong) == (0, 1)
    outcome = crowd.Outcome(controls={"hd_hold": 8}, rates_bps={last: 7, 100_000: 1}, **good)
    assert (outcome.lost, outcome.wrong) == (1, 2)
