"""The order of a sweep, what is left of it, the time it takes, the plan made for a host."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import LIMITS, record
from test_sweep_plan import PLAN

from howdah import HowdahError
from howdah.cc import programs
from howdah.measure.plan import Ranges, SweepCell, SweepPlan, parse_plan
from howdah.measure.runs import RunMeasured
from howdah.measure.schedule import (
    REPEATS,
    TIME_LEAST_S,
    TIME_S,
    FinishedRuns,
    PlannedRun,
    blocks,
    fitted,
    remaining,
    run_s,
    total_s,
)
from howdah.values.outcome import Outcome
from howdah.values.record import Record, Swept
from howdah.words.sweep import SweepLines, table

OUTCOME = msgspec.convert(
    {"direction": "push", "elapsed_s": 1.0, "encrypted": False, "bytes": 1}
    | dict.fromkeys(["files", "folders", "links", "files_skipped", "bytes_skipped"], 0),
    Outcome,
)
RTTS = st.lists(st.integers(0, 10**9), unique_by=lambda rtt_ns: f"{rtt_ns / 1e6:g}", min_size=1, max_size=4)
"""RTTs whose cells have names of their own: a plan with two cells of one name is refused."""


@st.composite
def plans(draw: st.DrawFn) -> SweepPlan:
    def ranges(controls: list[str]) -> Ranges:
        streams = draw(st.lists(st.integers(1, 16), unique=True, min_size=1, max_size=3))
        repeats = draw(st.integers(1, 4))
        return Ranges(tuple(controls), tuple(streams), (None, 10**6), (), (1.0,), tuple(draw(RTTS)), repeats)

    both = (ranges(["cubic"]), ranges(["htcp", "scalable"]))
    return SweepPlan(
        name="some", ranges=both, seed=draw(st.integers(0, 9)), late_again=draw(st.integers(0, 2))
    )


def swept(
    plan: SweepPlan, one: PlannedRun, *, flags: list[str] | None = None, error: str | None = None
) -> Record:
    place = Swept(id=plan.id, name=plan.name, cell=str(one.cell), repeat=one.repeat, attempt=one.attempt)
    return msgspec.structs.replace(
        record(), sweep=place, flags=flags or [], error=error, outcome=None if error else OUTCOME
    )


def to_do(plan: SweepPlan, kept: FinishedRuns) -> list[PlannedRun]:
    return [one for _, runs in remaining(plan, kept) for one in runs]


@given(plans())
def test_the_order_has_everything_once_repeat_by_repeat(plan: SweepPlan) -> None:
    order = list(blocks(plan))
    made = [(cell, block.repeat) for block in order for cell in block.cells]
    wanted = {(cell, repeat) for cell, times in plan.repeats().items() for repeat in range(times)}
    assert len(made) == len(wanted)
    assert set(made) == wanted
    assert [block.repeat for block in order] == sorted(block.repeat for block in order)
    assert all(cell.rtt_ns == block.rtt_ns for block in order for cell in block.cells)
    places = [(block.repeat, block.rtt_ns) for block in order]
    assert len(set(places)) == len(places), "a lab is brought up once for all that it is for"
    assert order == list(blocks(plan))


def test_the_order_is_shuffled_and_the_seed_decides_it() -> None:
    text = PLAN.replace("[1, 4]", "[1, 2, 3, 4, 5, 6, 7, 8]")
    one, two = (
        parse_plan(text.replace("repeats = 3", f"repeats = 3\nseed = {seed}"), "p") for seed in (1, 2)
    )
    orders = [[block.cells for block in blocks(plan)] for plan in (one, two)]
    assert orders[0] != orders[1]
    first, *rest = ([cell for cell in cells if cell.rtt_ns == 1_000_000] for cells in orders[0])
    assert all(other != first for other in rest if other)


def test_more_repeats_leave_the_order_of_the_first_as_it_was() -> None:
    few = list(blocks(parse_plan(PLAN, "p")))
    many = list(blocks(parse_plan(PLAN.replace("repeats = 3", "repeats = 5"), "p")))
    assert many[: len(few)] == few


@given(plans(), st.randoms(use_true_random=False))
def test_what_is_kept_is_not_made_again_and_all_else_is(plan: SweepPlan, random: st.DataObject) -> None:
    everything = to_do(plan, FinishedRuns([], plan))
    done = [one for one in everything if random.random() < 0.5]  # type: ignore[attr-defined]
    records = [swept(plan, one) for one in done]
    again = to_do(plan, FinishedRuns(records, plan))
    assert again == [one for one in everything if one not in done]


def test_runs_that_failed_or_were_stopped_or_are_of_another_sweep_do_not_count() -> None:
    plan = parse_plan(PLAN, "p")
    everything = to_do(plan, FinishedRuns([], plan))
    other = parse_plan(PLAN.replace("10Gbit", "1Gbit"), "p")
    useless = [
        swept(plan, everything[0], error="gone"),
        swept(plan, everything[1], error="interrupted by SIGINT", flags=["interrupted"]),
        swept(other, everything[2]),
        record(),
    ]
    assert to_do(plan, FinishedRuns(useless, plan)) == everything


@pytest.mark.parametrize("late_again", [0, 1, 2])
def test_a_late_run_is_made_again_so_often_and_no_more(late_again: int) -> None:
    plan = msgspec.structs.replace(parse_plan(PLAN, "p"), late_again=late_again)
    kept = FinishedRuns([], plan)
    first = to_do(plan, kept)[0]
    for attempt in range(late_again + 1):
        again = PlannedRun(first.cell, first.repeat, attempt)
        assert to_do(plan, kept)[0] == again
        kept.add(swept(plan, again, flags=["lateness"]))
    assert (first.cell, first.repeat) not in [(one.cell, one.repeat) for one in to_do(plan, kept)]


def test_a_good_run_ends_the_attempts() -> None:
    plan = msgspec.structs.replace(parse_plan(PLAN, "p"), late_again=5)
    first = to_do(plan, FinishedRuns([], plan))[0]
    kept = FinishedRuns(
        [swept(plan, first, flags=["lateness"]), swept(plan, first._replace(attempt=1))], plan
    )
    assert kept.attempt(first.cell, first.repeat) is None


def test_the_time_of_a_size_is_what_link_and_windows_allow() -> None:
    plan = parse_plan(PLAN, "p")
    fast = run_s(SweepCell("cubic", 1, None, 10**10, None, 100_000_000), plan)
    assert 8 < fast < 12
    held = run_s(SweepCell("cubic", 2, 10**6, 10**9, None, 100_000_000), plan)
    assert 50 < held < 55, "2 MB a round trip"


@given(plans())
def test_the_time_left_is_that_of_the_runs_left(plan: SweepPlan) -> None:
    host = msgspec.structs.replace(
        plan, host="b", ranges=tuple(msgspec.structs.replace(each, rtt_ns=()) for each in plan.ranges)
    )
    todo = list(remaining(host, FinishedRuns([], host)))
    runs = [one for _, each in todo for one in each]
    assert total_s(todo, host) == pytest.approx(sum(run_s(one.cell, host) for one in runs))
    assert f"{len(runs):,} run" in table(host, todo)


@given(st.integers(1, 40), st.floats(0.1, 3), st.floats(1, 1e5))
def test_what_is_fitted_fits(cells: int, beside_s: float, for_s: float) -> None:
    if for_s < cells * (TIME_LEAST_S + beside_s):
        with pytest.raises(HowdahError, match="is too short"):
            fitted(cells, beside_s, for_s)
        return
    time_s, repeats = fitted(cells, beside_s, for_s)
    assert cells * repeats * (time_s + beside_s) <= for_s * (1 + 1e-9)
    assert 0.9 * TIME_LEAST_S <= time_s <= TIME_S[-1]
    assert 1 <= repeats <= REPEATS[-1]
    wasted_s = for_s - cells * repeats * (time_s + beside_s)
    assert time_s == TIME_S[-1] or wasted_s <= cells * repeats * 0.1 + 1e-6


def test_without_a_time_it_takes_some_minutes() -> None:
    time_s, repeats = fitted(18, 0.7, None)
    assert 2 * 60 < 18 * repeats * (time_s + 0.7) < 10 * 60


def test_controls_that_cannot_be_had_say_why() -> None:
    here = msgspec.structs.replace(LIMITS, congestion_controls_allowed=["reno"])
    assert programs.refusal("reno", here) is None
    assert "tcp_allowed_congestion_control" in (programs.refusal("cubic", here) or "")
    assert "sudo howdah cc load htcp" in (programs.refusal("htcp", here) or "")
    assert "neither this kernel nor howdah" in (programs.refusal("vegas42", here) or "")
    root = msgspec.structs.replace(here, privileged=True)
    assert programs.available(["cubic", "htcp", "vegas42", "reno"], root) == ["cubic", "htcp", "reno"]


def test_the_line_of_a_run_says_how_long_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    plan = parse_plan(PLAN, "p")
    todo = list(remaining(plan, FinishedRuns([], plan)))
    clock = iter([0.0, 2 * total_s(todo, plan)])
    lines = SweepLines(plan, lambda: next(clock))
    lines.begins(todo)
    first = todo[0][1][0]
    lines.measured(RunMeasured("id", str(first.cell), 0, 0, 9.4e9, late=True))
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"howdah: sweep {plan.id}: 48 runs left, about ")
    assert f"[1/48] {first.cell}, repeat 1: 9.40 Gb/s late · " in said[1]
    assert " h " in said[1], "all took a hundred times longer than was expected"
