"""Limits of a copy: how they are written, what counts at an hour, and what is told of one that slowed it."""

import time
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from samples import progress, run

from howdah import HowdahError
from howdah.remote import hosts
from howdah.remote.messages import Limit
from howdah.transfer import valve
from howdah.values import limit
from howdah.values.limit import Limited, Limits
from howdah.words.copy import summary


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{clock}")


def test_the_first_rate_whose_hours_hold_counts() -> None:
    by_day = Limits.parse("100Mbit 08:00-18:00, none 12:00-13:00, 1Gbit 18:00-08:00")
    found = {
        clock: by_day.now_bps(at(clock)) for clock in ("07:59", "08:00", "12:30", "17:59", "18:00", "00:00")
    }
    assert found == {
        "07:59": 10**9,
        "08:00": 10**8,
        "12:30": 10**8,
        "17:59": 10**8,
        "18:00": 10**9,
        "00:00": 10**9,
    }
    night = Limits.parse("none 22:00-06:00, 50Mbit")
    assert [night.now_bps(at(clock)) for clock in ("21:59", "22:00", "05:59", "06:00")] == [
        5e7,
        None,
        None,
        5e7,
    ]
    assert Limits.parse("1Mbit 20:00-24:00").now_bps(at("19:00")) is None
    assert Limits.parse("none").now_bps() is None
    assert Limits().now_bps() is None


@pytest.mark.parametrize("text", ["50Mb/s", "none", "100Mb/s 08:00-18:00, 1Gb/s", "none 22:00-06:00, 50Mb/s"])
def test_limits_are_told_as_they_are_read(text: str) -> None:
    assert Limits.parse(text).in_words() == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not a limit; give for example 100Mbit"),
        (" ", "' ' is not a limit; give for example 100Mbit"),
        ("fast", "fast is not a rate; give for example"),
        ("100", "100 is not a rate"),
        ("7kbit", "7kbit is below 8kb/s; to stop a copy for a while, use howdah pause"),
        ("0Mbit", "is below 8kb/s"),
        ("1Mbit 8-18", "8-18 is not a span of hours; write for example 08:00-18:00"),
        ("1Mbit 08:00-08:00", "is not a span of hours"),
        ("1Mbit 08:00-24:30", "is not a span of hours"),
        ("1Mbit, 2Mbit 08:00-18:00", "rates after one without hours never apply"),
        ("1Mbit 08:00-18:00 2Mbit", "is not a limit"),
    ],
)
def test_what_is_no_limit_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(HowdahError) as refused:
        Limits.parse(text)
    assert str(refused.value).startswith(f"limit {text if text.strip() else repr(text)}")
    assert why in str(refused.value)


def test_a_host_has_its_limits_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert hosts.limits("dtn2") == Limits()
    file = tmp_path / "howdah" / "config.toml"
    file.parent.mkdir()
    file.write_text(
        '[host."dtn*"]\nlimit = "100Mbit 08:00-18:00"\n[host."*"]\nports = "50000-50100"\nlimit = "1Gbit"\n'
    )
    assert hosts.limits("dtn2", "192.0.2.7") == Limits.parse("100Mbit 08:00-18:00")
    assert hosts.limits("other") == Limits.parse("1Gbit")
    # The first table that fits counts for all that a table may say.
    assert hosts.ports("dtn2") is None
    file.write_text('[host.dtn2]\nlimit = "fast"\n')
    with pytest.raises(HowdahError, match=r"config\.toml.*dtn2.*fast is not a rate"):
        hosts.limits("dtn2")


def test_a_valve_tells_news_once_and_whether_it_slowed_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    limited = valve.Valve(Limits.parse("8Mbit"))
    assert limited.begin() == Limit(most_bps=8_000_000)
    assert limited.news() is None
    limited.look(progress(bytes_done=0))
    for done in (2_000_000, 4_000_000, 6_000_000, 8_000_000, 9_500_000):
        now_s += 2
        limited.look(progress(bytes_done=done))
    # Ctrl-Z, and fg an hour later.
    now_s += 3600
    limited.look(progress(bytes_done=9_500_000))
    assert limited.pause(paused=True)
    assert not limited.pause(paused=True)
    assert limited.news() == Limit(most_bps=8_000_000, paused=True)
    limited.look(progress(bytes_done=9_600_000))
    for _ in range(15):
        now_s += 2
        limited.look(progress(bytes_done=9_600_000))
    limited.pause(paused=False)
    limited.limit(Limits.parse("none"))
    assert limited.news() == Limit()
    assert limited.news() is None
    assert not limited.applies
    limited.look(progress(bytes_done=9_600_000))
    now_s += 2
    limited.look(progress(bytes_done=90_000_000))
    told = limited.to_record()
    assert told == Limited(limit="none", limited_s=10.0, held="held", paused_s=30.0, changes=3)
    slower = valve.Valve(Limits.parse("80Mbit"))
    slower.begin()
    slower.look(progress(bytes_done=0))
    now_s += 2
    slower.look(progress(bytes_done=9_500_000))
    told = slower.to_record()
    assert told is not None
    assert told.held == "slower"
    assert valve.Valve(None).to_record() is None


def test_a_limit_comes_and_goes_with_the_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ["07:59"]

    class Clock:
        @staticmethod
        def now() -> datetime:
            return at(clock[0])

    monkeypatch.setattr(limit, "datetime", Clock)
    by_day = valve.Valve(Limits.parse("8Mbit 08:00-18:00"))
    told = [by_day.begin()]
    for later in ("08:00", "08:01", "18:00", "18:01"):
        clock[0] = later
        told += filter(None, [by_day.news()])
    assert told == [Limit(), Limit(most_bps=8_000_000), Limit()]


def test_what_config_has_is_no_change_and_gives_way_to_one() -> None:
    presumed = valve.Valve(None)
    presumed.presume(Limits.parse("8Mbit"))
    assert presumed.applies
    presumed.limit(Limits.parse("none"))
    presumed.presume(Limits.parse("8Mbit"))
    assert not presumed.applies


def test_the_summary_says_that_a_limit_slowed_the_copy() -> None:
    def told(**keys: object) -> str:
        limited = msgspec.convert(keys, Limited)
        return summary(msgspec.structs.replace(run(), limited=limited), None)

    assert "Limit: 50Mb/s, which slowed the copy" in told(limit="50Mb/s", limited_s=3.0, held="held")
    assert "Limit: 5Gb/s; the copy was slower" in told(limit="5Gb/s", limited_s=3.0, held="slower")
    assert "none at the end; while a limit applied, it slowed the copy" in told(
        limit="none", limited_s=3.0, held="held", changes=1
    )
    by_day = told(limit="100Mb/s 08:00-18:00")
    assert "Limit: 100Mb/s 08:00-18:00, which did not apply at this hour" in by_day
    too_short = told(limit="100Mb/s", most_bps=10**8)
    assert "Limit: 100Mb/s" in too_short
    assert "did not apply" not in too_short
    paused = told(limit="none", paused_s=12.0, changes=2)
    assert "Paused: 12.0 s in all" in paused
    assert "Limit" not in paused
