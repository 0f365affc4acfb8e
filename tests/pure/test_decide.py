import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import LIMITS, hosts

from howdah._native import format_rate
from howdah.decide import Path, decide, shared
from howdah.values import plan, sizes
from howdah.values.path import ASSUMED_RTT_S
from howdah.values.plan import Alternative
from howdah.values.record import HostLimits

PATHS = st.builds(
    Path,
    sender=hosts(),
    receiver=hosts(),
    rtt_s=st.none() | st.floats(1e-5, 1.0),
    rtt_source=st.just("ssh connection"),
    kind=st.just("shared"),
    bytes_total=st.none() | st.integers(0, 2**45),
    encrypt=st.booleans(),
)


@given(PATHS)
def test_every_plan_can_be_saved_and_handed_back(path: Path) -> None:
    decided = decide(path)
    assert plan.loads(msgspec.json.encode(decided), "-") == decided


@given(PATHS)
def test_only_what_the_sender_may_use_and_never_bbr_beside_strangers(path: Path) -> None:
    control = decide(path).congestion_control
    sender = path.sender
    usable = sender.congestion_controls_available if sender.privileged else sender.congestion_controls_allowed
    assert control == ("cubic" if "cubic" in usable else None)


@given(PATHS)
def test_buffers_are_never_more_than_the_kernels_give(path: Path) -> None:
    asked = decide(path).buffer_bytes
    if asked is not None:
        if not path.sender.privileged:
            assert asked <= path.sender.wmem_max_bytes
        if not path.receiver.privileged:
            assert asked <= path.receiver.rmem_max_bytes


@given(PATHS)
def test_buffers_are_asked_for_where_that_gives_the_window_wanted(path: Path) -> None:
    window = sizes.windows(path)
    rtt_s = path.rtt_s or ASSUMED_RTT_S
    decided = decide(path)
    if decided.buffer_bytes is None:
        without = shared.choose_streams(rtt_s, window, path.bytes_total)
        assert without.window_bytes == window.autotuned_bytes
    elif decided.buffer_bytes <= window.autotuned_bytes:
        bdp_bytes = sizes.TARGET_RATE_BPS / 8 * rtt_s
        least = sizes.BUFFER_MIN_BYTES * decided.streams
        assert decided.buffer_bytes * decided.streams >= sizes.HEADROOM * bdp_bytes
        assert decided.buffer_bytes * decided.streams <= max(2 * bdp_bytes, least)


@given(PATHS)
def test_streams_stay_within_their_bounds(path: Path) -> None:
    streams = decide(path).streams
    assert 1 <= streams <= shared.STREAMS_FOR_WINDOW_MAX


@pytest.mark.parametrize(
    ("rtt_s", "size", "streams"),
    [(0.183, 2**20, 16), (0.183, 2**40, 16), (0.02, 2**20, 8), (0.183, 300_000, 4), (0.183, 5, 1)],
)
def test_a_small_copy_has_a_stream_for_each_block_up_to_what_a_large_one_has(
    rtt_s: float, size: int, streams: int
) -> None:
    roomy = sizes.Windows(autotuned_bytes=2**27, explicit_bytes=2**27)
    assert shared.choose_streams(rtt_s, roomy, size).streams == streams


@given(PATHS.map(lambda path: msgspec.structs.replace(path, bytes_total=None)))
def test_windows_reach_the_target_unless_the_plan_says_what_holds_it(path: Path) -> None:
    decided = decide(path)
    rtt_s = path.rtt_s or ASSUMED_RTT_S
    window_bytes = decided.buffer_bytes or sizes.windows(path).autotuned_bytes
    rate_bps = sizes.window_rate_bps(decided.streams, window_bytes, rtt_s)
    held = any("limits this transfer" in sentence for sentence in decided.why.summary)
    assert held == (rate_bps < sizes.TARGET_RATE_BPS)
    if held:
        assert decided.streams == shared.STREAMS_FOR_WINDOW_MAX


@given(hosts(), hosts(), st.floats(1e-4, 1.0), st.floats(1e-4, 1.0))
def test_a_longer_round_trip_never_takes_fewer_streams(
    sender: HostLimits, receiver: HostLimits, one_s: float, two_s: float
) -> None:
    short, long = (
        decide(Path(sender=sender, receiver=receiver, rtt_s=rtt_s)).streams
        for rtt_s in sorted((one_s, two_s))
    )
    # Explicit buffers replace streams, so only the streams of the ramp are compared.
    ramp = {streams for _, streams in shared.STREAMS_BY_RTT}
    assert long >= short or short not in ramp


@given(PATHS)
def test_the_why_names_the_round_trip_every_limit_and_what_lost(path: Path) -> None:
    why = decide(path).why
    sources = " ".join(evidence.source for evidence in why.evidence)
    for source in ("sender tcp_wmem", "receiver tcp_rmem", "sender wmem_max", "receiver rmem_max"):
        assert source in sources
    assert all(math.isfinite(e.value) for e in why.evidence if isinstance(e.value, float))
    assert why.alternatives or decide(path).streams == 1
    words = decide(path).in_words()
    assert ("could not be measured" in words) == (path.rtt_s is None)


@given(PATHS)
def test_streams_are_compared_with_one_stream_unless_there_is_only_one(path: Path) -> None:
    decided = decide(path)
    said = next(sentence for sentence in decided.why.summary if "slow start then needs" in sentence)
    if decided.streams == 1:
        assert said.startswith("1 stream: ")
        assert "one stream" not in said
    else:
        assert said.startswith(f"{decided.streams} streams: ")
        assert ", one stream " in said


@given(PATHS, st.integers(1, plan.STREAMS_MAX))
def test_where_the_streams_are_given_the_buffers_are_for_so_many(path: Path, streams: int) -> None:
    window, rtt_s = sizes.windows(path), path.rtt_s or ASSUMED_RTT_S
    decided = decide(msgspec.structs.replace(path, streams=streams))
    assert decided.streams == streams
    needed = sizes.HEADROOM * sizes.TARGET_RATE_BPS / 8 * rtt_s
    if window.explicit_bytes * streams > max(needed + streams, sizes.BUFFER_MIN_BYTES * streams):
        assert (decided.buffer_bytes or 0) * streams >= needed
    window_bytes = decided.buffer_bytes or window.autotuned_bytes
    rate = format_rate(sizes.window_rate_bps(streams, window_bytes, rtt_s))
    (said,) = (each for each in decided.why.summary if each.lower().find("buffers ") >= 0)
    assert rate in said


def test_one_stream_is_judged_by_the_window_that_it_could_have() -> None:
    here = msgspec.structs.replace(LIMITS, privileged=True)
    path = Path(sender=here, receiver=here, rtt_s=0.1)
    assert against_one(path) == "each loss halves all of its rate"
    narrow = msgspec.structs.replace(LIMITS, wmem_max_bytes=10**7, rmem_max_bytes=10**7, privileged=False)
    path = Path(sender=narrow, receiver=narrow, rtt_s=0.1)
    assert decide(path).why.alternatives
    alone = decide(msgspec.structs.replace(path, streams=1))
    one_bps = sizes.window_rate_bps(1, alone.buffer_bytes or sizes.windows(path).autotuned_bytes, 0.1)
    assert against_one(path).startswith(f"its window carries at most {format_rate(one_bps)}, and each loss")


def against_one(path: Path) -> str:
    (said,) = (each.why_not for each in decide(path).why.alternatives if each.what == "one stream")
    return said


def test_the_streams_that_the_plan_would_have_chosen_are_told() -> None:
    path = Path(sender=LIMITS, receiver=LIMITS, rtt_s=0.1)
    own = decide(path).streams
    given_one = decide(msgspec.structs.replace(path, streams=1)).why.alternatives
    assert (
        Alternative(what=f"{own} streams", why_not="chosen by the plan, but another number was given")
        in given_one
    )
    same = decide(msgspec.structs.replace(path, streams=own)).why.alternatives
    assert not any("another number was given" in each.why_not for each in same)


@given(st.integers(1, 64), st.none() | st.integers(0, 2**45))
def test_every_stream_gets_several_blocks_of_a_large_transfer(streams: int, total: int | None) -> None:
    block_bytes = sizes.choose_block(streams, total)
    assert plan.BLOCK_BYTES_MIN <= block_bytes <= sizes.BLOCK_BYTES
    assert block_bytes.bit_count() == 1
    if total is not None and block_bytes > plan.BLOCK_BYTES_MIN:
        assert total >= block_bytes * streams * sizes.BLOCKS_PER_STREAM_MIN


@pytest.mark.parametrize(
    ("rtt_s", "streams", "round_trips"), [(0.02, 1, 11), (0.1, 1, 14), (0.1, 8, 11), (0.0, 1, 0)]
)
def test_slow_start_by_hand(rtt_s: float, streams: int, round_trips: int) -> None:
    # 10 Gb/s × 100 ms is 125 MB, 8633 initial windows: 2^13 < 8633 < 2^14.
    assert sizes.ramp_round_trips(streams, rtt_s) == round_trips
