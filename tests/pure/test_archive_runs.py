"""The columns that everything analyses."""

import dataclasses
import os
import subprocess
import sys
import timeit
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import record, run, sample

from howdah.archive import Archive
from howdah.archive.columns import link_in_words, row
from howdah.archive.reading import entry
from howdah.archive.runs import COLUMNS, SPREAD, SPREAD_S, Configuration, Runs, together
from howdah.archive.store import Store
from howdah.values.limit import Limited
from howdah.values.link import Burst, Change, Direction, LinkSpec, symmetric
from howdah.values.outcome import Change as Steered
from howdah.values.record import Record, Swept, dumps

GBIT = 10**9
MS = 1_000_000


def kept(archive: Archive, *records: Record) -> Runs:
    for each in records:
        archive.save(each)
    return archive.runs()


def test_a_row_by_hand(tmp_path: Path) -> None:
    link = symmetric(10 * GBIT, 100 * MS, loss=0.001)
    made = run(
        0,
        rate_bps=4e9,
        control="hd_htcp",
        buffer_bytes=250_000,
        link=link,
        flags=["lateness"],
        sweep=Swept(id="grand 1a2b", name="grand", cell="any", repeat=3),
    )
    runs = kept(Archive(tmp_path), made)
    assert {name: getattr(runs, name).tolist() for name in COLUMNS} == {
        "id": [made.id],
        "path": ["lab 10 Gb/s, loss 0.1%"],
        "congestion_control": ["htcp"],
        "program": [True],
        "streams": [2],
        "buffer_bytes": [250_000],
        "rtt_s": [0.1],
        "capacity_bps": [1e10],
        "loss": [pytest.approx(0.001)],
        "rate_bps": [4e9],
        "elapsed_s": [10.5],
        "bytes": [5 * 10**9],
        "retransmissions": [6],
        "late": [True],
        "encrypted": [False],
        "memory": [True],
        "sweep": ["grand"],
        "repeat": [3],
    }


def test_a_sweep_whose_queues_follow_the_rtt_names_its_path(tmp_path: Path) -> None:
    links = [symmetric(10 * GBIT, rtt_ms * MS, queue_bytes=rtt_ms * 10**6) for rtt_ms in (50, 100)]
    one = Swept(id="grand 1a2b", name="grand", path="lab 10 Gb/s, queue at least 32MB", cell="any", repeat=0)
    made = [run(at, link=link, sweep=one) for at, link in enumerate(links)]
    runs = kept(Archive(tmp_path), *made)
    assert runs.path.tolist() == [one.path] * 2
    assert runs.rtt_s.tolist() == [0.05, 0.1]


def test_outside_a_lab_the_path_is_the_host_and_what_is_unknown_is_missing(tmp_path: Path) -> None:
    runs = kept(Archive(tmp_path), run(rtt_s=None))
    assert runs.path.tolist() == ["dtn2"]
    assert (runs.sweep.tolist(), runs.repeat.tolist()) == ([""], [-1])
    assert np.isnan([runs.rtt_s, runs.capacity_bps, runs.loss, runs.buffer_bytes]).all()


def test_only_what_moved_something_is_a_run_oldest_first(tmp_path: Path) -> None:
    failed = msgspec.structs.replace(run(1), outcome=None, error="no room")
    dry = msgspec.structs.replace(run(2), outcome=msgspec.structs.replace(run().outcome, bytes=0))
    good = [run(9), run(0), run(5)]
    runs = kept(Archive(tmp_path), *good, failed, dry, record(3))
    assert runs.id.tolist() == sorted(each.id for each in good)


def test_a_run_that_was_changed_on_its_way_is_none_of_one_configuration(tmp_path: Path) -> None:
    def changed(after_s: float, refused: str | None) -> Record:
        change = Steered(t_s=5.0, congestion_control="bbr", streams=1, why="", refused=refused)
        made = run(after_s)
        return msgspec.structs.replace(made, outcome=msgspec.structs.replace(made.outcome, changes=[change]))

    archive = Archive(tmp_path)
    steered, refused = changed(1, None), changed(2, "no such control")
    assert kept(archive, steered, refused).id.tolist() == [refused.id]
    assert archive.load(steered.id) == steered


def test_a_run_under_a_limit_says_nothing_of_the_path(tmp_path: Path) -> None:
    limited = Limited(limit="50Mb/s", limited_s=3.0, held="slower")
    archive = Archive(tmp_path)
    bound, free = msgspec.structs.replace(run(1), limited=limited), run(2)
    assert kept(archive, bound, free).id.tolist() == [free.id]
    assert archive.load(bound.id) == bound


def test_a_run_through_ssh_says_nothing_of_the_path(tmp_path: Path) -> None:
    made = run(1)
    outcome = msgspec.structs.replace(made.outcome, through_ssh="10.9.0.2:50017: no answer")
    archive = Archive(tmp_path)
    around, straight = msgspec.structs.replace(made, outcome=outcome), run(2)
    assert kept(archive, around, straight).id.tolist() == [straight.id]
    assert archive.load(around.id) == around


def test_what_is_kept_beside_the_table_follows_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    assert len(archive.runs()) == 0
    for number in range(3):
        first = kept(archive, run(number, rate_bps=1e9 * (number + 1)))
        again = archive.runs()
        assert len(first) == number + 1
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert archive.runs().rate_bps.tolist() == [1e9, 2e9, 3e9]


def test_conditions_and_configurations_agree_with_a_loop(tmp_path: Path) -> None:
    cells = [(c, n, b) for c in ("cubic", "hd_htcp") for n in (1, 4) for b in (None, 250_000)]
    records = [
        run(i, control=c, streams=n, buffer_bytes=b) for i, (c, n, b) in enumerate(cells * 3 + cells[:3])
    ]
    runs = kept(Archive(tmp_path), *records)
    expected = {(c.removeprefix("hd_"), n, b) for c, n, b in cells}
    configurations = runs.configurations()
    assert len(configurations) == 8
    assert set(configurations) == expected
    assert configurations == sorted(configurations, key=lambda c: (c[0], c[1], c[2] is None, c[2] or 0))
    by_hand = [(c.removeprefix("hd_"), n, b) for c, n, b in cells * 3 + cells[:3]]
    found, own = runs.by_configuration()
    assert [found[place] for place in own] == by_hand
    for each in configurations:
        assert len(runs.where(**each._asdict())) == by_hand.count(each)
    chosen = runs.where(streams=(1, 4), congestion_control="htcp", buffer_bytes=None, late=False)
    assert chosen.configurations() == [Configuration("htcp", 1, None), Configuration("htcp", 4, None)]
    assert len(runs.where(streams=())) == 0
    assert len(runs.where(buffer_bytes=float("nan"))) == len(runs.where(buffer_bytes=None))


def test_traces_come_by_run_and_stream(tmp_path: Path) -> None:
    samples = [sample(t / 10, stream, ssthresh=None if t < 2 else 7) for t in range(4) for stream in range(2)]
    made, bare = run(0, samples=[*samples[:-1], sample(0.3, 1, limited="rwnd")]), run(1)
    runs = kept(Archive(tmp_path), made, bare)
    (found,) = runs.traces().items()
    assert found[0] == made.id
    second = found[1].of(1)
    assert second.t_s.tolist() == [0, 0.1, 0.2, 0.3]
    assert second.bytes_acked.tolist() == [1000, 1001, 1002, 1003]
    assert np.isnan(second.ssthresh[:2]).all()
    assert second.ssthresh[2] == 7
    assert np.isnan(second.pacing_rate_bps).all()
    assert second.limited.tolist() == ["", "", "", "rwnd"]
    assert runs.traces([bare.id]) == {}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(1e-5, 1) | st.just(float("nan"))), max_size=40))
def test_runs_share_a_round_trip_time_that_is_close_and_of_their_path(pairs: list[tuple[str, float]]) -> None:
    path = np.array([place for place, _ in pairs], np.str_)
    rtt_s = np.array([rtt for _, rtt in pairs], np.float64)
    shared = together(path, rtt_s)
    assert np.array_equal(np.isnan(shared), np.isnan(rtt_s))
    known = ~np.isnan(rtt_s)
    assert np.all(shared[known] <= rtt_s[known])
    assert np.all(rtt_s[known] <= shared[known] * (1 + SPREAD) + SPREAD_S)
    for place in "ab":
        values = np.unique(shared[known & (path == place)])
        assert np.all(np.isin(values, rtt_s[path == place]))
        assert np.all(np.diff(values) > values[:-1] * SPREAD)


def test_round_trip_times_of_a_lab_are_as_exact_as_its_link(tmp_path: Path) -> None:
    records = [run(i, link=symmetric(GBIT, rtt)) for i, rtt in enumerate((20 * MS, 21 * MS))]
    measured = [run(9 + i, rtt_s=rtt_s) for i, rtt_s in enumerate((0.021, 0.02, 0.03))]
    runs = kept(Archive(tmp_path), *records, *measured)
    assert runs.rtt_s.tolist() == [0.02, 0.021, 0.02, 0.02, 0.03]


DIRECTIONS = st.builds(
    Direction,
    rate_bps=st.none() | st.sampled_from([9_953_280_000, 9_950_000_000, 1]),
    delay_ns=st.integers(0, 10**9),
    jitter_ns=st.integers(0, 3),
    queue_bytes=st.none() | st.sampled_from([10**6, 10**6 + 1]),
    loss=st.sampled_from([0.0, 1e-4, 1e-7, 0.5]),
    burst=st.none() | st.builds(Burst, st.sampled_from([0.0, 0.1]), st.sampled_from([0.5, 1.0])),
    changes=st.lists(st.builds(Change, st.integers(0, 3), drop=st.integers(1, 2)), max_size=2).map(tuple),
)
LINKS = st.builds(
    LinkSpec,
    DIRECTIONS,
    DIRECTIONS,
    mtu=st.sampled_from([1500, 9000]),
    frame_overhead_bytes=st.sampled_from([0, 38]),
    seed=st.integers(1, 9),
)


def without_delays(link: LinkSpec) -> LinkSpec:
    ways = {name: msgspec.structs.replace(way, delay_ns=0) for name, way in link.directions().items()}
    return msgspec.structs.replace(link, seed=1, **ways)


@given(LINKS, LINKS)
def test_links_have_the_same_words_exactly_when_they_differ_in_delay_and_seed_alone(
    one: LinkSpec, other: LinkSpec
) -> None:
    assert (link_in_words(one) == link_in_words(other)) == (without_delays(one) == without_delays(other))
    moved = msgspec.structs.replace(
        one, near_to_far=msgspec.structs.replace(one.near_to_far, delay_ns=7), seed=8
    )
    assert link_in_words(one) == link_in_words(moved)


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_capacity_and_loss_are_of_the_way_the_data_went(direction: str) -> None:
    burst = Burst(0.1, 0.4, 0.0, 0.5)
    link = LinkSpec(Direction(rate_bps=5, loss=0.2, burst=burst), Direction(rate_bps=7, delay_ns=30 * MS))
    made = run(link=link)
    assert made.outcome is not None
    outcome = msgspec.structs.replace(made.outcome, direction=direction)
    found = row(msgspec.structs.replace(made, outcome=outcome))
    # A fifth of the time in a state that loses half: 0.1, beside the 0.2 that are lost anyway.
    expected = (5, 1 - 0.8 * 0.9) if direction == "push" else (7, 0)
    assert (found["capacity_bps"], found["loss"]) == pytest.approx(expected)
    assert found["rtt_s"] == 0.03


def test_a_link_that_others_share_is_a_path_of_its_own() -> None:
    alone = run(link=LinkSpec(Direction(rate_bps=5 * 10**8), Direction(rate_bps=5 * 10**8)))
    beside = msgspec.structs.replace(alone, link_stats={"cables": {"left1": {}, "left2": {}, "right1": {}}})
    pair = msgspec.structs.replace(alone, link_stats={"cables": None})
    assert row(alone)["path"] == row(pair)["path"] == "lab 0.5 Gb/s"
    assert row(beside)["path"] == "lab 0.5 Gb/s, shared by 3 hosts"


def test_columns_of_unequal_length_are_refused() -> None:
    runs = {field.name: np.zeros(2) for field in dataclasses.fields(Runs) if field.name in COLUMNS}
    with pytest.raises(ValueError, match="unequal"):
        Runs(**{**runs, "id": np.zeros(3)})


@pytest.mark.parametrize(
    ("work", "unneeded"),
    [
        ("from howdah.cli import copy_command", {"sqlite3", "duckdb", "numpy", "scipy"}),
        ("from howdah.archive import Archive; Archive().runs()", {"duckdb", "scipy", "howdah.lab"}),
        ("from howdah.cli import app; app.main(['archive', 'ls'])", {"duckdb", "scipy", "howdah.lab"}),
    ],
)
def test_no_library_is_loaded_that_is_not_needed(tmp_path: Path, work: str, unneeded: set[str]) -> None:
    code = f"import sys\n{work}\nassert not {unneeded} & set(sys.modules), {unneeded} & set(sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_is_kept_beside_the_table_is_much_faster_than_the_table(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    made = entry(dumps(run()), "x")
    with Store(tmp_path) as store:
        store.add([made._replace(row={**made.row, "id": f"{made.id}{i:05}"}) for i in range(5000)])
        table, beside = [], []
        for _ in range(5):
            store.ask("DELETE FROM columns")
            table.append(timeit.timeit(archive.runs, number=1))
            beside.append(timeit.timeit(archive.runs, number=1))
    assert len(archive.runs()) == 5000
    assert 3 * min(beside) < min(table)
