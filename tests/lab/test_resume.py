"""Careful Resume over emulated paths: how soon a path is full, and what a jump costs others."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from controls import clean_kernel, good, refused, take_all_away

from bench import first_ends
from bench.first_ends import Begun
from howdah import lab
from howdah.cc import programs
from howdah.cc.resume import Saved

pytestmark = pytest.mark.lab

PORT = 7021
RATE_BPS, RTT_S = 1_000_000_000, 0.1
CAPACITY_BYTES = round(RATE_BPS * RTT_S / 8)
SAVED = Saved(capacity_bytes=CAPACITY_BYTES, rtt_s=RTT_S)
SPAN_S = 0.05
QUEUE_AFTER_S = 3.5
"""By then CUBIC has grown beyond what the path holds, wherever HyStart has ended its slow start."""
NEARLY = 0.8
"""Of the rate on the wire, what is payload, and what a busy machine lets through."""


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture(autouse=True)
def loaded(kernel: None) -> Iterator[None]:
    programs.load("resume")
    yield
    take_all_away()


def over(rate_bps: int, control: str, span_s: float, queue_bytes: int | None = None) -> Begun:
    """A connection that begins alone, under hd_resume with a memory of a path of RATE_BPS."""
    saved = SAVED if control == "hd_resume" else None
    with lab.started(lab.symmetric(rate_bps, round(RTT_S * 1e9), queue_bytes=queue_bytes)) as wan:
        return first_ends.begun(wan, PORT, control, span_s, saved)


def full_after_s(begun: Begun) -> float:
    """When the path was first nearly full for a while."""
    spans = [SPAN_S * number for number in range(1, 60)]
    rates = {at_s: begun.rate_bps(at_s - SPAN_S, at_s) for at_s in spans}
    return next((at_s for at_s, bps in rates.items() if bps >= NEARLY * RATE_BPS), float("inf"))


def test_a_second_connection_fills_the_path_in_half_the_time() -> None:
    first, second = over(RATE_BPS, "cubic", 1.8), over(RATE_BPS, "hd_resume", 1.0)
    assert second.memory is not None
    assert (second.memory.jumps, second.memory.validated) == (1, 1)
    assert full_after_s(first) > 2 * full_after_s(second)


def test_a_jump_that_does_not_fit_retreats_within_a_round_trip_of_the_first_loss() -> None:
    begun = over(RATE_BPS // 3, "hd_resume", 1.2, CAPACITY_BYTES // 16)
    assert begun.memory is not None
    assert (begun.memory.jumps, begun.memory.retreats, begun.memory.validated) == (1, 1, 0)
    lost_ns, most = next((now_ns, window) for now_ns, window, lost in begun.looks if lost)
    fallen_ns = next(
        now_ns for now_ns, window, lost in begun.looks if lost and window <= max(most, 4_000) * 0.6
    )
    assert fallen_ns - lost_ns <= RTT_S * 1e9


def beside(control: str) -> tuple[Begun, Begun]:
    """A connection beside an older one under CUBIC, on a path that has halved: the older and the newer."""
    queue_bytes = CAPACITY_BYTES // 2
    with (
        lab.started(lab.symmetric(RATE_BPS // 2, round(RTT_S * 1e9), queue_bytes=queue_bytes)) as wan,
        first_ends.taking(wan, PORT + 1) as far,
        first_ends.sending(wan, PORT + 1, "cubic", 5.5) as near,
        ThreadPoolExecutor(2) as pool,
    ):
        looks, taken = (pool.submit(end.communicate, timeout=60) for end in (near, far))
        time.sleep(QUEUE_AFTER_S)
        newer = first_ends.begun(wan, PORT, control, 1.5, SAVED if control == "hd_resume" else None)
        return first_ends.read(taken.result()[0], looks.result()[0]), newer


def both_lost(older: Begun, newer: Begun) -> int:
    """Segments that both have lost since the newer one began; the older one's slow start had its own losses.

    What is lost and not yet sent again counts twice for a moment, so the older one's count can fall.
    """
    began_ns = newer.looks[0][0]
    before = [lost for now_ns, _, lost in older.looks if now_ns < began_ns][-1]
    return max(0, older.lost - before) + newer.lost


def test_beside_a_neighbour_it_costs_no_more_than_slow_start() -> None:
    with ThreadPoolExecutor(2) as pool:
        plain, resumed = pool.map(beside, ("cubic", "hd_resume"))
    newer = resumed[1]
    assert newer.memory is not None
    # The neighbour's queue stands on the path, which the round trips of the first window show.
    assert newer.memory.jumps == 0
    assert both_lost(*resumed) <= 1.25 * both_lost(*plain) + 50


def test_a_memory_is_set_and_taken_away_on_the_command_line() -> None:
    where = ("--to", "192.0.2.0/24", "--port", "5201")
    carried = ("--rate", "1Gbit", "--rtt", "100ms", "--streams", "4", "--for", "10min")
    assert good("set", "resume", *where, *carried)["saved"] == {
        "capacity_bytes": CAPACITY_BYTES,
        "rtt_s": RTT_S,
        "streams": 4,
        "jump_part": None,
        "valid_s": 600.0,
        "then": "cubic",
    }
    (known,) = good("status")["memories"]
    assert (known["to"], known["port"]) == ("192.0.2.0/24", 5201)
    assert good("set", "resume", *where, "--none")["jumps"] == 0
    gone = refused("set", "resume", *where, "--none")
    assert "nothing is remembered of --to 192.0.2.0/24 --port 5201" in gone
    for words, says, code in (
        ("set resume --rate 1Gbit --rtt 1ms", "of which destination: --to", 2),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit", "--rate RATE and --rtt TIME", 2),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit --rtt 1ms --window 3", "takes no --window", 2),
        ("set resume --to 192.0.2.0/24 --rate 1Gbit --rtt 1ms --then vegas", "not in this kernel", 1),
        ("set hold --rate 1Gbit --to 192.0.2.0/24", "hold takes no --to", 2),
    ):
        assert says in refused(*words.split(), code=code)
