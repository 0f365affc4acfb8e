"""Each statement of the papers agrees where it is so, differs where the contrary is, else cannot tell."""

from collections.abc import Callable

import numpy as np
import pytest
from sweeps import Point, Rates, Tracer, joined, sweep

from howdah.archive.runs import Runs
from howdah.report.material import Material
from howdah.report.statements import STATEMENTS, JudgedStatement, judge

THREE = ("cubic", "htcp", "scalable")
PEAK_BPS = 9.4e9


def falling(point: Point) -> float:
    return PEAK_BPS * np.exp(-3 * point.rtt_s)


def hyperbola(point: Point) -> float:
    return PEAK_BPS * 0.0004 / point.rtt_s


def turning(turn_s: float) -> Callable[[Point], float]:
    """Concave up to the turn, convex beyond."""

    def rate(point: Point) -> float:
        if point.rtt_s <= turn_s:
            return PEAK_BPS * (1 - 0.4 * (point.rtt_s / turn_s) ** 2)
        return PEAK_BPS * 0.6 * (turn_s / point.rtt_s)

    return rate


def steady(rate_bps: float, ramp_s: float = 1.0) -> Tracer:
    """Ramps up in a straight line, then a little noise."""

    def trace(point: Point, rng: np.random.Generator) -> Rates:
        t_s = np.arange(1, 101)
        level = np.minimum(t_s / ramp_s, 1.0) * rng.normal(1, 0.01, (point.streams, 100))
        return np.asarray(rate_bps / point.streams * level)

    return trace


def wandering(slow_at: float, spread: Callable[[Point], float]) -> Tracer:
    """AR(1) noise around 9 Gb/s that follows itself at one RTT, and jumps back and forth at others."""

    def trace(point: Point, rng: np.random.Generator) -> Rates:
        memory = 0.9 if point.rtt_s == slow_at else -0.5
        noise = np.zeros(100)
        for second in range(1, 100):
            noise[second] = memory * noise[second - 1] + rng.normal()
        level = 1 + spread(point) * noise / noise.std()
        return np.tile(9e9 / point.streams * level, (point.streams, 1))

    return trace


def of_size(large: Callable[[Point], float], small: Callable[[Point], float] = lambda _: 1.0) -> Runs:
    return sweep(
        lambda point: 1e9 * (large if point.size == 50_000_000_000 else small)(point),
        streams=(1, 10),
        buffers=(1e9,),
        sizes=(1_000_000_000, 50_000_000_000),
    )


def traced(trace: Tracer, control: str = "cubic", repeats: int = 6) -> Runs:
    return sweep(falling, controls=(control,), buffers=(1e9,), repeats=repeats, trace=trace)


def mapped(slope: Callable[[Point], float]) -> Tracer:
    """x → slope · x + noise: its exponent is the logarithm of the slope."""

    def trace(point: Point, rng: np.random.Generator) -> Rates:
        state, states = 0.0, []
        for _ in range(100):
            state = slope(point) * state + rng.normal()
            states.append(state)
        return np.tile(9e9 / point.streams * (1 + 0.02 * np.array(states)), (point.streams, 1))

    return trace


def exponents_beside_rates(sign: float) -> Runs:
    """Runs whose aggregate jumps the more, the slower (``sign`` 1) or the faster (−1) it is."""

    def trace(point: Point, rng: np.random.Generator) -> Rates:
        slope = rng.uniform(0.2, 1.9)
        state, states = 0.4, []
        for _ in range(100):
            state = slope * min(state, 1 - state) + 0.05 * rng.random()
            states.append(state)
        rate = 8e9 - sign * 2e9 * slope
        return np.tile(rate / point.streams * (1 + 0.2 * np.array(states)), (point.streams, 1))

    return sweep(falling, streams=(10,), buffers=(1e9,), rtts=(0.0118, 0.183), repeats=30, trace=trace)


def buffers_of_htcp(large_bps: float) -> Runs:
    return sweep(
        lambda point: 1e8 if point.buffer_bytes == 244e3 else large_bps, controls=("htcp",), streams=(10,)
    )


def crossing(half_s: Callable[[Point], float]) -> Runs:
    """CUBIC's profiles that fall through half of the capacity at an RTT, as a pair of sigmoids does."""

    def rate(point: Point) -> float:
        return float(5e9 * (1 - np.tanh(2 * np.log(point.rtt_s / half_s(point)))))

    return sweep(rate, repeats=5)


def convex_or(convex: tuple[str, ...], turn_s: float = 0.0916) -> Runs:
    return sweep(
        lambda point: hyperbola(point) if point.control in convex else turning(turn_s)(point),
        controls=("cubic", "htcp", "scalable", "reno", "highspeed"),
        streams=(1,),
        buffers=(1e9,),
        repeats=5,
    )


def turns(by_point: Callable[[Point], float]) -> Runs:
    """CUBIC's profiles, each with its turn; 0 is wholly convex."""

    def rate(point: Point) -> float:
        turn_s = by_point(point)
        return hyperbola(point) if turn_s == 0 else turning(turn_s)(point)

    return sweep(rate, repeats=5)


def by_buffer(small_s: float, middle_s: float, large_s: float) -> Callable[[Point], float]:
    return lambda point: {244e3: small_s, 256e6: middle_s, 1e9: large_s}[point.buffer_bytes]


def over_both(sonet: float, ethernet: float) -> Runs:
    return joined(
        *(
            sweep(falling, buffers=(1e9,), repeats=10, spread=spread, path=f"lab {rate} Gb/s")
            for spread, rate in ((sonet, "9.6"), (ethernet, "10"))
        )
    )


CASES: dict[str, tuple[Callable[[], Runs], Callable[[], Runs]]] = {
    "falls-with-rtt": (lambda: sweep(falling), lambda: sweep(lambda point: 1e9 + 1e10 * point.rtt_s)),
    "rises-with-streams": (
        lambda: sweep(lambda point: 1e9 * point.streams**0.5),
        lambda: sweep(lambda point: 1e10 / point.streams),
    ),
    "rises-with-buffers": (
        lambda: sweep(lambda point: point.buffer_bytes**0.5 * 1e5),
        lambda: sweep(lambda point: 1e13 / point.buffer_bytes**0.5),
    ),
    "buffer-gain": (lambda: buffers_of_htcp(7.8e9), lambda: buffers_of_htcp(2e9)),
    "alike": (
        lambda: sweep(falling, controls=THREE),
        lambda: sweep(lambda point: falling(point) / (2 if point.control == "cubic" else 1), controls=THREE),
    ),
    "scalable-small-rtt": (
        lambda: sweep(lambda point: 7e9 + 1e9 * (point.control == "scalable"), controls=THREE),
        lambda: sweep(lambda point: 7e9 + 1e9 * (point.control == "cubic"), controls=THREE),
    ),
    "near-nine": (lambda: traced(steady(9.2e9)), lambda: traced(steady(6e9))),
    "rises-with-size": (
        lambda: of_size(lambda point: 1 + 10 * point.rtt_s),
        lambda: of_size(lambda point: 0.5),
    ),
    "flatter-with-size": (
        lambda: of_size(lambda point: 3 * point.streams**0.1, small=lambda point: point.streams**0.5),
        lambda: of_size(lambda point: 3.0 * point.streams),
    ),
    "sonet-varies-more": (lambda: over_both(0.1, 0.02), lambda: over_both(0.02, 0.1)),
    "transition-default": (
        lambda: crossing(lambda point: 0.0004 if point.streams == 1 else 0.0118),
        lambda: crossing(lambda point: 0.0916),
    ),
    "transition-normal": (
        lambda: crossing(lambda point: 0.0916 if point.streams == 10 else 0.0456),
        lambda: crossing(lambda point: 0.0118),
    ),
    "transition-large": (
        lambda: crossing(lambda point: 0.183 if point.streams == 10 else 0.0916),
        lambda: crossing(lambda point: 0.0118),
    ),
    "ten-streams": (lambda: turns(by_buffer(0, 0.0916, 0.183)), lambda: turns(by_buffer(0.0456, 0, 0))),
    "default-convex": (lambda: turns(by_buffer(0, 0, 0)), lambda: turns(by_buffer(0.0456, 0, 0))),
    "dual": (lambda: convex_or(()), lambda: convex_or(("htcp",))),
    "reno-highspeed-convex": (lambda: convex_or(("reno", "highspeed")), lambda: convex_or(("reno",))),
    "streams-widen": (
        lambda: turns(lambda point: {1: 0.0226, 4: 0.0456, 10: 0.0916}[point.streams]),
        lambda: turns(lambda point: {1: 0.0916, 4: 0.0456, 10: 0.0226}[point.streams]),
    ),
    "buffers-widen": (
        lambda: turns(by_buffer(0, 0.0456, 0.0916)),
        lambda: turns(by_buffer(0.0916, 0.0456, 0)),
    ),
    "ramp-up": (lambda: traced(steady(8e9, 10), "scalable"), lambda: traced(steady(8e9, 3), "scalable")),
    "wider-map": (
        lambda: traced(wandering(0.183, lambda point: 0.05 + point.rtt_s)),
        lambda: traced(wandering(0.183, lambda point: 0.25 - point.rtt_s)),
    ),
    "tilt": (
        lambda: traced(wandering(0.183, lambda point: 0.1)),
        lambda: traced(wandering(0.0118, lambda point: 0.1)),
    ),
    "exponents-rtt": (
        lambda: traced(mapped(lambda point: 0.9 if point.rtt_s == 0.183 else 0.3)),
        lambda: traced(mapped(lambda point: 0.3 if point.rtt_s == 0.183 else 0.9)),
    ),
    "exponents-streams": (
        lambda: traced(mapped(lambda point: 0.9 if point.streams == 10 else 0.3)),
        lambda: traced(mapped(lambda point: 0.3 if point.streams == 10 else 0.9)),
    ),
    "throughput-falls-with-exponent": (lambda: exponents_beside_rates(1), lambda: exponents_beside_rates(-1)),
}


def judged(key: str, runs: Runs) -> JudgedStatement:
    statement = next(each for each in STATEMENTS if each.key == key)
    return judge(Material(runs), [statement])[0]


def test_every_statement_has_its_cases() -> None:
    assert set(CASES) == {each.key for each in STATEMENTS}


@pytest.mark.parametrize("key", CASES)
def test_agrees_where_it_is_so(key: str) -> None:
    found = judged(key, CASES[key][0]())
    assert found.verdict == "agrees", found.numbers
    assert found.why == []


@pytest.mark.parametrize("key", CASES)
def test_differs_where_the_contrary_is_so(key: str) -> None:
    found = judged(key, CASES[key][1]())
    assert found.verdict == "differs", found.numbers


@pytest.mark.parametrize("key", CASES)
def test_cannot_tell_from_one_cell(key: str) -> None:
    runs = sweep(falling, controls=("bbr",), streams=(2,), buffers=(64e6,), rtts=(0.05,))
    found = judged(key, runs)
    assert found.verdict == "cannot tell"
    assert found.numbers.startswith("needs ")


def test_nine_of_ten_need_ten_cells() -> None:
    few = sweep(falling, controls=("cubic", "htcp"), streams=(1,), buffers=(1e9,))
    assert judged("alike", few).verdict == "cannot tell"
    assert (
        judged("alike", joined(few, sweep(falling, controls=("scalable",), streams=(1,)))).verdict == "agrees"
    )


def test_late_runs_do_not_count() -> None:
    good = sweep(lambda point: 1e9 * point.streams**0.5)
    spoilt = sweep(lambda point: 1e10 / point.streams, late=True, repeats=9)
    assert judged("rises-with-streams", joined(good, spoilt)).verdict == "agrees"


def test_says_what_holds_the_cells_that_differ() -> None:
    found = judged("buffer-gain", buffers_of_htcp(2e9))
    assert found.why == ["H-TCP, 10 streams, 1 GB at 366 ms: 2 Gb/s, at what the path carries, 2 Gb/s"]
