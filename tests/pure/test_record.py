import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import LIMITS

from howdah import LAB_LINK_VARIABLE, HowdahError
from howdah.values import Count, Seconds, record
from howdah.values.outcome import Change, Outcome, Sample, StreamOutcome
from howdah.values.record import Environment, HostLimits, Record, dumps, loads, new_id

MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
COUNTS = st.integers(0, 2**62)
TIMES = st.floats(0, 1e6)
HOSTS = st.builds(HostLimits)


def drawn(kind: type[msgspec.Struct], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of a Struct; the numbers that it must have are at least 0."""
    least = {Count: COUNTS, Seconds: TIMES}
    needed = {each.name: least[each.type] for each in msgspec.structs.fields(kind) if each.type in least}
    return st.builds(kind, **{**needed, **given})


OUTCOMES = drawn(
    Outcome,
    bytes=COUNTS,
    elapsed_s=TIMES,
    setup_s=st.none() | TIMES,
    moving_s=st.none() | TIMES,
    changes=st.lists(
        drawn(Change, t_s=TIMES, pacing_bps=st.none() | COUNTS, refused=st.none() | st.text()), max_size=2
    ),
    streams=st.lists(drawn(StreamOutcome, rtt_min_s=st.none() | TIMES), max_size=3),
    samples=st.lists(
        drawn(
            Sample,
            t_s=TIMES,
            rtt_s=TIMES,
            min_rtt_s=TIMES,
            delivery_rate_bps=TIMES,
            pacing_rate_bps=st.none() | TIMES,
        ),
        max_size=3,
    ),
)
RECORDS = st.builds(
    lambda started_at, **rest: Record(id=new_id(started_at), started_at=started_at, **rest),
    MOMENTS,
    kind=st.sampled_from(["transfer", "link", "bench"]),
    command=st.lists(st.text(), max_size=3),
    environment=st.builds(Environment, near=HOSTS, far=st.none() | HOSTS, link=st.none()),
    rtt_s=st.none() | TIMES,
    outcome=st.none() | OUTCOMES,
    error=st.none() | st.text(),
    flags=st.lists(st.sampled_from(["lateness", "interrupted"]), unique=True),
)


@given(RECORDS)
def test_round_trip(each: Record) -> None:
    assert loads(dumps(each), "-") == each


@given(st.lists(MOMENTS, min_size=2, max_size=8))
def test_ids_sort_by_time_and_differ(moments: list[datetime]) -> None:
    ids = [new_id(moment) for moment in sorted(moments)]
    assert [i[:22] for i in sorted(ids)] == [i[:22] for i in ids]
    assert len(set(ids)) == len(ids)
    assert all(map(record.is_id, ids))


def _numbers(kind: type[msgspec.Struct]) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        if re.search(r"\b(int|float)\b", str(field.type)):
            yield field.name


UNITS = {"s", "bytes", "bps", "pages", "skipped", "resumed", "more", "acked", "fraction"}
COUNTED = {"bytes", "size", "schema", "cpus", "files", "folders", "links", "special_files"} | {
    "stream",
    "streams",
    "retransmissions",
    "cwnd",
    "ssthresh",
    "max_cwnd",
    "connections_replaced",
    "streams_ahead",
    "outages",
    "restarts",
}
"""Plural nouns and the segment counts of TCP_INFO, each explained where it stands."""


@pytest.mark.parametrize("kind", [HostLimits, Sample, StreamOutcome, Outcome, Record])
def test_every_number_says_its_unit(kind: type[msgspec.Struct]) -> None:
    for name in _numbers(kind):
        unit = name.rpartition("_")[2]
        assert unit in UNITS or name in COUNTED, name


def test_every_field_of_the_record_is_in_the_table() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/record.md").read_text()
    keys = (line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    told = {name for cell in keys for name in re.findall(r"`(\w+)`", cell)}
    assert {field.name for field in msgspec.structs.fields(Record)} <= told


@pytest.mark.parametrize("schema", [0, 2, 99])
def test_another_schema_is_refused_for_its_version(schema: int) -> None:
    with pytest.raises(HowdahError, match=f"x.json is a record of schema {schema}, howdah .* reads schema 1"):
        loads(b'{"schema":%d,"quite":"different"}' % schema, "x.json")


def test_goodput_is_null_when_nothing_moved() -> None:
    nothing = msgspec.convert(
        {
            "direction": "push",
            "elapsed_s": 1.0,
            "encrypted": True,
            **dict.fromkeys(["bytes", "files", "folders", "links", "files_skipped", "bytes_skipped"], 0),
        },
        Outcome,
    )
    assert nothing.goodput_bps is None
    assert nothing.moving_bps is None
    some = msgspec.structs.replace(nothing, bytes=125_000_000, moving_s=0.5)
    assert some.goodput_bps == 1e9
    assert some.moving_bps == 2e9


def test_the_link_of_a_lab_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAB_LINK_VARIABLE, '{"mtu":1500}')
    kept = record.environment(LIMITS, None)
    assert kept.link == {"mtu": 1500}
    assert kept.near_sysctls["net.ipv4.tcp_congestion_control"]
    monkeypatch.setenv(LAB_LINK_VARIABLE, "{")
    with pytest.raises(HowdahError, match="HOWDAH_LAB_LINK is not a link description"):
        record.environment(LIMITS, None)
    monkeypatch.delenv(LAB_LINK_VARIABLE)
    assert record.environment(LIMITS, None).link is None


def test_the_age_of_this_process_grows_as_the_clock_does() -> None:
    one, began = record.since_process_start_s(), time.monotonic()
    time.sleep(0.05)
    grown_s, passed_s = record.since_process_start_s() - one, time.monotonic() - began
    assert grown_s == pytest.approx(passed_s, abs=0.02)
    assert one > 0


def test_started_at_needs_a_zone() -> None:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    text = dumps(
        Record(
            id=new_id(when),
            kind="transfer",
            started_at=when,
            command=[],
            environment=Environment(near=LIMITS),
        )
    )
    with pytest.raises(HowdahError, match="started_at"):
        loads(text.replace(b"00:00Z", b"00:00"), "x.json")
    assert when + timedelta(0) == loads(text, "x.json").started_at


def test_the_processors_are_as_busy_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(record, "_PROCESSORS", stat)
    stat.write_text("cpu  100 10 20 500 30 1 2 3 0 0\ncpu0 1 2 3\n")
    before = record.ProcessorTime.now()
    assert before == (136, 666)
    assert before.busy_fraction() is None
    stat.write_text("cpu  130 10 30 550 40 1 2 3 0 0\n")
    assert before.busy_fraction() == 0.4
