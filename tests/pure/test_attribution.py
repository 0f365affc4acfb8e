"""Where the time of a copy went, from counters alone."""

import re
from typing import Any

import msgspec
import pytest
from samples import run

from howdah.remote.endpoints import route
from howdah.transfer import attributing
from howdah.transfer.request import Request
from howdah.values.attribution import Asked, of_outcome, of_progress, thread
from howdah.values.bottleneck import Bottleneck, Cause, Share, without_rests
from howdah.values.listened import Dip, HeardThen, Listened
from howdah.values.outcome import Change, Outcome, Sample, Spent, StreamOutcome
from howdah.values.record import Shared, ShareSample
from howdah.words.bottleneck import Ends, details, line
from howdah.words.copy import summary

MOVING_S = 10.0
"""The streams are at work for so long, one second after the start, and end half a second before the copy."""


def spent(ran: dict[str, float] | None = None, **wall: float) -> Spent:
    """A thread's time; what only computes ran all the time unless ``ran`` says otherwise."""
    computes = {doing: wall[doing] for doing in ("digest", "rest") if doing in wall}
    return Spent(wall_s={"start": 1.0, **wall}, cpu_s={**computes, **(ran or {})}, busy_s=MOVING_S)  # type: ignore[dict-item]


def outcome(sender: Spent, receiver: Spent, **fields: object) -> Outcome:
    one = StreamOutcome(
        bytes=10**9, retransmissions=0, congestion_control="cubic", sender=sender, receiver=receiver
    )
    values: dict[str, Any] = {
        "direction": "push",
        "bytes": 10**9,
        "files": 1,
        "folders": 0,
        "links": 0,
        "files_skipped": 0,
        "bytes_skipped": 0,
        "elapsed_s": MOVING_S + 1.5,
        "setup_s": 1.0,
        "moving_s": MOVING_S + 0.5,
        "encrypted": True,
        "streams": [one],
    }
    return Outcome(**(values | fields))


MANY = {"files": 10_000, "bytes": 10**7}
"""Small files."""


def found(sender: Spent, receiver: Spent, asked: Asked | None = None, **fields: object) -> Bottleneck:
    made = of_outcome(outcome(sender, receiver, **fields), asked or Asked())
    assert made is not None
    assert sum(share.share for share in made.shares) == pytest.approx(1.0)
    assert all(share.share >= 0 for share in made.shares)
    return made


def share(of: Bottleneck, cause: Cause) -> float:
    return sum(each.share for each in of.shares if each.cause is cause)


WAITS = spent(socket=9.0, digest=0.5, rest=0.5)
"""An end that waits for the network."""

CASES = {
    Cause.SOURCE_DISK: (spent(disk=9.0, digest=0.5, rest=0.5), WAITS),
    Cause.SOURCE_CPU: (spent(digest=8.0, rest=1.0, disk=1.0), WAITS),
    Cause.SEALING: (spent(digest=1.0, rest=8.0, disk=1.0), WAITS),
    Cause.PACING: (spent(turn=9.0, digest=0.5, rest=0.5), WAITS),
    Cause.SMALL_FILES: (spent(opening=3.0, waiting=6.0, digest=0.5, rest=0.5), WAITS),
    Cause.PATH: (WAITS, WAITS),
    Cause.RECEIVER_CPU: (WAITS, spent(digest=5.0, rest=4.0, socket=1.0)),
    Cause.RECEIVER_DISK: (WAITS, spent(disk=5.0, flush=4.0, digest=1.0)),
}


@pytest.mark.parametrize("cause", CASES)
def test_the_part_that_was_busy_is_named(cause: Cause) -> None:
    made = found(*CASES[cause], **(MANY if cause is Cause.SMALL_FILES else {}))
    assert made.main is not None
    assert made.main.cause is cause
    # Start and end are 1.5 s of 11.5.
    assert made.main.share == pytest.approx(0.9 * 10 / 11.5, abs=0.12)
    assert made.is_worth_a_line


def test_what_both_wait_for_is_told_by_the_sockets() -> None:
    rwnd = Spent(wall_s=WAITS.wall_s, cpu_s=WAITS.cpu_s, busy_s=10.0, rwnd_limited_s=8.5)
    buffer = Spent(wall_s=WAITS.wall_s, cpu_s=WAITS.cpu_s, busy_s=10.0, sndbuf_limited_s=8.0)
    for sender in (rwnd, buffer):
        main = found(sender, WAITS).main
        assert main is not None
        assert main.cause is Cause.WINDOW
    # A window that a slow disk closes is the disk's.
    main = found(rwnd, CASES[Cause.RECEIVER_DISK][1]).main
    assert main is not None
    assert main.cause is Cause.RECEIVER_DISK
    paced = found(WAITS, WAITS, Asked(pacing_bps=0.81e9))
    assert share(paced, Cause.PACING) > 0.6
    not_reached = found(WAITS, WAITS, Asked(pacing_bps=2e9))
    assert share(not_reached, Cause.PACING) == 0.0


def sample(t_s: float, cwnd: int, **fields: object) -> Sample:
    values = {
        "stream": 0,
        "bytes_acked": round(t_s * 1e8),
        "rtt_s": 0.2,
        "min_rtt_s": 0.2,
        "retransmissions": 0,
    }
    values |= {"delivery_rate_bps": 8e8, "notsent_bytes": 0}
    return Sample(t_s=t_s, cwnd=cwnd, **(values | fields))


def test_a_copy_that_ends_in_slow_start_was_held_back_by_its_start() -> None:
    grows = [sample(1.0 + step, 10 << step) for step in range(10)]
    main = found(WAITS, WAITS, samples=grows).main
    assert main is not None
    assert main.cause is Cause.START
    left = [sample(1.0 + step, 1000, ssthresh=500) for step in range(10)]
    assert share(found(WAITS, WAITS, samples=left), Cause.START) == pytest.approx(1 / 11.5, abs=0.01)


def test_no_slow_start_is_not_told() -> None:
    (start,) = (each for each in found(*CASES[Cause.PATH]).shares if each.cause is Cause.START)
    assert start.evidence == "login and handshakes 1 s"


def test_time_without_a_processor_is_no_time_of_the_disk() -> None:
    """Reads from the page cache take as long as the thread waits for a core."""
    starved = spent({"digest": 0.3, "rest": 0.3, "disk": 0.4}, digest=3.0, rest=3.0, disk=4.0)
    told = msgspec.structs.replace(starved, delayed_s=9.0)
    for each in (starved, told):
        one = thread(each, encrypted=False)
        assert one.disk_s == pytest.approx(0.0, abs=1e-9)
        main = found(each, WAITS, encrypted=False).main
        assert main is not None
        assert main.cause is Cause.SOURCE_CPU
    slow = spent({"disk": 0.1}, digest=0.5, rest=0.5, disk=9.0)
    assert thread(slow, encrypted=False).disk_s == pytest.approx(8.9)


def test_threads_that_waited_for_a_processor_are_told_so() -> None:
    starved = spent({"digest": 0.3, "rest": 0.3, "disk": 0.4}, digest=3.0, rest=3.0, disk=4.0)
    told = details(found(msgspec.structs.replace(starved, delayed_s=9.0), WAITS))
    short = "of the sender's time; that host was short of processors: its threads took 10.0 times as long as"
    assert any(f"{short} they computed" in each for each in told)


def test_a_limit_of_the_processor_also_strikes_where_a_thread_goes_to_sleep() -> None:
    """A thread that its cgroup stops is often found in the call that sent its data."""
    stopped = msgspec.structs.replace(
        spent({"digest": 0.3, "rest": 0.3, "socket": 0.3}, digest=1.0, rest=1.0, socket=8.0), delayed_s=9.0
    )
    one = thread(stopped, encrypted=True)
    assert one.waits_s < 0.2
    assert one.all_s == pytest.approx(10.0)
    assert one.sealing_s == pytest.approx(one.cpu_s, rel=0.1)


def test_flushes_at_the_end_are_the_disks_and_the_rest_of_the_end_is_the_end() -> None:
    busy = spent(socket=1.0, digest=0.5, rest=0.5)
    made = found(busy, busy, elapsed_s=12.0, finishing_s=8.5)
    assert share(made, Cause.RECEIVER_DISK) == pytest.approx(8.5 / 12.0, abs=0.01)
    assert share(made, Cause.END) == pytest.approx(0.5 / 12.0, abs=0.01)


def test_waits_for_names_are_the_price_of_small_files() -> None:
    names = spent(naming=9.0, socket=1.0)
    both = Spent(wall_s={"naming": 3.0, "flush": 6.0})
    assert share(found(WAITS, names, naming=both, **MANY), Cause.SMALL_FILES) > 0.7
    large = found(WAITS, names, naming=both, files=1000, bytes=10**9)
    assert share(large, Cause.RECEIVER_DISK) == pytest.approx(2 * share(large, Cause.SMALL_FILES))


def test_the_gain_is_bounded_by_the_next_part_and_by_what_the_path_has_given() -> None:
    alone = found(*CASES[Cause.SOURCE_DISK])
    assert alone.faster == pytest.approx(11.5 / 2.5, rel=0.02)
    next_busy = found(spent(disk=9.0, digest=1.0), spent(disk=8.0, socket=2.0))
    assert next_busy.faster == pytest.approx(11.5 / 8, rel=0.02)
    known = found(*CASES[Cause.SOURCE_DISK], Asked(known_bps=8e9 / 11.5 * 1.05))
    assert known.faster == pytest.approx(1.05, rel=0.01)
    assert not known.is_worth_a_line


def test_a_path_that_gave_no_more_before_is_not_worth_a_line() -> None:
    full = found(*CASES[Cause.PATH])
    assert full.main is not None
    assert full.main.cause is Cause.PATH
    assert full.is_worth_a_line
    assert full.rate_bps is not None
    for known_bps, times in ((0.5 * full.rate_bps, 1.0), (1.5 * full.rate_bps, 1.5)):
        other = found(*CASES[Cause.PATH], Asked(known_bps=known_bps))
        assert other.faster == pytest.approx(min(times, full.faster))


def test_counters_of_a_liar_break_nothing() -> None:
    huge = Spent(wall_s={"socket": 3e8, "disk": 3e8}, cpu_s={"disk": 3e8, "digest": 3e8}, rwnd_limited_s=3e14)
    nothing = Spent()
    for sender in (huge, WAITS):
        for receiver in (huge, nothing):
            found(sender, receiver, finishing_s=3e8)
    assert of_outcome(outcome(nothing, nothing), Asked()) is None


def test_the_sentence_has_the_share_the_rate_and_the_gain() -> None:
    made = found(*CASES[Cause.RECEIVER_DISK], Asked(known_bps=9.2e9))
    ends = Ends.of(outcome(*CASES[Cause.RECEIVER_DISK]), "dtn2", None)
    said = line(made, ends)
    assert said is not None
    assert said.startswith("The disk of dtn2 took 78% of the time: 800 Mb/s; this path has given 9.20 Gb/s.")
    assert "faster disk: up to" in said
    assert line(None, ends) is None
    told = details(made)
    assert told[0] == "Where the time went:"
    assert any("receiver's disk: writing" in each for each in told)


def test_a_copy_under_way_is_told_without_start_and_end() -> None:
    sender, receiver = CASES[Cause.RECEIVER_DISK]
    shares = of_progress(sender, receiver, Asked(), encrypted=True, mean_bytes=1e9)
    assert shares[0].cause is Cause.RECEIVER_DISK
    assert of_progress(Spent(), Spent(), Asked(), encrypted=True, mean_bytes=0.0) == []


def test_opening_a_single_file_for_long_is_the_disks() -> None:
    slow = spent(opening=8.0, socket=1.0, digest=0.5, rest=0.5)
    assert share(found(slow, WAITS), Cause.SOURCE_DISK) > 0.6
    assert share(found(WAITS, slow), Cause.RECEIVER_DISK) > 0.6


def test_bursts_of_a_slow_end_are_not_the_paths() -> None:
    """The socket had nothing to carry most of the time, though its thread waited for it now and then."""
    bursts = spent(disk=6.0, socket=3.5, digest=0.25, rest=0.25)
    times_s = [1.0 + step / 10 for step in range(100)]
    half = [sample(t_s, 600, ssthresh=500, limited="cwnd" if t_s < 5 else "app") for t_s in times_s]
    idle = found(bursts, WAITS, samples=half)
    busy = found(bursts, WAITS, samples=[sample(t_s, 600, ssthresh=500, limited="cwnd") for t_s in times_s])
    assert share(idle, Cause.SOURCE_DISK) > share(busy, Cause.SOURCE_DISK) + 0.1
    assert share(idle, Cause.PATH) < share(busy, Cause.PATH) - 0.1


def test_a_stream_that_goes_on_alone_tells_what_the_copy_took() -> None:
    """Four streams get the bytes of a file in a second each, and one of them flushes it for nine more."""
    short = spent(socket=0.9, digest=0.1)
    ends = [
        (spent(socket=9.9, digest=0.1), spent(socket=0.9, digest=0.1, flush=9.0)),
        *[(short, short)] * 3,
    ]
    one = outcome(*ends[0]).streams[0]
    streams = [msgspec.structs.replace(one, sender=sends, receiver=receives) for sends, receives in ends]
    made = of_outcome(outcome(*ends[0], streams=streams), Asked())
    assert made is not None
    alone = found(*ends[0])
    assert share(made, Cause.RECEIVER_DISK) == pytest.approx(9.0 / made.total_s, abs=0.01)
    for cause in Cause:
        assert share(made, cause) == pytest.approx(share(alone, cause), abs=0.01)


RESTS = Change(t_s=2.0, streams=1, why="the plan")
"""One second after the first byte, one stream goes on."""


def test_a_stream_that_rests_waits_for_no_file() -> None:
    """Three of four streams rest for nine of ten seconds, in which the first one sends a large file alone."""
    alone = (spent(disk=9.0, socket=0.5, digest=0.5), spent(socket=9.5, digest=0.5))
    rest = (spent(waiting=9.0, disk=0.9, socket=0.05, digest=0.05), spent(socket=9.95, digest=0.05))
    one = outcome(*alone).streams[0]
    streams = [
        msgspec.structs.replace(one, sender=sends, receiver=receives)
        for sends, receives in (alone, rest, rest, rest)
    ]
    works = [sample(1.0 + step / 10, 600, ssthresh=500, limited="cwnd") for step in range(100)]
    # What ends a stream is acknowledged with the last sample.
    rests = [
        sample(
            1.0 + step / 10,
            600,
            ssthresh=500,
            limited="cwnd" if step < 10 else "app",
            stream=stream,
            bytes_acked=round(1e7 * min(10, step)) + step // 99,
        )
        for stream in (1, 2, 3)
        for step in range(100)
    ]
    made = of_outcome(outcome(*alone, streams=streams, samples=works + rests, changes=[RESTS]), Asked())
    assert made is not None
    expected = found(*alone, samples=works)
    for cause in Cause:
        assert share(made, cause) == pytest.approx(share(expected, cause), abs=0.01)


def test_streams_work_until_they_rest_and_when_they_no_longer_do() -> None:
    again = Change(t_s=5.0, streams=2, why="the plan")
    refused = Change(t_s=3.0, streams=0, why="the plan", refused="no")
    waits = spent(waiting=9.0, socket=1.0)
    one = outcome(waits, WAITS).streams[0]
    made = without_rests(outcome(waits, WAITS, streams=[one] * 3, changes=[RESTS, refused, again]))
    left_s = [stream.sender.wall_s["waiting"] for stream in made.streams]
    # From 2 s to 5 s, and from 2 s to the end.
    assert left_s == [9.0, pytest.approx(6.0), 0.0]
    receiver = [
        None if stream.receiver is None else stream.receiver.wall_s["socket"] for stream in made.streams
    ]
    assert receiver == [9.0, pytest.approx(6.0), 0.0]
    as_it_was = outcome(waits, WAITS, streams=[one] * 3)
    assert without_rests(as_it_was) is as_it_was


def test_no_wait_of_a_copy_of_large_files_is_one_for_small_files() -> None:
    waits = spent(waiting=8.0, socket=1.0, digest=0.5, rest=0.5)
    assert share(found(waits, WAITS), Cause.SMALL_FILES) == 0.0
    # Nor is one of a single file, whatever its size.
    assert share(found(waits, spent(naming=9.0, socket=1.0), bytes=10**5), Cause.SMALL_FILES) == 0.0
    # It waits for the scan of many that are there.
    assert share(found(waits, WAITS, files_skipped=10**6), Cause.SMALL_FILES) > 0.5
    under_way = of_progress(waits, WAITS, Asked(), encrypted=True, mean_bytes=1e9)
    assert sum(each.share for each in under_way if each.cause is Cause.SMALL_FILES) == 0.0
    assert sum(each.share for each in under_way) == pytest.approx(1.0)


def test_where_nothing_moved_nothing_is_to_be_mended() -> None:
    nothing = {"bytes": 0, "moving_s": None, "files_skipped": 12}
    for files in (0, 1):
        quick = outcome(spent(rest=1e-4), spent(rest=1e-4), elapsed_s=1.01, files=files, **nothing)
        made = of_outcome(quick, Asked(connect_s=2.0))
        assert line(made, Ends("this host", "dtn2")) is None
    assert of_outcome(outcome(*CASES[Cause.SMALL_FILES], **nothing, files=0), Asked()) is None


def test_the_gain_is_never_more_than_the_capacity_that_was_measured() -> None:
    full = found(*CASES[Cause.PATH])
    assert full.rate_bps is not None
    for known_bps in (None, 6 * full.rate_bps):
        measured = Asked(known_bps=known_bps, capacity_bps=2 * full.rate_bps)
        made = found(*CASES[Cause.PATH], measured)
        assert made.faster == pytest.approx(2.0)
        said = line(made, Ends("this host", "dtn2"))
        assert said is not None
        assert "800 Mb/s; this path carries 1.60 Gb/s. To mend it" in said
    slower = found(*CASES[Cause.PATH], Asked(known_bps=1.5 * full.rate_bps, capacity_bps=2 * full.rate_bps))
    assert slower.faster == pytest.approx(1.5)


@pytest.mark.parametrize("direction", ["push", "pull"])
@pytest.mark.parametrize(
    ("way", "cause", "named"),
    [
        ({"by_far_end": "10.9.0.2:43211: no answer"}, Cause.START, True),
        ({"other_address": "[fd77::2]:43211 (10.9.0.2:43211: no answer)"}, Cause.START, True),
        ({"through_ssh": "10.9.0.2:43211: no answer"}, Cause.START, True),
        ({"through_ssh": "10.9.0.2:43211: no answer"}, Cause.PATH, True),
        ({"through_ssh": "10.9.0.2:43211: no answer"}, Cause.END, True),
        ({"by_far_end": "10.9.0.2:43211: no answer"}, Cause.PATH, False),
        ({"through_ssh": "10.9.0.2:43211: no answer"}, Cause.SOURCE_DISK, False),
        ({}, Cause.START, False),
    ],
)
def test_a_closed_data_port_is_named_where_it_cost_the_time(
    direction: str, way: dict[str, str], cause: Cause, named: bool
) -> None:
    ends = Ends.of(outcome(WAITS, WAITS, direction=direction, **way), "dtn2", None)
    main = Share(cause=cause, share=0.65, evidence="")
    said = line(Bottleneck(total_s=20.0, shares=[main], rate_bps=1e9, known_bps=9e9, faster=2.5), ends)
    assert said is not None
    port = "To mend it, have the data port opened, as howdah doctor dtn2 says: up to 2.5 times as fast"
    assert said.endswith(port) is named
    assert (", with the data port closed, took 65% of the time" in said) is named
    assert ("doctor" in said) is named


@pytest.mark.parametrize(("faster", "told"), [(2.04, "2"), (36.4, "36"), (99.6, "100"), (1e5, "100")])
def test_the_gain_is_told_in_two_digits(faster: float, told: str) -> None:
    main = Share(cause=Cause.START, share=0.99, evidence="")
    found = Bottleneck(total_s=20.0, shares=[main], rate_bps=1e9, known_bps=9e9, faster=faster)
    said = line(found, Ends("this host", "dtn2"))
    assert said is not None
    assert said.endswith(f": up to {told} times as fast")


def test_the_option_of_buffers_is_named_only_where_it_was_given() -> None:
    main = Share(cause=Cause.WINDOW, share=0.9, evidence="")
    made = Bottleneck(total_s=20.0, shares=[main], rate_bps=1e9, known_bps=9e9, faster=2.5)
    ends = Ends("this host", "dtn2")
    said, given = line(made, ends), line(made, ends, buffer_given=True)
    assert said is not None
    assert given is not None
    assert "To mend it, raise what howdah doctor names at both hosts: " in said
    assert "To mend it, leave --buffer out, and raise what howdah doctor names at both hosts: " in given


def test_of_a_path_that_nobody_has_measured_no_gain_is_told() -> None:
    ends = Ends("this host", "dtn2")
    said = line(found(*CASES[Cause.PATH]), ends)
    assert said is not None
    assert said.endswith("howdah sweep what other plans get of it")
    known = line(found(*CASES[Cause.PATH], Asked(known_bps=9.2e9)), ends)
    assert known is not None
    assert "plans get of it: up to" in known


def test_beside_others_the_path_gives_no_more_than_it_gave() -> None:
    full = found(*CASES[Cause.PATH])
    assert full.rate_bps is not None
    arrived = Asked(arrived_bps=1.5 * full.rate_bps)
    made = found(*CASES[Cause.PATH], arrived)
    assert (made.faster, made.known_bps) == (pytest.approx(1.5), arrived.arrived_bps)
    before = found(*CASES[Cause.PATH], msgspec.structs.replace(arrived, known_bps=2 * full.rate_bps))
    assert before.faster == pytest.approx(2.0)
    # What a disk let arrive says nothing of the path.
    disk = CASES[Cause.SOURCE_DISK]
    assert found(*disk, arrived).faster == found(*disk).faster


def test_what_arrived_at_most_is_no_capacity_unless_it_was_measured() -> None:
    told = Dip(begin_s=5.0, end_s=5.3, rate_bps=1e9, bound_bps=2e8, capacity_bps=2.7e8)
    for dips, known in (
        ([told], 2.7e8),
        ([msgspec.structs.replace(told, capacity_bps=None)], None),
        ([], None),
    ):
        listened = Listened(by="tcp_info", fairness=0.5, capacity_bps=2.7e8, dips=dips)
        record = msgspec.structs.replace(run(), listened=listened)
        request = Request([], route(["run42", "dtn2:"], memory=False))
        made = attributing.found(record, outcome(*CASES[Cause.PATH]), request)
        assert made is not None
        assert made.capacity_bps == known
        beside = HeardThen(t_s=6.0, background="1 bbr", probability=0.9)
        crowded = msgspec.structs.replace(record, listened=msgspec.structs.replace(listened, heard=[beside]))
        made = attributing.found(crowded, outcome(*CASES[Cause.PATH]), request)
        assert made is not None
        assert (made.capacity_bps, made.known_bps) == (known, None if known else 2.7e8)


def test_a_bound_that_a_copy_has_found_itself_is_no_limit() -> None:
    """It is what the path carries, so nobody can raise it."""
    bound_bps = round(8e9 / 11.5)
    change = Change(t_s=3.0, streams=1, pacing_bps=bound_bps, why="nobody else fills the path")
    ended = outcome(*CASES[Cause.PATH], changes=[change])
    request = Request([], route(["run42", "dtn2:"], memory=False))
    heard = msgspec.structs.replace(run(), listened=Listened(by="tcp_info", fairness=0.5))
    for record, cause in ((heard, Cause.PATH), (run(), Cause.PACING)):
        made = attributing.found(record, ended, request)
        assert made is not None
        assert made.main is not None
        assert made.main.cause is cause


def test_a_copy_that_a_rule_holds_to_a_share_waits_for_the_share() -> None:
    held = outcome(*CASES[Cause.PATH], congestion_control="hd_hold", moving_s=11.5)
    request = Request([], route(["run42", "dtn2:"], memory=False))
    made = attributing.found(run(), held, request)
    assert made is not None
    assert made.main is not None
    assert made.main.cause is Cause.PACING


def shared(*shares_bps: int | None) -> Shared:
    return Shared(
        controller="a",
        policy="lsst",
        traffic_class="images",
        flow="images/dtn1",
        asked=True,
        waited_s=0.1,
        samples=[ShareSample(t_s=float(at), share_bps=share) for at, share in enumerate(shares_bps)],
    )


def test_a_share_that_is_withdrawn_on_the_way_is_blamed_and_not_the_path() -> None:
    ended = outcome(*CASES[Cause.PATH])
    rate_bps = round(found(*CASES[Cause.PATH]).rate_bps or 0)
    request = Request([], route(["run42", "dtn2:"], memory=False))
    for shares_bps, cause in (
        ((10 * rate_bps, *[8000] * 20), Cause.PACING),
        # Its controller was gone for most of the time.
        ((10 * rate_bps, *[None] * 20), Cause.PACING),
        ((10 * rate_bps,) * 20, Cause.PATH),
        ((*[10 * rate_bps] * 20, None), Cause.PATH),
        ((rate_bps, 0, rate_bps), Cause.PATH),
    ):
        record = msgspec.structs.replace(run(), share=shared(*shares_bps))
        made = attributing.found(record, ended, request)
        assert made is not None
        assert made.main is not None
        assert (made.main.cause, made.by_share) == (cause, True)


def test_the_summary_counts_the_seconds_in_which_nobody_told_the_share() -> None:
    record = msgspec.structs.replace(run(), outcome=outcome(*CASES[Cause.PATH]))
    gone = " (not known in 2 of 3 seconds)"
    for shares_bps, unknown in (((60_000_000, None, None), gone), ((60_000_000,), "")):
        said = summary(msgspec.structs.replace(record, share=shared(*shares_bps)), None)
        assert f"Share: images/dtn1 of lsst, 60.0 Mb/s on the wire{unknown}, in force " in said


def test_of_a_share_no_more_is_promised_than_it_can_become_and_of_a_limit_nothing() -> None:
    free = found(*CASES[Cause.PATH])
    assert free.rate_bps is not None
    ends = Ends("this host", "dtn2")
    paced = {"pacing_bps": free.rate_bps}
    by_share = found(*CASES[Cause.PATH], Asked(**paced, by_share=True, share_most_bps=3 * free.rate_bps))
    assert by_share.faster == pytest.approx(3.0)
    said = line(by_share, ends)
    assert said is not None
    assert said.startswith("The share took ")
    assert said.endswith("To mend it, raise the share: up to 3 times as fast")
    said = line(found(*CASES[Cause.PATH], Asked(**paced)), ends)
    assert said is not None
    assert said.startswith("The limit took ")
    assert said.endswith("To mend it, raise the limit")


@pytest.mark.parametrize("replaced", [False, True], ids=["connections stay", "connections replaced"])
def test_an_outage_is_no_fault_of_the_plan(replaced: bool) -> None:
    """Where connections were replaced, nobody booked the time between the old one and the new one."""
    waited_s = 1.0 if replaced else 9.0
    waits = spent(socket=waited_s, digest=0.5, rest=0.5)
    receives = spent(socket=waited_s + 1.0)
    made = found(waits, receives, outages=1, outage_s=8.0, connections_replaced=4 * replaced)
    assert made.main is not None
    assert made.main.cause is Cause.OUTAGE
    assert made.main.share == pytest.approx(8.0 / made.total_s, abs=0.01)
    assert share(made, Cause.PATH) == pytest.approx(1.0 / made.total_s, abs=0.01)
    assert share(made, Cause.END) == pytest.approx(0.5 / made.total_s, abs=0.01)
    assert line(made, Ends("this host", "dtn2")) is None
    assert any("outage: no answer for 8 s" in each for each in details(made))
    for short in (WAITS, CASES[Cause.SOURCE_DISK][0]):
        assert found(short, WAITS, outages=1, outage_s=1.0).main != made.main


def test_the_start_has_no_rate_of_its_own() -> None:
    small = found(spent(socket=0.8, digest=0.2), WAITS, Asked(connect_s=8.0), elapsed_s=2.3)
    said = line(small, Ends("this host", "dtn2"))
    assert said is not None
    assert re.match(r"The start took \d\d% of the time\. To mend it", said)
