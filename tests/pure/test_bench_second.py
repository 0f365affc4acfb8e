import pytest

from bench import second

GBPS = 10**9


def run(wall_s: float, size: int, *, first: bool = False, resumed: bool = True) -> dict[str, object]:
    return {
        "rate_bps": 5 * GBPS,
        "rtt_ms": 183,
        "first": first,
        "bytes": size,
        "wall_s": wall_s,
        "resumed": {"jumps": 16} if resumed else None,
        "began_alone": not resumed,
        "link_spoilt": False,
    }


def test_the_limit_is_the_wire_and_one_round_trip() -> None:
    case = second.Case(5 * GBPS, 100, 0.9)
    assert case.limit_s(1448 * 10**6) == pytest.approx(1538 * 8e6 / 5e9 + 0.1)


def test_the_first_copy_counts_apart_and_a_copy_without_a_jump_is_counted() -> None:
    limit_s = second.Case(5 * GBPS, 183, 0.9).limit_s(second.LARGE_BYTES)
    runs = [
        run(4 * limit_s, second.LARGE_BYTES, first=True, resumed=False),
        run(2 * limit_s, second.LARGE_BYTES, resumed=False),
        run(limit_s, second.LARGE_BYTES),
        run(limit_s / 0.9, second.LARGE_BYTES),
        run(0.183 * 3.5, 1 << 20),
    ]
    small, first, later = second.rows(runs)
    assert (small.value, small.met) == (pytest.approx(3.5), False)
    assert (first.value, first.met) == (0.25, None)
    assert later.value == pytest.approx(0.9)
    assert later.note == "2 of 3 sent at once, 1 began with one stream"
