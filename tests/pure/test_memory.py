"""What the archive remembers of a path: which copies count, of which route, and how sure that is."""

import sqlite3
import threading
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import LIMITS, START, run, sample

from howdah.archive import Archive, paths
from howdah.archive.paths import INBOX_MOST, copies, remembered, take_in
from howdah.decide import decide
from howdah.remote.endpoints import route
from howdah.transfer.request import Request
from howdah.transfer.resuming import Recollection
from howdah.values.carried import carried, least_moving_s
from howdah.values.limit import Limited
from howdah.values.link import symmetric
from howdah.values.listened import HeardThen, Listened
from howdah.values.memory import LIFETIME_S, NEWEST, OTHERS_S, Carried, PastCopy, PathMemory, ago, recall
from howdah.values.outcome import Outcome
from howdah.values.path import Path as KnownPath
from howdah.values.record import Record, Swept
from howdah.words.expected import came_of_it

NOW = START + timedelta(hours=3)
GB = 10**9
PATH = KnownPath(sender=LIMITS, receiver=LIMITS, rtt_s=0.05, host="dtn2")


def copied(
    after_s: float = 0,
    rate_bps: float = 9.2e9,
    held_by: Literal["path", "hosts"] = "path",
    outcome: dict[str, Any] | None = None,
    **changed: Any,  # noqa: ANN401, whatever a record has
) -> Record:
    """A copy to dtn2 whose record says what was carried."""
    made = run(
        after_s, rate_bps=0.9 * rate_bps, rtt_s=changed.pop("rtt_s", 0.05), link=changed.pop("link", None)
    )
    assert made.outcome is not None
    changed = {"carried": Carried(rate_bps=rate_bps, rtt_s=0.05, held_by=held_by), **changed}
    return msgspec.structs.replace(
        made, outcome=msgspec.structs.replace(made.outcome, **(outcome or {})), **changed
    )


def recalled(
    folder: Path, *records: Record, rtt_s: float = 0.05, address: str | None = None
) -> PathMemory | None:
    """What a copy would be told, first from the inbox and then from the database, which must be the same."""
    archive = Archive(folder)
    for each in records:
        archive.save(each)
    found = copies(archive.inbox, "dtn2", "push", NOW)
    list(archive.newest())
    assert not archive.inbox.files()
    assert copies(archive.inbox, "dtn2", "push", NOW) == found
    return recall("dtn2", "push", found, rtt_s, address)


@pytest.mark.parametrize("lack", [OSError(24, "Too many open files"), MemoryError(), ImportError("no room")])
def test_a_look_up_that_the_host_has_no_files_or_memory_for_costs_no_copy(
    lack: Exception,
) -> None:
    class Lacking:
        @property
        def inbox(self) -> object:
            raise lack

    # Anything that a thread raises fails the test.
    request = Request([], route(["run42/", "dtn2:/archive/"], memory=False))
    looking = Recollection(request, cast("Archive", Lacking()))
    assert looking.of(0.05, None) is None
    assert looking._looked.is_set()
    for thread in threading.enumerate():
        if thread.name == "howdah-memory":
            thread.join(10)


def test_a_path_is_remembered_with_its_interval_age_and_copies(tmp_path: Path) -> None:
    rates = (9.4e9, 8.8e9, 9.2e9)
    memory = recalled(tmp_path, *(copied(at, rate_bps) for at, rate_bps in enumerate(rates)))
    assert memory is not None
    assert (memory.rate_low_bps, memory.rate_mid_bps, memory.rate_high_bps) == (8.8e9, 9.2e9, 9.4e9)
    assert (memory.copies, memory.latest_bps, memory.rtt_s) == (3, 9.2e9, 0.05)
    assert memory.age_s == pytest.approx(3 * 3600 - 2)
    assert memory.same_route
    assert not memory.at_least
    assert memory.capacity_bytes == 9.2e9 / 8 * 0.05
    assert memory.why_not() is None


def test_nothing_is_remembered_where_nothing_was_copied(tmp_path: Path) -> None:
    assert copies(Archive(tmp_path / "none").inbox, "dtn2", "push") == []
    assert remembered(Archive(tmp_path / "none").inbox) == []
    assert recall("dtn2", "push", [], 0.05, None) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"error": "no room"},
        {"flags": ["lateness"]},
        {"limited": Limited(limit="1Gb/s", limited_s=3.0, held="held")},
        {"limited": Limited(limit="none", paused_s=2.0)},
        {"sweep": Swept(id="a 1", name="a", cell="any", repeat=0)},
        {"kind": "bench"},
        {"outcome": {"through_ssh": "no answer"}},
        {"outcome": {"direction": "pull"}},
        {"outcome": {"bytes": 0}},
        {"outcome": {"bytes_resumed": 7}},
        {"outcome": {"moving_s": 1.9}},
        {"rtt_s": 2.0},
        {"rtt_s": None},
        {"host": "dtn3"},
        {"near_host": "another host, whose archive was merged"},
        {"origin": "dtn1"},
        {"link": symmetric(10 * GB, 50_000_000)},
    ],
)
def test_what_says_nothing_of_the_path_is_left_out(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert recalled(tmp_path, copied(0, **changed)) is None
    memory = recalled(tmp_path, copied(1))
    assert memory is not None
    assert memory.copies == 1


def test_what_disks_held_counts_only_where_nothing_else_is_known(tmp_path: Path) -> None:
    slow = [copied(at, 2e9, held_by="hosts") for at in range(3)]
    memory = recalled(tmp_path, *slow)
    assert memory is not None
    assert (memory.rate_mid_bps, memory.at_least, memory.copies) == (2e9, True, 3)
    memory = recalled(tmp_path, copied(-60, 9e9))
    assert memory is not None
    assert (memory.rate_mid_bps, memory.at_least, memory.copies) == (9e9, False, 1)


def test_push_and_pull_are_two_paths(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.save(copied(0, 9e9))
    archive.save(copied(1, 3e9, outcome={"direction": "pull"}))
    found = {each.direction: each.rate_mid_bps for each in remembered(archive.inbox)}
    assert found == {"push": 9e9, "pull": 3e9}
    assert [each.rate_bps for each in copies(archive.inbox, "dtn2", "pull")] == [3e9]


def test_another_route_is_told_and_not_used(tmp_path: Path) -> None:
    near = [copied(at, 9e9, rtt_s=0.02) for at in range(3)]
    memory = recalled(tmp_path, *near, rtt_s=0.095)
    assert memory is not None
    assert (memory.same_route, memory.rtt_s) == (False, 0.02)
    assert "another route" in str(memory.why_not())
    there = recalled(tmp_path, copied(-9, 4e9, rtt_s=0.1), rtt_s=0.095)
    assert there is not None
    assert (there.same_route, there.rate_mid_bps, there.copies) == (True, 4e9, 1)


@pytest.mark.parametrize(
    ("now", "same"),
    [("192.0.2.7", True), ("192.0.2.8", False), (None, True)],
    ids=["same", "other", "unknown"],
)
def test_another_address_is_another_route(tmp_path: Path, now: str | None, same: bool) -> None:
    memory = recalled(tmp_path, copied(0, address="192.0.2.7"), address=now)
    assert memory is not None
    assert memory.same_route is same


def test_a_route_is_never_wider_than_the_rfc_lets_it_be() -> None:
    def alike(then_s: float, now_s: float) -> bool:
        memory = recall("a", "push", [PastCopy(1.0, then_s, 1e9, True, None, None)], now_s, None)
        assert memory is not None
        return memory.same_route

    assert alike(0.1, 0.12)
    assert not alike(0.1, 0.13)
    assert not alike(0.1, 0.07)
    # Short paths: a millisecond is a host's own, but not beyond half and ten times.
    assert alike(0.0005, 0.0014)
    assert not alike(0.0005, 0.0002)
    assert not alike(0.0001, 0.00105)


def test_a_memory_fades(tmp_path: Path) -> None:
    memory = recalled(tmp_path, copied(-LIFETIME_S))
    assert memory is not None
    assert memory.same_route
    assert "older than 7 days" in str(memory.why_not())


@pytest.mark.parametrize(
    ("heard", "age_s", "then_free", "used"),
    [
        ("1 cubic", 60.0, True, False),
        ("1 cubic", OTHERS_S + 60, True, True),
        ("1 cubic", OTHERS_S + 60, False, False),
        (None, 60.0, True, False),
        ("nobody", 60.0, False, True),
    ],
)
def test_nothing_is_sent_at_once_where_others_were_recognised(
    tmp_path: Path, heard: str | None, age_s: float, then_free: bool, used: bool
) -> None:
    def listened(background: str | None) -> Listened:
        verdict = HeardThen(t_s=5.0, background=background, probability=0.9)
        return Listened(by="icmp", fairness=0.5, heard=[verdict])

    beside = copied(3 * 3600 - age_s, listened=listened(heard))
    later = [copied(3 * 3600 - 9, listened=listened("nobody"))] if then_free else []
    unheard = copied(3 * 3600 - 5)
    memory = recalled(tmp_path, beside, *later, unheard)
    assert memory is not None
    assert (memory.why_not() is None) is used
    if not used:
        assert "competing traffic was recognised here" in str(memory.why_not())


def test_a_newest_copy_that_carried_less_counts_at_once(tmp_path: Path) -> None:
    memory = recalled(tmp_path, *(copied(at, 9e9) for at in range(9)), copied(10, 4e9))
    assert memory is not None
    assert memory.rate_mid_bps == 9e9
    assert memory.capacity_bytes == 4e9 / 8 * 0.05


@given(st.lists(st.floats(1e6, 1e11), min_size=1, max_size=60), st.floats(0.001, 1))
def test_the_interval_holds_the_newest_copies(rates: list[float], rtt_s: float) -> None:
    past = [PastCopy(float(age), rtt_s, rate_bps, True, None, None) for age, rate_bps in enumerate(rates)]
    memory = recall("a", "push", past, rtt_s, None)
    assert memory is not None
    newest = rates[:NEWEST]
    assert memory.copies == len(rates)
    assert (memory.rate_low_bps, memory.rate_high_bps) == (min(newest), max(newest))
    assert sum(each <= memory.rate_mid_bps for each in newest) >= len(newest) / 2
    assert sum(each >= memory.rate_mid_bps for each in newest) >= len(newest) / 2


def test_records_of_before_count_by_their_mean(tmp_path: Path) -> None:
    memory = recalled(tmp_path, copied(0, carried=None))
    assert memory is not None
    assert memory.rate_mid_bps == pytest.approx(0.9 * 9.2e9)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.save(copied(0))
    archive.save(copied(1)).write_text("{")
    newer = copied(2)
    file = archive.save(newer)
    file.write_bytes(file.read_bytes().replace(b'"schema": 1', b'"schema": 2', 1))
    assert len(copies(archive.inbox, "dtn2", "push", NOW)) == 1
    (tmp_path / "runs.sqlite").write_text("no database")
    assert len(copies(archive.inbox, "dtn2", "push", NOW)) == 1


def test_a_copy_does_not_wait_for_a_process_that_writes(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.save(copied(0))
    list(archive.newest())
    writer = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    began = datetime.now(UTC)
    assert copies(archive.inbox, "dtn2", "push", NOW) == []
    assert (datetime.now(UTC) - began).total_seconds() < 0.5
    writer.execute("ROLLBACK")
    assert len(copies(archive.inbox, "dtn2", "push", NOW)) == 1
    writer.close()


def test_an_inbox_that_grows_is_taken_in_before_copies_look_past_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    for at in range(INBOX_MOST // 2):
        archive.save(copied(at))
    take_in(archive.inbox)
    assert len(archive.inbox.files()) == INBOX_MOST // 2
    archive.save(copied(99))
    take_in(archive.inbox)
    assert archive.inbox.files() == []
    assert len(copies(archive.inbox, "dtn2", "push", NOW)) == INBOX_MOST // 2 + 1


def test_an_archive_of_before_gets_its_columns_and_its_index(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.save(copied(0))
    list(archive.newest())
    before = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)
    before.execute("DROP INDEX runs_by_path")
    for name in ("direction", "failed", "carried_bps", "carried_by_path", "others", "address", "near_host"):
        before.execute(f"ALTER TABLE runs DROP COLUMN {name}")
    before.execute("PRAGMA user_version = 3023")
    before.close()
    assert copies(archive.inbox, "dtn2", "push", NOW) == []
    take_in(archive.inbox)
    (found,) = copies(archive.inbox, "dtn2", "push", NOW)
    assert found.rate_bps == 9.2e9


def test_the_query_goes_by_the_index(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    archive.save(copied(0))
    list(archive.newest())
    database = sqlite3.connect(tmp_path / "runs.sqlite")
    values = {"path": "dtn2", "direction": "push"}
    plan = "\n".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {paths._OF_ONE}", values))
    database.close()
    assert "runs_by_path" in plan
    assert "SCAN runs" not in plan


def test_a_path_of_a_lab_that_others_were_on_is_the_same_path(tmp_path: Path) -> None:
    link = symmetric(10 * GB, 50_000_000)
    archive = Archive(tmp_path)
    archive.save(copied(0, link=link))
    archive.save(copied(1, link=link, link_stats={"cables": {"left1": {}, "left2": {}}}))
    archive.save(copied(2, link=symmetric(10 * GB, 50_000_000, loss=0.001)))
    name = paths.named("far", None, msgspec.to_builtins(link))
    assert name == "lab 10 Gb/s"
    assert len(copies(archive.inbox, name, "push", NOW)) == 2
    list(archive.newest())
    assert len(copies(archive.inbox, name, "push", NOW)) == 2


def test_the_plan_says_what_is_remembered() -> None:
    past = [PastCopy(3 * 3600.0 + at, 0.05, 9.2e9, True, None, None) for at in range(41)]
    memory = recall("dtn2", "push", past, 0.05, None)
    plan = decide(msgspec.structs.replace(PATH, memory=memory))
    said = "The archive remembers 9.20 Gb/s here, 3 h ago, 41 copies (9.20 Gb/s to 9.20 Gb/s)."
    assert plan.why.summary[-1] == said
    assert plan.why.memory == memory
    assert "The capacity" not in " ".join(plan.why.summary)
    without = decide(PATH)
    assert msgspec.structs.replace(plan, why=without.why) == without


def test_the_plan_says_when_it_is_another_route() -> None:
    memory = recall("dtn2", "push", [PastCopy(90.0, 0.02, 9e9, True, None, None)], 0.05, None)
    plan = decide(msgspec.structs.replace(PATH, memory=memory))
    said = "The archive remembers 9.00 Gb/s at 20 ms, 1 min ago, 1 copy; 50 ms is another route."
    assert plan.why.summary[-1] == said


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (7199, "1 h"), (90000, "1 day"), (9e5, "10 days")],
)
def test_ages_in_words(age_s: float, words: str) -> None:
    assert ago(age_s) == f"{words} ago"


def ran(seconds_gbps: list[float], limited: str | None = None) -> Outcome:
    """A copy that had these rates, a second each."""
    return tenths([rate for rate in seconds_gbps for _ in range(10)], limited=limited)


def tenths(
    rates_gbps: list[float], again: Collection[int] = (), limited: str | None = None, rtt_s: float = 0.05
) -> Outcome:
    """A copy of two streams that had these rates, a tenth of a second each, and sent again at these."""
    acked, resent, samples = 0.0, 0, []
    for at, rate_gbps in enumerate([*rates_gbps, 0]):
        resent += at in again
        for stream in range(2):
            changed = {
                "bytes_acked": round(acked / 2),
                "retransmissions": resent * stream,
                "limited": limited,
            }
            samples.append(sample(at / 10, stream, **changed))
        acked += rate_gbps * GB / 80
    samples = [msgspec.structs.replace(each, rtt_s=rtt_s) for each in samples]
    made = run(samples=samples).outcome
    assert made is not None
    return msgspec.structs.replace(made, bytes=round(acked), moving_s=len(rates_gbps) / 10)


def test_what_was_carried_is_the_most_of_a_clean_span() -> None:
    found = carried(ran([1, 4, 9, 9, 5]), 0.05)
    assert found is not None
    assert found.rate_bps == pytest.approx(9 * GB, rel=0.01)
    assert (found.held_by, found.rtt_s) == ("path", 0.05)


def test_a_copy_of_a_few_bytes_says_nothing_of_its_path() -> None:
    long = ran([1, 4, 9, 9, 5])
    assert carried(msgspec.structs.replace(long, bytes=2**20), 0.05) is not None
    assert carried(msgspec.structs.replace(long, bytes=2**20 - 1), 0.05) is None


def test_what_a_hole_held_back_is_not_carried() -> None:
    # Half a second of nothing, something sent again, and a round trip later all that arrived meanwhile.
    hole = [5.0] * 10 + [0.0] * 5 + [30.0] + [5.0] * 44
    for again, most_gbps in (((15,), 5.0), (range(0, 60, 5), 17.5 / 3), ((), 7.5)):
        found = carried(tenths(hole, again), 0.05)
        assert found is not None
        assert found.rate_bps == pytest.approx(most_gbps * GB, rel=0.01)


def test_holes_are_filled_for_as_long_as_a_round_trip_takes_with_its_queue() -> None:
    # Sent again at 1.5 s; a whole second later, all that arrived meanwhile.
    hole = [5.0] * 10 + [0.0] * 5 + [5.0] * 9 + [30.0] + [5.0] * 35
    for rtt_s, most_gbps in ((0.05, 7.5), (1.05, 5.0)):
        found = carried(tenths(hole, (15,), rtt_s=rtt_s), 0.05)
        assert found is not None
        assert found.rate_bps == pytest.approx(most_gbps * GB, rel=0.01)


def test_a_host_that_held_the_copy_is_told() -> None:
    for limited, held_by in (("app", "hosts"), ("rwnd", "hosts"), ("sndbuf", "hosts"), ("cwnd", "path")):
        found = carried(ran([5, 5, 5], limited=limited), 0.05)
        assert found is not None
        assert found.held_by == held_by
    found = carried(ran([5, 5, 5]), 0.05, paced=True)
    assert found is not None
    assert found.held_by == "hosts"


def test_a_short_copy_carried_nothing_that_counts() -> None:
    assert carried(ran([5]), 0.05) is None
    assert carried(ran([5, 5]), 0.05) is not None
    assert carried(ran([5, 5]), 0.5) is None
    assert least_moving_s(0.5) == 3.0


def test_a_copy_that_was_lost_on_its_way_counts_by_clean_spans_alone() -> None:
    lost = msgspec.structs.replace(ran([5, 5, 5]), restarts=1)
    assert carried(lost, 0.05) is not None
    assert carried(msgspec.structs.replace(lost, samples=[]), 0.05) is None
    assert carried(msgspec.structs.replace(ran([5, 5, 5]), samples=[]), 0.05) is not None


def test_a_connection_in_the_place_of_another_counts_from_its_own_beginning() -> None:
    whole = ran([1, 1, 1, 1, 5])
    at = 3.9
    then = {each.stream: each.bytes_acked for each in whole.samples if each.t_s == at}
    replaced = [
        each
        if each.t_s <= at
        else msgspec.structs.replace(each, bytes_acked=each.bytes_acked - then[each.stream])
        for each in whole.samples
    ]
    found = carried(msgspec.structs.replace(whole, samples=replaced, outages=1), 0.05)
    assert found is not None
    assert found.rate_bps == pytest.approx(5 * GB, rel=0.01)


@pytest.mark.parametrize(
    ("rate_bps", "carried_then"),
    [
        (9.1e9, "9.10 Gb/s"),
        (4e9, "4.00 Gb/s, less than before"),
        (9.9e9, "9.90 Gb/s, more than before"),
    ],
)
def test_the_summary_says_what_came_of_it(rate_bps: float, carried_then: str) -> None:
    past = [PastCopy(60.0, 0.05, each, True, None, None) for each in (9.2e9, 8.8e9, 9.4e9)]
    memory = recall("dtn2", "push", past, 0.05, None)
    plan = decide(msgspec.structs.replace(PATH, memory=memory))
    remembered_then = "Remembered 9.20 Gb/s (8.80 Gb/s to 9.40 Gb/s) of this path"
    assert came_of_it(copied(0, rate_bps, plan=plan)) == [f"{remembered_then}; it carried {carried_then}"]
    assert came_of_it(copied(0, rate_bps, plan=plan, carried=None)) == []
    assert came_of_it(copied(0, rate_bps)) == []
