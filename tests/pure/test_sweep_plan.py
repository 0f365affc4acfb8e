"""Sweep plans: what they may say, and the scenarios in the tree."""

from pathlib import Path

import pytest

from howdah import HowdahError
from howdah.archive.columns import link_in_words
from howdah.measure.plan import SweepCell, SweepPlan, load_plan, parse_plan
from howdah.measure.schedule import FinishedRuns, remaining, total_s

SCENARIOS = Path(__file__).parents[2] / "scenarios"
PAPER_RTTS_MS = [0.4, 11.8, 22.6, 45.6, 91.6, 183, 366]

PLAN = """
name = "one"
repeats = 3
[lab]
rate = "10Gbit"
rtt = ["1ms", "100ms"]
[[runs]]
congestion_control = ["cubic", "htcp"]
streams = [1, 4]
buffer = ["auto", "256MB"]
time = "10s"
"""


def changed(*pairs: tuple[str, str]) -> str:
    text = PLAN
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def minutes(plan: SweepPlan) -> float:
    return total_s(remaining(plan, FinishedRuns([], plan)), plan) / 60


def test_a_plan_is_all_combinations() -> None:
    plan = parse_plan(PLAN, "p.toml")
    repeats = plan.repeats()
    assert set(repeats.values()) == {3}
    assert set(repeats) == {
        SweepCell(control, streams, buffer, None, 10.0, rtt_ms * 1_000_000)
        for control in ("cubic", "htcp")
        for streams in (1, 4)
        for buffer in (None, 256_000_000)
        for rtt_ms in (1, 100)
    }
    assert len({str(cell) for cell in repeats}) == len(repeats)
    assert str(SweepCell("cubic", 1, 33_554_432, None, 10.0, None)) == "cubic 1x32MiB 10s"
    assert str(SweepCell("htcp", 4, 256_000_000, None, 10.0, 100_000_000)) == "htcp 4x256MB 10s 100ms"


def test_a_table_may_be_for_some_rtts_with_repeats_of_its_own() -> None:
    more = """
[[runs]]
congestion_control = "cubic"
streams = 2
size = ["1GB", "20GB"]
rtt = "1ms"
repeats = 7
"""
    plan = parse_plan(PLAN + more, "p.toml")
    added = {cell: times for cell, times in plan.repeats().items() if cell.streams == 2}
    assert {(cell.memory_bytes, cell.memory_s, cell.rtt_ns, times) for cell, times in added.items()} == {
        (10**9, None, 1_000_000, 7),
        (20 * 10**9, None, 1_000_000, 7),
    }


def test_a_queue_is_a_bandwidth_delay_product_but_at_least_as_told() -> None:
    plan = parse_plan(changed(("[lab]", '[lab]\nqueue_least = "32MB"')), "p.toml")
    assert plan.links[1_000_000].near_to_far.queue_bytes == 32_000_000
    assert plan.links[100_000_000].near_to_far.queue_bytes is None
    assert plan.path == "lab 10 Gb/s, queue at least 32MB"
    assert parse_plan(PLAN, "p.toml").path is None


@pytest.mark.parametrize(
    ("queue", "path"),
    [
        ("1BDP", "lab 10 Gb/s"),
        ("1.0BDP,1BDP", "lab 10 Gb/s"),
        ("0.5BDP", "lab 10 Gb/s, queue 0.5BDP"),
        ("1BDP,0.5BDP", "lab 10 Gb/s, queue 1BDP,0.5BDP"),
        ("1MB", None),
    ],
)
def test_queues_that_follow_the_round_trip_are_those_of_one_path(queue: str, path: str | None) -> None:
    plan = parse_plan(changed(("[lab]", f'[lab]\nqueue = "{queue}"')), "p.toml")
    assert plan.path == path
    default = parse_plan(PLAN, "p.toml").links[1_000_000]
    assert (path == link_in_words(default)) is (path == "lab 10 Gb/s")


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([('name = "one"', "")], "p.toml: the key name is missing; see: howdah sweep --help"),
        ([('"one"', '"a b"')], "p.toml: name 'a b': give 1 to 64 letters"),
        ([("repeats = 3", "repeats = 0")], "p.toml: repeats: expected a whole number >= 1"),
        ([("repeats = 3", "repeats = 100000000")], "p.toml: repeats: expected a whole number <= 10000"),
        (
            [("repeats = 3", "repeats = 10000")],
            "p.toml: 160,000 runs; a sweep has at most 100,000; lower repeats, or list fewer values",
        ),
        (
            [("[1, 4]", f"{[1] * 120_000}")],
            "p.toml: 2,880,000 runs; a sweep has at most 100,000",
        ),
        ([('["1ms", "100ms"]', "[]")], "p.toml: lab.rtt: an empty list; give a value, or leave the key out"),
        ([('time = "10s"', 'time = "10s"\nrtt = []')], "p.toml: runs 1: rtt: an empty list; give a value"),
        ([("repeats = 3", "repeat = 3")], "p.toml: unknown key repeat; known are name, runs, summary"),
        ([("repeats = 3", 'host = "b"')], 'p.toml: give either host = "NAME" or a table [lab]'),
        ([("repeats = 3", 'sample_every = "1ms"')], "sample_every 1ms is not within 0.01s to 10s"),
        ([("[1, 4]", "[1, 0]")], "p.toml: runs 1: streams 2: expected a whole number >= 1"),
        ([("[1, 4]", "[1, 1000]")], "p.toml: runs 1: streams 2: expected a whole number <= 128"),
        ([("256MB", "3GB")], "p.toml: runs 1: buffer 2: 3GB: kernels take"),
        ([("256MB", "256")], 'p.toml: runs 1: buffer 2: size "256" has no unit'),
        ([('time = "10s"', "")], "p.toml: runs 1: neither time nor size"),
        ([('"10s"', '"0s"')], "p.toml: runs 1: a time or size of 0"),
        ([('time = "10s"', 'time = "10s"\nrtt = "7ms"')], "rtt 7ms is not one of the lab's"),
        ([("[lab]", '[lab]\nqueue = "1MB"\nqueue_least = "1MB"')], "give queue or queue_least, not both"),
        ([("[lab]", "[lab]\nmtu = 1")], "p.toml: lab: "),
        ([("[1, 4]", "[1, 1]")], "one: cubic 1xauto 10s 1ms is listed twice"),
        ([("[[runs]]", "[[runs")], "p.toml is not TOML"),
    ],
)
def test_what_is_wrong_is_named(pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(HowdahError) as caught:
        parse_plan(changed(*pairs), "p.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(HowdahError, match=r"cannot read .*none\.toml"):
        load_plan(tmp_path / "none.toml")
    (tmp_path / "odd.toml").write_bytes(b"\xff")
    with pytest.raises(HowdahError, match=r"odd\.toml is not TOML"):
        load_plan(tmp_path / "odd.toml")


def test_the_id_is_of_what_is_measured() -> None:
    plan = parse_plan(PLAN, "p.toml")
    assert plan.id.startswith("one-")
    for same in [("repeats = 3", "repeats = 9"), ("repeats = 3", 'summary = "more"'), ("[1, 4]", "[ 1,4 ]")]:
        assert parse_plan(changed(same), "other.toml").id == plan.id
    others = [("10Gbit", "9.6Gbit"), ('"100ms"', '"99ms"'), ("[1, 4]", "[1, 5]"), ("repeats = 3", "seed = 2")]
    ids = {parse_plan(changed(each), "p.toml").id for each in others}
    assert len(ids | {plan.id}) == len(others) + 1


@pytest.mark.parametrize("file", sorted(SCENARIOS.glob("hpdc17-*.toml")), ids=lambda file: file.stem)
def test_scenarios_load(file: Path) -> None:
    plan = load_plan(file)
    assert plan.name == file.stem
    assert plan.summary
    assert {rtt_ns / 1e6 for rtt_ns in plan.links} <= set(PAPER_RTTS_MS)


@pytest.mark.parametrize(("name", "rate_bps"), [("hpdc17-10gige", 10**10), ("hpdc17-sonet", 96 * 10**8)])
def test_the_whole_papers_are_whole(name: str, rate_bps: int) -> None:
    plan = load_plan(SCENARIOS / f"{name}.toml")
    cells = plan.repeats()
    assert set(cells.values()) == {10}
    assert len(cells) == 7 * 3 * 10 * 3 * (4 + 1)
    assert sorted(rtt_ns / 1e6 for rtt_ns in plan.links) == PAPER_RTTS_MS
    assert {link.near_to_far.rate_bps for link in plan.links.values()} == {rate_bps}
    assert {cell.buffer_bytes for cell in cells} == {244_000, 256_000_000, 10**9}


def test_two_hours_are_two_hours_and_a_quarter_is_a_quarter() -> None:
    plan = load_plan(SCENARIOS / "hpdc17-two-hours.toml")
    configurations = {(cell.congestion_control, cell.streams, cell.buffer_bytes) for cell in plan.repeats()}
    assert len(configurations) == 3 * 3 * 3 + 2
    for configuration in configurations:
        cells = [
            cell
            for cell in plan.repeats()
            if (cell.congestion_control, cell.streams, cell.buffer_bytes) == configuration
        ]
        assert sorted((cell.rtt_ns or 0) / 1e6 for cell in cells) == PAPER_RTTS_MS
        assert len({cell.memory_s for cell in cells}) == 1, "a profile is a mean over one time"
    sizes = load_plan(SCENARIOS / "hpdc17-sizes.toml")
    assert sizes.links.items() <= plan.links.items(), "it is the same path"
    assert 80 < minutes(plan) + minutes(sizes) < 120
    assert minutes(load_plan(SCENARIOS / "hpdc17-quick.toml")) < 15
