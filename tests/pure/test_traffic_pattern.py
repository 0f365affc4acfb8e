"""Pattern files of traffic: what they say, when it is on, and what is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah._native import HowdahError
from howdah.bounds import TRAFFIC_S
from howdah.traffic.pattern import (
    DURATION_S,
    Pattern,
    Rbudp,
    Tcp,
    Udp,
    Wave,
    load_pattern,
    parse_pattern,
)

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("traffic-*.toml"))


def pattern(*loads: str, head: str = 'name = "one"', lasting_s: float | None = None) -> Pattern:
    text = "\n".join([head, *(f"[[load]]\n{load}" for load in loads)])
    return parse_pattern(text, "p.toml", lasting_s)


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_scenarios_are_patterns(file: Path) -> None:
    found = load_pattern(file)
    assert f"traffic-{found.name}" == file.stem
    assert found.summary
    assert 0 < found.duration_s <= TRAFFIC_S.most


def test_the_papers_patterns_are_there() -> None:
    names = {file.stem.removeprefix("traffic-") for file in SCENARIOS}
    assert {"constant-tcp", "square-tcp", "square-udp", "square-rbudp"} <= names
    for every_s in (2, 5, 10):
        (load,) = load_pattern(SCENARIOS[0].parent / f"traffic-bursty-udp-1-{every_s}.toml").loads
        assert isinstance(load, Udp)
        assert (load.wave.on_s, load.wave.every_s) == (1, every_s)


def test_a_whole_file() -> None:
    found = pattern(
        'kind = "udp"\nname = "b"\nrate = "300Mbit"\ndatagram = "1000B"\n'
        'on = "1s"\nevery = "5s"\nstart = "2s"',
        'kind = "tcp"\ncongestion_control = "bbr"\nstreams = 2\nrate = "10Mbit"',
        'kind = "rbudp"\nrate = "400Mbit"\nsize = "50MB"\nevery = "20s"',
    )
    assert found.duration_s == DURATION_S
    assert found.loads == (
        Udp(
            name="b",
            wave=Wave(start_s=2, on_s=1, every_s=5),
            rate_bps=300_000_000,
            datagram_bytes=1000,
        ),
        Tcp(name="tcp2", wave=Wave(), streams=2, congestion_control="bbr", rate_bps=10_000_000),
        Rbudp(name="rbudp3", rate_bps=400_000_000, object_bytes=50_000_000, every_s=20),
    )
    assert found.controls() == ["bbr"]
    assert found.in_words().splitlines() == [
        "one, 1 min 00 s",
        "  b       UDP, 300 Mb/s, 1 s every 5 s from 2 s",
        "  tcp2    TCP, 2 streams, bbr, at most 10.0 Mb/s, all the time",
        "  rbudp3  RBUDP, 50.0 MB at 400 Mb/s every 20 s",
    ]


def test_the_command_lines_time_counts_and_not_the_files() -> None:
    load = 'kind = "tcp"\nstart = "20s"'
    assert pattern(load, head='name = "a"\nduration = "25s"').duration_s == 25
    assert pattern(load, head='name = "a"\nduration = "10s"', lasting_s=30).duration_s == 30


@pytest.mark.parametrize(
    ("loads", "named"),
    [
        (['kind = "tcp"'] * 9, "p.toml has 9 loads; give 1 to 8"),
        (['kind = "sctp"'], r"load\[0\].*kind|sctp"),
        (['kind = "udp"'], "rate"),
        (['kind = "udp"\nrate = "3"'], r"load 1: rate: rate .3. has no unit"),
        (['kind = "udp"\nrate = "3bit"'], "too low; give 1kbit or more"),
        (['kind = "udp"\nrate = "3Mbit"\nstreams = 2'], "streams"),
        (['kind = "tcp"\nrate = "3bit"'], "load 1: rate: 3bit is too low"),
        (['kind = "tcp"\nstreams = 0'], "streams"),
        (['kind = "tcp"\nstreams = 129'], "streams"),
        (['kind = "tcp"\non = "1s"'], "give on and every together"),
        (['kind = "tcp"\nevery = "1s"'], "give on and every together"),
        (['kind = "tcp"\non = "5s"\nevery = "5s"'], "on 5s does not fit into every 5s"),
        (['kind = "tcp"\non = "10ms"\nevery = "5s"'], "on 10ms is too short"),
        (['kind = "udp"\nrate = "1Mbit"\non = "0s"\nevery = "5s"'], "on 0s is too short"),
        (['kind = "tcp"\nstart = "60s"'], "starts after 1 min"),
        (['kind = "tcp"\nname = "a b"'], "name"),
        (['kind = "tcp"\nname = "a"', 'kind = "tcp"\nname = "a"'], "two loads are called a"),
        (['kind = "udp"\nrate = "1Mbit"\ndatagram = "63B"'], "datagram: 63B is not from 64B to 65507B"),
        (
            ['kind = "rbudp"\nrate = "1Mbit"\nsize = "1MB"\ndatagram = "100KB"'],
            "100KB is not from 64B to 65507B",
        ),
        (['kind = "rbudp"\nrate = "1Mbit"'], "size"),
        (['kind = "rbudp"\nrate = "1Mbit"\nsize = "0B"'], "is empty"),
        (['kind = "rbudp"\nrate = "100Gbit"\nsize = "65GiB"'], "65GiB is too large; give 1B to 64GiB"),
        (['kind = "rbudp"\nrate = "8Mbit"\nsize = "10MB"\nevery = "10s"'], "does not fit into every 10s"),
        (
            ['kind = "rbudp"\nrate = "8Mbit"\nsize = "100MB"'],
            "takes 1 min 40 s, and everything is over",
        ),
    ],
)
def test_what_cannot_be_is_refused(loads: list[str], named: str) -> None:
    with pytest.raises(HowdahError, match=named) as refused:
        pattern(*loads)
    assert "p.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("duration", ["0s", "25h"])
def test_loads_are_bounded_in_time(duration: str) -> None:
    with pytest.raises(HowdahError, match="is not from 100 ms to 24 h; give another"):
        pattern('kind = "tcp"', head=f'name = "a"\nduration = "{duration}"')
    with pytest.raises(HowdahError, match="is not from 100 ms to 24 h; give another"):
        pattern('kind = "tcp"', lasting_s=TRAFFIC_S.most + 1)


def test_what_is_no_pattern_is_refused(tmp_path: Path) -> None:
    for text, named in (
        ("name = ", "is not TOML"),
        ('name = "x"', "load"),
        ('name = "x"\nload = 3', "load"),
        ('name = "x"\nload = []', "has 0 loads; give 1 to 8 tables"),
        ('name = "x"\nbanana = 3\n[[load]]\nkind = "tcp"', "banana"),
        ('name = "x/y"\n[[load]]\nkind = "tcp"', "name"),
    ):
        with pytest.raises(HowdahError, match=named):
            parse_pattern(text, "p.toml")
    with pytest.raises(HowdahError, match="cannot read"):
        load_pattern(tmp_path / "none.toml")


SPANS = st.floats(0.1, 100, allow_nan=False)


@given(st.floats(0, 20), SPANS, SPANS, SPANS)
def test_periods_are_in_order_apart_and_within_the_run(
    start_s: float, on_s: float, off_s: float, duration_s: float
) -> None:
    wave = Wave(start_s=start_s, on_s=on_s, every_s=on_s + off_s)
    periods = list(wave.periods(duration_s))
    assert bool(periods) == (start_s < duration_s)
    for number, (begin_s, end_s) in enumerate(periods):
        assert begin_s == start_s + number * (on_s + off_s)
        assert begin_s < end_s <= duration_s
        assert end_s == min(begin_s + on_s, duration_s)
    if periods:
        assert start_s + len(periods) * (on_s + off_s) >= duration_s


@given(SPANS, SPANS, st.floats(0, 5))
def test_objects_begin_in_time_and_their_first_round_ends_with_the_run(
    every_s: float, duration_s: float, late_s: float
) -> None:
    load = Rbudp(name="a", rate_bps=8_000_000, object_bytes=50_000, every_s=every_s)
    now_s, number = 0.0, 0
    while (begin_s := load.begins_s(now_s, number, duration_s)) is not None:
        assert begin_s >= max(now_s, number * every_s)
        assert begin_s + load.sending_s <= duration_s
        now_s, number = begin_s + load.sending_s + late_s, number + 1
        if number > 20:
            return
    assert max(now_s, number * every_s) + load.sending_s > duration_s
