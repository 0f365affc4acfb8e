"""The OPS paper's experiments: fairness, which runs are made, what is read, and the tables from a record."""

from pathlib import Path
from typing import Any

import pytest

from bench import report
from bench.ops import changing, judge, overlay, plan, tables
from bench.ops.__main__ import kept
from bench.ops.cells import cell, cells
from bench.ops.experiment import Side, rate
from bench.ops.fairness import harm, jain
from bench.ops.plan import CHANGING, PARTS, PHASE_S, PHASES, SCALES, Case, case_of
from bench.ops.tools import tool
from bench.ops.watch import Look, echoes, read
from howdah.traffic.pattern import Tcp, Wave, load_pattern

MBPS = 1e6


def run(foreground: str | None, background: str | None, **other: Any) -> dict[str, Any]:  # noqa: ANN401, any field
    rates = {"foreground_bps": 200 * MBPS} if foreground else {}
    rates |= {"background_bps": 250 * MBPS} if background else {}
    return {
        "part": "table2",
        "overlay": 1,
        "foreground": foreground,
        "background": background,
        "length": "short",
        "commit": "0123abc",
        "load_before": 0.5,
        "error": None,
        "rtt": {"median_s": 0.16},
        "stats": {"lateness": {"spoilt": False, "why": None}},
        **rates,
        **other,
    }


def spoilt(why: str = "the machine slept") -> dict[str, Any]:
    return {"stats": {"lateness": {"spoilt": True, "why": why}}}


def test_jain() -> None:
    assert jain([3.0, 3.0]) == 1
    assert jain([5.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([0.0, 0.0]) is None
    assert jain([]) is None


def test_harm() -> None:
    assert harm(474, 474) == 0
    assert harm(400, 100) == 0.75
    assert harm(100, 110) == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("part", "background", "printed"),
    [
        ("table2", "iperf", 1.0),
        ("table2", "gridftp-16", 0.68),
        ("table2", "udt", 0.70),
        ("table3", "iperf", 0.99),
        ("table3", "gridftp-16", 0.64),
        ("table3", "udt", 0.75),
    ],
)
def test_the_papers_indices_are_those_of_its_rates(part: str, background: str, printed: float) -> None:
    assert tables.paper_jain(part, background) == pytest.approx(printed, abs=0.011)


def test_the_paper_says_nothing_of_our_copy() -> None:
    assert tables.paper_jain("table2", "cp") is None


@pytest.mark.parametrize(("number", "rate_bps", "lan_bps"), [(1, 5e8, 1e9), (2, 1e9, 1e10)])
def test_the_scenarios_are_the_papers(number: int, rate_bps: float, lan_bps: float) -> None:
    found = overlay.load(number)
    assert found.rate_bps == rate_bps
    assert found.rtt_s == 0.128
    assert found.queue_bytes == 6_000_000
    assert found.topology.lan_rate_bps == lan_bps
    assert found.bdp_bytes == rate_bps * 0.128 / 8
    assert len(found.topology.left) == len(found.topology.right) == 4


@pytest.mark.parametrize("length", list(SCALES))
@pytest.mark.parametrize("part", list(PARTS))
def test_every_tool_of_every_part_is_known_and_no_case_is_twice(part: str, length: plan.Length) -> None:
    found = plan.cases(part, length)
    assert found
    assert len(set(found)) == len(found)
    for case in found:
        for name in (case.foreground, case.background):
            assert name is None or tool(name).headers_bytes > 0


def test_a_tool_that_is_none() -> None:
    with pytest.raises(ValueError, match="ftp"):
        tool("ftp-4")


def test_figures_are_looked_at_for_whole_periods_of_their_patterns() -> None:
    for scale in SCALES.values():
        assert scale.figures.total_s % 20 == 0
        assert scale.figures.settle_s == 0


def test_the_short_length_fits_two_hours() -> None:
    todo = plan.left([], PARTS, "short")
    assert sum(plan.takes_s(case, "short") for case in todo) <= 7200
    assert {case.part for case in todo} == set(PARTS)


def test_the_whole_length_is_the_papers_three_runs_of_300_s() -> None:
    case = Case("table2", 1, "iperf", "udt")
    assert plan.repeats(case, "whole") == 3
    assert plan.span(case, "whole").total_s + plan.LATER_S == 300
    assert plan.span(Case("figure29", 1, "cp", "iperf"), "whole").total_s == 1800


def test_what_is_judged_and_differs_by_run_is_run_three_times_in_the_short_length() -> None:
    again = {
        case.title
        for part in plan.PARTS
        for case in plan.cases(part, "short")
        if plan.repeats(case, "short") > 1
    }
    assert again == {
        "table3: iperf beside cp",
        "figure29: cp-1-cubic beside iperf-bbr",
        "figure29: cp-1-bbr beside iperf-bbr",
        "figure29: cp beside iperf-bbr",
    }


def test_runs_go_on_where_they_were_stopped() -> None:
    everything = plan.left([], ["table2"], "short")
    first, *others = everything
    made = run(*first[2:])
    assert case_of(made) == first
    assert plan.left([made], ["table2"], "short") == others
    # The whole length wants runs of its own.
    assert len(plan.left([made], ["table2"], "whole")) == len(plan.left([], ["table2"], "whole"))


def test_each_case_is_made_once_before_any_again() -> None:
    todo = plan.left([], ["table3"], "short")
    once = len(plan.cases("table3", "short"))
    assert len(set(todo[:once])) == once
    shared = Case("table3", 2, "iperf", "cp")
    assert todo.count(shared) == 3
    made = run("iperf", "cp", part="table3", overlay=2)
    assert plan.left([made], ["table3"], "short").count(shared) == 2


@pytest.mark.parametrize("wrong", [spoilt(), {"error": "iperf ended"}])
def test_what_does_not_count_is_made_once_more_and_not_for_ever(wrong: dict[str, Any]) -> None:
    alone = Case("table2", 1, None, "udt")
    bad = run(None, "udt", **wrong)
    assert not plan.counts(bad)
    assert alone in plan.left([bad], ["table2"], "short")
    assert alone not in plan.left([bad, bad], ["table2"], "short")


def test_a_spoilt_run_is_left_out_beside_good_ones_and_named_when_alone() -> None:
    case = Case("table2", 1, "iperf", "cp")
    good = run("iperf", "cp")
    bad = run("iperf", "cp", foreground_bps=MBPS, **spoilt())
    both = cell(case, [bad, good])
    assert both.foreground_bps == 200 * MBPS
    assert both.note == "once, 0123abc, 1 spoilt left out"
    alone = cell(case, [bad])
    assert alone.foreground_bps == MBPS
    assert alone.note == "0123abc, SPOILT: the machine slept"
    failed = cell(case, [run("iperf", "cp", error="cp ended with 1: no route")])
    assert (failed.foreground_bps, failed.jain, failed.rtt_s) == (None, None, None)
    assert failed.note == "failed: cp ended with 1: no route"


def test_a_busy_machine_is_named() -> None:
    case = Case("table2", 1, None, "udt")
    assert cell(case, [run(None, "udt", load_before=6.2)]).note == (
        "once, 0123abc, machine busy with other things: 6 programs a processor"
    )


def test_medians_are_of_runs_and_the_index_is_each_runs_own() -> None:
    runs = [run("iperf", "cp", foreground_bps=each * MBPS) for each in (50, 250, 450)]
    (found,) = cells(runs).values()
    assert found.foreground_bps == 250 * MBPS
    values = sorted(jain([each * MBPS, 250 * MBPS]) or 0 for each in (50, 250, 450))
    assert found.jain == values[1]


def test_the_rows_of_a_table() -> None:
    runs = [run(None, "iperf", background_bps=400 * MBPS), run("iperf", "cp"), run("iperf", "udt")]
    found = {row.what: row for row in judge.rows(runs)}
    index = found["Table 2: one CUBIC stream beside howdah cp: Jain's index"]
    assert index.value == pytest.approx(450**2 / (2 * (200**2 + 250**2)))
    assert index.met is True
    assert found["Table 2: one CUBIC stream beside howdah cp: harm to it"].value == 0.5
    assert found["Table 2: one CUBIC stream beside UDT: Jain's index"].target is None
    unfair = [run("iperf", "cp", foreground_bps=50 * MBPS)]
    assert [row.met for row in judge.rows(unfair) if row.target] == [False, False]
    lacking = [run("iperf", "cp", error="no")]
    assert [row.met for row in judge.rows(lacking) if row.target] == [False, False]


def test_who_takes_more_and_more_is_not_fair_on_average() -> None:
    samples = {"foreground_kbps": [400] * 40 + [100] * 20, "background_kbps": [0] * 40 + [300] * 20}
    rates = {"foreground_bps": 250 * MBPS, "background_bps": 250 * MBPS}
    index, last = (row for row in judge.rows([run("iperf", "cp", samples=samples, **rates)]) if row.target)
    assert (index.value, index.met) == (1, True)
    assert (last.value, last.met) == (0.8, False)


def test_a_table_has_the_papers_figures_beside_ours() -> None:
    runs = [
        run(None, "iperf", background_bps=468 * MBPS),
        run("iperf", "gridftp-16", foreground_bps=60 * MBPS),
    ]
    table = tables.beside_the_paper("table2", runs)
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["GridFTP, 16 streams"][:4] == ["468 (474)", "– (473)", "60 (76)", "250 (415)"]
    assert columns["howdah cp"][:4] == ["468 (474)", "–", "–", "–"]
    assert columns["GridFTP, 16 streams"][6] == "0.87 (0.84)"


def adaptive(background: str, foreground: str, mine: float, others: float) -> dict[str, Any]:
    rates = {"foreground_bps": mine * MBPS, "background_bps": others * MBPS}
    return run(foreground, background, part="figure29", **rates)


def test_an_adaptive_copy_is_held_against_the_right_and_the_wrong_choice() -> None:
    runs = [
        adaptive("iperf", "cp-cubic", 230, 230),
        adaptive("iperf", "cp-bbr", 400, 50),
        adaptive("iperf", "cp-1-cubic", 200, 240),
        adaptive("iperf", "cp-1-bbr", 350, 75),
        adaptive("iperf", "cp", 225, 225),
        adaptive("iperf-bbr", "cp-cubic", 50, 400),
        adaptive("iperf-bbr", "cp-bbr", 230, 230),
        adaptive("iperf-bbr", "cp-1-cubic", 20, 430),
        adaptive("iperf-bbr", "cp", 100, 350),
    ]
    judged = [(row.value, row.met) for row in judge.rows(runs) if row.target]
    beside_cubic = [(1, True), (4.5, True), (100 * 225 / 230, True), (3, False), (100 * 225 / 200, True)]
    # Of one stream beside BBR the right choice was not run.
    beside_bbr = [(jain([100, 350]), False), (2, False), (100 * 100 / 230, False)]
    assert judged == [(pytest.approx(value), met) for value, met in beside_cubic + beside_bbr]


def test_parts_that_are_not_measured_now_stay_and_say_of_which_commit_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = {"part": "figure13"}
    runs = [run("iperf", "cp"), run("cp", None, **figure), run("udt", None, **figure, commit="4de")]
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "commit", lambda: "4de")
    assert kept(["figure13"]) == []
    report.write("ops", judge.rows(runs), runs)
    assert kept(["figure13"]) == [runs[0], runs[2]]
    assert kept(["table2"]) == runs[1:]
    assert {row.note for row in judge.rows(runs) if row.note} == {"once, 0123abc", "once, 4de"}


def changing_run(mine: dict[str, int], others: dict[str, int]) -> dict[str, Any]:
    """Ten phases, before which a login takes 7 s; kb/s by who is there."""
    who = [PHASES[second // 60 % 3] for second in range(600)]
    samples = {
        "foreground_kbps": [0] * 10 + [mine[each] for each in who[3:]],
        "background_kbps": [8] * 7 + [others[each] for each in who],
    }
    return run("cp", CHANGING, part=CHANGING, begin_s=10.0, samples=samples)


def test_a_changing_background_is_held_against_an_oracle_by_phases() -> None:
    path = round(overlay.load(1).rate_bps * overlay.PAYLOAD_OF_WIRE / 1e3)
    fair = {"cubic": path // 2, "bbr": path // 2, "nobody": path}
    made = changing_run(fair, {**fair, "nobody": 0})
    found = list(changing.phases(made))
    assert [phase.background for phase in found] == [*PHASES] * 3 + ["cubic"]
    assert [phase.seconds for phase in found] == [57, *[60] * 9]
    judged = {row.what.rpartition(": ")[2]: row for row in judge.rows([made])}
    assert judged["its rate, of an oracle's"].value == pytest.approx(100, abs=0.01)
    assert judged["Jain's index beside others"].value == pytest.approx(1)
    assert judged["with nobody"].value == pytest.approx(path / 1e3)
    greedy = {"cubic": path, "bbr": path // 10, "nobody": path}
    taken = changing_run(greedy, {"cubic": path // 100, "bbr": path, "nobody": 0})
    met = {row.what.rpartition(": ")[2]: row.met for row in judge.rows([taken]) if row.target}
    assert met == {"its rate, of an oracle's": True, "Jain's index beside others": False}
    failed = run("cp", CHANGING, part=CHANGING, error="no")
    assert [row.met for row in judge.rows([failed]) if row.target] == [False, False]


def test_the_scenario_changes_as_the_phases_do() -> None:
    file = Path(__file__).parents[2] / "scenarios" / "traffic-changing.toml"
    found = load_pattern(file)
    assert found.duration_s == plan.span(Case(CHANGING, 1, "cp", CHANGING), "short").total_s
    for each in found.loads:
        assert isinstance(each, Tcp)
        begins = PHASES.index(each.congestion_control or "") * PHASE_S
        assert each.wave == Wave(start_s=begins, on_s=PHASE_S, every_s=len(PHASES) * PHASE_S)


COUNTERS = """Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo
    lo:    0       0    0    0    0     0          0         0      0      0    0    0    0
right1:  172      15    0    0    0     0          0         0 1330448    20    0    0    0
right2:172000000 15000    0    0    0   0          0         0   5000      1    0    0    0
"""


def test_what_the_router_delivered_is_read_without_headers() -> None:
    look = read(COUNTERS, 1.5)
    assert look.payload("right1", 66) == 1330448 - 20 * 66
    assert look.payload("right2", 58) == 4942


def test_a_rate_is_of_the_looks_within_the_span_over_all_pairs() -> None:
    looks = [
        Look(
            t_s,
            {"right2": 1000 * t_s, "right3": 500 * t_s, "right1": 9},
            {"right2": 0, "right3": 0, "right1": 0},
        )
        for t_s in range(10)
    ]
    side = Side("nfs-2", tool("nfs-2"), (2, 3))
    assert rate(looks, side, 2.5, 7.2) == 1500 * 8


def test_echoes() -> None:
    said = [
        "PING 10.77.2.4 (10.77.2.4) 56(84) bytes of data.",
        "[1000.5] 64 bytes from 10.77.2.4: icmp_seq=1 ttl=62 time=128 ms",
    ]
    assert echoes("\n".join(said), -1000.0) == [(0.5, 0.128)]
