"""The far end of traffic, and what crosses to it, over pipes and this host's own datagrams."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from samples import LIMITS, howdah, record

from howdah import HowdahError, __version__
from howdah._native import UdpSink, UdpSource, format_bytes, format_rate
from howdah.archive import Archive
from howdah.library.traffic import traffic_request
from howdah.traffic import udp
from howdah.traffic.account import (
    BlastAccount,
    LoadAccount,
    LoadSample,
    SinkCounts,
    SourceCounts,
    TcpPeriod,
    Traffic,
)
from howdah.traffic.pattern import LOADS_MAX, Pattern, Rbudp, Tcp, Udp, Wave
from howdah.traffic.sink import (
    AskCounts,
    AskMissing,
    ExpectObject,
    LineReader,
    OpenSink,
    SinkAnswer,
    SinkHello,
    SinkOrder,
    answer,
    write_line,
)
from howdah.words import traffic as summary
from howdah.words.copy import line
from howdah.words.traffic import ArrivalRates, TrafficLines, TrafficTerminal

TOKEN = bytes(range(16))


@pytest.fixture
def sinks() -> Iterator[dict[int, UdpSink]]:
    made: dict[int, UdpSink] = {}
    yield made
    made.clear()


def test_an_object_by_orders(sinks: dict[int, UdpSink]) -> None:
    port = answer(sinks, SinkOrder(number=1, what=OpenSink(load=0, token=TOKEN))).port
    assert port
    source = UdpSource("127.0.0.1", port, TOKEN, 100_000_000, None)
    piece_bytes = source.begin(1, 100_001)
    expect = ExpectObject(load=0, number=1, object_bytes=100_001, piece_bytes=piece_bytes)
    assert answer(sinks, SinkOrder(number=2, what=expect)) == SinkAnswer(number=2)
    missing: bytes | None = None
    for _ in range(10):
        assert source.round(missing)
        told = answer(sinks, SinkOrder(number=3, what=AskMissing(load=0)))
        if not told.missing:
            break
        missing = msgspec.json.encode(told.missing)
    assert told.missing == []
    assert told.digest == source.digest()
    counts = answer(sinks, SinkOrder(number=4, what=AskCounts(load=0))).counts
    assert counts is not None
    assert counts.received * 28 + 100_001 == counts.received_bytes


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (AskCounts(load=0), "load 0 is not open"),
        (AskMissing(load=7), "load 7 is not open"),
        (OpenSink(load=1, token=b"short"), "a token has 16 bytes, not 5"),
    ],
)
def test_orders_that_cannot_be_are_answered_with_why(
    sinks: dict[int, UdpSink], what: OpenSink | AskCounts | AskMissing, named: str
) -> None:
    assert named in str(answer(sinks, SinkOrder(number=9, what=what)).error)


def test_no_more_loads_are_opened_than_there_may_be(sinks: dict[int, UdpSink]) -> None:
    errors = [
        answer(sinks, SinkOrder(number=place, what=OpenSink(load=place, token=TOKEN))).error
        for place in range(LOADS_MAX + 1)
    ]
    assert errors[:-1] == [None] * LOADS_MAX
    assert errors[-1]
    assert "cannot be opened" in errors[-1]


def far_end(given: bytes) -> "subprocess.CompletedProcess[bytes]":
    argv = [sys.executable, "-m", "howdah", "sink"]
    return subprocess.run(argv, input=given, capture_output=True, timeout=60, check=False)


def test_the_far_end_says_hello_and_ends_with_its_input() -> None:
    order = msgspec.json.encode(SinkOrder(number=5, what=OpenSink(load=0, token=TOKEN)))
    done = far_end(order + b"\n")
    assert (done.returncode, done.stderr) == (0, b"")
    hello, told = done.stdout.splitlines()
    assert msgspec.json.decode(hello, type=SinkHello).version == __version__
    assert msgspec.json.decode(told, type=SinkAnswer).port


def test_the_far_end_refuses_what_is_no_order() -> None:
    done = far_end(b'{"number": 1, "what": {"type": "Format"}}\n')
    assert done.returncode == 1
    assert done.stderr.startswith(b"howdah: the near end has another version")
    assert done.stderr.count(b"\n") == 1


def test_lines_come_whole_however_they_are_cut() -> None:
    read_fd, write_fd = os.pipe()
    lines = LineReader(read_fd)
    assert lines.next(0.0) is None
    hello = SinkHello(version="1", limits=LIMITS, address=None)
    writer = threading.Thread(target=lambda: [write_line(write_fd, hello) for _ in range(200)])
    writer.start()
    for _ in range(200):
        line = lines.next(10.0)
        assert line is not None
        assert msgspec.json.decode(line, type=SinkHello) == hello
    writer.join()
    os.write(write_fd, b"half")
    assert lines.next(0.0) is None
    os.close(write_fd)
    with pytest.raises(EOFError):
        lines.next(10.0)
    os.close(read_fd)


PATTERN = Pattern(
    name="three",
    duration_s=60,
    loads=(
        Udp(name="udp1", wave=Wave(on_s=1, every_s=5), rate_bps=8_000_000),
        Tcp(name="tcp2", wave=Wave(), congestion_control="bbr"),
        Rbudp(name="file", rate_bps=8_000_000, object_bytes=1_000_000),
    ),
)
SINK = SinkCounts(
    received=900,
    received_bytes=900_000,
    reordered=3,
    doubled=2,
    too_late=0,
    overflowed=1,
    strange=0,
    knocks=1,
)
LOADS = [
    LoadAccount(
        name="udp1",
        kind="udp",
        datagram_bytes=1000,
        offered_bytes=1_010_000,
        received_bytes=900_000,
        source=SourceCounts(offered=1010, sent=1000, sent_bytes=1_000_000),
        sink=SINK,
    ),
    LoadAccount(
        name="tcp2",
        kind="tcp",
        congestion_control="bbr",
        received_bytes=5_000_000,
        periods=[TcpPeriod(begin_s=0, end_s=60, bytes=5_000_000, retransmissions=7, rtt_min_s=0.1)],
    ),
    LoadAccount(
        name="file",
        kind="rbudp",
        datagram_bytes=1000,
        offered_bytes=2_000_000,
        received_bytes=None,
        source=SourceCounts(offered=1010, sent=1000, sent_bytes=1_000_000),
        blasts=[
            BlastAccount(begin_s=0, end_s=1, rounds=2, whole=True, digest="0a"),
            BlastAccount(begin_s=1, end_s=2, rounds=1, whole=False),
        ],
    ),
]


def test_a_record_is_kept_and_told(tmp_path: Path) -> None:
    traffic = Traffic(pattern=PATTERN, elapsed_s=60, loads=LOADS)
    made = msgspec.structs.replace(
        record(), kind="traffic", host="dtn2", traffic=msgspec.to_builtins(traffic)
    )
    archive = Archive(tmp_path)
    archive.save(made)
    kept = archive.load("last")
    assert msgspec.convert(kept.traffic, Traffic) == traffic
    assert len(archive.runs()) == 0, "it is no measurement of a path"
    text = summary.summary(kept, kept=True)
    assert text.splitlines()[-1] == f"Record: howdah archive show {kept.id}"
    assert "Record" not in summary.summary(kept, kept=False)
    nameless = msgspec.structs.replace(kept, command=["howdah.send_traffic"])
    assert line(nameless) == f"{kept.id}  traffic            -          -  three to dtn2"
    known = msgspec.to_builtins(Traffic(pattern=PATTERN, elapsed_s=60, loads=LOADS[:2]))
    rate, size = format_rate(5_900_000 * 8 / 60), format_bytes(5_900_000)
    whole = msgspec.structs.replace(nameless, traffic=known)
    assert line(whole) == f"{kept.id}  traffic   {rate:>10}  {size:>9}  three to dtn2"
    typed = msgspec.structs.replace(whole, command=["howdah", "traffic", "p.toml", "dtn2"])
    assert line(typed).endswith(f"{size:>9}  traffic p.toml dtn2")
    unknown = msgspec.structs.replace(nameless, traffic={"loads": 1})
    assert line(unknown) == f"{kept.id}  traffic            -          -  to dtn2"
    assert text.splitlines()[:4] == [
        "three to dtn2, 1 min 00 s",
        "  udp1  offered 1.01 MB, sent 1.00 MB, received 900 kB (120 kb/s), "
        "lost 98 of 1,000 datagrams (9.80%), 3 reordered, 2 doubled, "
        "1 of these dropped by the far host itself",
        "  tcp2  received 5.00 MB (667 kb/s), 7 retransmissions, bbr",
        "  file  offered 2.00 MB, sent 1.00 MB, received and lost unknown, since the far end ended before "
        "its last account, 1 of 2 objects whole, bit for bit",
    ]


def test_traffic_of_another_version_is_said_to_be() -> None:
    strange = msgspec.structs.replace(record(), kind="traffic", traffic={"loads": 3})
    with pytest.raises(HowdahError, match="has traffic that this version cannot read"):
        summary.described(strange)


def test_progress_is_a_rate_between_samples() -> None:
    rates = ArrivalRates()
    assert rates.line(PATTERN, 0.5, {}) == "0 of 60 s"
    first = {"udp1": LoadSample(t_s=1, sent_bytes=10, received_bytes=1_000_000)}
    assert rates.line(PATTERN, 1.1, first) == "1 of 60 s: udp1 8.00 Mb/s"
    second = {"udp1": LoadSample(t_s=3, sent_bytes=10, received_bytes=2_000_000)}
    for _ in range(2):
        assert rates.line(PATTERN, 61, second) == "60 of 60 s: udp1 4.00 Mb/s"


def test_on_a_terminal_one_line_stays_in_place() -> None:
    written = StringIO()
    shown = TrafficTerminal(PATTERN, Console(file=written, force_terminal=True, width=60))
    shown.begins()
    shown.progress(1.1, {"udp1": LoadSample(t_s=1, sent_bytes=10, received_bytes=1_000_000)})
    shown.close()
    assert "1 of 60 s: udp1 8.00 Mb/s" in written.getvalue()
    assert written.getvalue().endswith("\x1b[1A\x1b[2K"), "and is taken away"


def test_without_a_terminal_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TrafficLines(PATTERN)
    for tick in range(250):
        lines.progress(tick / 10, {})
    assert capsys.readouterr().err.splitlines() == [
        "howdah: 10 of 60 s",
        "howdah: 20 of 60 s",
    ]


def test_a_dry_run_says_what_would_be_sent(tmp_path: Path) -> None:
    file = str(tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text('name = "a"\n[[load]]\nkind = "tcp"\n')
    told = howdah("traffic", file, "dtn2", "--dry-run", "--json", "--for", "5s")
    assert (told.returncode, told.stderr) == (0, "")
    found = msgspec.json.decode(told.stdout, type=Pattern)
    assert (found.duration_s, found.loads[0].name) == (5, "tcp1")
    for wrong in ("", "[fd77::]:"):
        refused = howdah("traffic", file, wrong)
        assert refused.returncode == 1
        assert refused.stderr == f"howdah: {wrong!r} is not a host; write: howdah traffic PATTERN.toml HOST\n"


@pytest.mark.parametrize(
    ("host", "name"),
    [("dtn2:", "dtn2"), ("fd77::", "fd77::"), ("fd77::1", "fd77::1"), ("[fd77::1]", "fd77::1")],
)
def test_a_colon_behind_a_host_is_none_of_its_name_but_for_an_address(
    tmp_path: Path, host: str, name: str
) -> None:
    (tmp_path / "p.toml").write_text('name = "a"\n[[load]]\nkind = "tcp"\n')
    assert traffic_request(tmp_path / "p.toml", host, []).host == name


class Deaf:
    """A far end that datagrams do not reach."""

    host = "dtn2"

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, what: object, patience_s: float = 0.0) -> SinkAnswer:
        if isinstance(what, OpenSink):
            return SinkAnswer(number=1, port=self.port)
        return SinkAnswer(number=2, counts=msgspec.structs.replace(SINK, knocks=0))


def test_a_way_that_is_closed_to_udp_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "_KNOCK_S", 0.001)
    sink = UdpSink(TOKEN)
    far: Any = Deaf(sink.port)
    load = Udp(name="a", wave=Wave(), rate_bps=1_000_000)
    with pytest.raises(
        HowdahError, match=r"reaches dtn2 at 127\.0\.0\.1 or ::1, port \d+; check that UDP"
    ) as no:
        udp.UdpLoad(load, 0, far, ["127.0.0.1", "::1"])
    assert "\n" not in str(no.value)


class Dying(Deaf):
    """A far end that counts until it is gone."""

    gone = False

    def ask(self, what: object, patience_s: float = 0.0) -> SinkAnswer:
        if self.gone:
            raise HowdahError("the far end on dtn2 ended")
        if isinstance(what, OpenSink):
            return super().ask(what)
        return SinkAnswer(number=2, counts=SINK)


def test_what_a_far_end_counted_before_it_was_gone_is_no_loss() -> None:
    sink = UdpSink(TOKEN)
    far: Any = Dying(sink.port)
    load = udp.UdpLoad(Udp(name="a", wave=Wave(), rate_bps=1_000_000), 0, far, ["127.0.0.1"])
    assert load.sample(1.0) is not None
    far.gone = True
    with pytest.raises(HowdahError, match="ended"):
        load.settle()
    account = load.account()
    assert (account.received_bytes, account.sink, account.lost) == (None, None, None)
    assert [each.received_bytes for each in account.samples] == [SINK.received_bytes]
    far.gone = False
    load.settle()
    assert load.account().sink == SINK


@pytest.mark.parametrize(
    ("connected_to", "told", "found"),
    [
        ("127.0.0.1", "127.0.0.1", ["127.0.0.1"]),
        # A far end that lies sends no traffic elsewhere.
        ("192.0.2.7", "203.0.113.9", ["192.0.2.7"]),
        # Through another host, or a port of this one, there is nothing else.
        (None, "10.0.0.5", ["10.0.0.5"]),
        ("127.0.0.1", "10.0.0.5", ["127.0.0.1", "10.0.0.5"]),
        *[(None, told, []) for told in ("127.0.0.1", "::1", "fe80::1", "224.0.0.1", "localhost", None)],
        ("no such host.invalid", "localhost", []),
    ],
)
def test_traffic_goes_where_ssh_leads(connected_to: str | None, told: str | None, found: list[str]) -> None:
    if found:
        assert udp.addresses_of("dtn2", connected_to, told) == found
    else:
        with pytest.raises(HowdahError, match="no address of dtn2 is known"):
            udp.addresses_of("dtn2", connected_to, told)
