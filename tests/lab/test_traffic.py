"""Background traffic over an emulated link: what arrives, judged by the link's own account and the record."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from copying import SLACK_S, STOP_S, Copier, wait_until

from howdah import lab
from howdah.lab import Lab
from howdah.lab.session import Process
from howdah.traffic.account import LoadAccount, Traffic
from howdah.values.record import Record

pytestmark = pytest.mark.lab

UDP_AND_IP_BYTES = 28


class Sender:
    """Runs ``howdah traffic`` on the near host of a lab, with an archive of its own."""

    def __init__(self, wan: Lab, folder: Path) -> None:
        self.lab, self.folder = wan, folder
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}

    @contextmanager
    def started(self, pattern: str) -> Iterator[Process]:
        file = self.folder / "pattern.toml"
        file.write_text(f'name = "test"\n{pattern}')
        argv = [sys.executable, "-m", "howdah", "traffic", str(file), "far", "--json"]
        pipe = subprocess.PIPE
        with self.lab.popen("near", argv, env=self.env, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def loads(self, pattern: str) -> tuple[Record, list[LoadAccount]]:
        with self.started(pattern) as process:
            return of(process, 0)


def of(process: Process, code: int) -> tuple[Record, list[LoadAccount]]:
    """The record and the loads of a run that ends with this exit code."""
    told, complaints = process.communicate(timeout=60)
    assert process.returncode == code, complaints
    record = msgspec.json.decode(told, type=Record)
    return record, msgspec.convert(record.traffic, Traffic).loads


@pytest.fixture
def sender(wan: Lab, tmp_path: Path) -> Sender:
    return Sender(wan, tmp_path)


@pytest.fixture(scope="module")
def lossy(privilege: None) -> Iterator[Lab]:
    """200 Mb/s, 10 ms, and 2 % of the segments lost either way."""
    with lab.started(lab.symmetric(200_000_000, 10_000_000, loss=0.02), sshd=True) as up:
        yield up


def wire_bytes(wan: Lab) -> int:
    return wan.stats().directions["near_to_far"].wire_bytes


def test_udp_arrives_at_its_rate_and_the_link_has_carried_it(sender: Sender) -> None:
    before = sender.lab.stats().directions["near_to_far"].ip_bytes
    _, (load,) = sender.loads('duration = "1s"\n[[load]]\nkind = "udp"\nrate = "80Mbit"\n')
    carried = sender.lab.stats().directions["near_to_far"].ip_bytes - before
    assert load.source is not None
    assert load.sink is not None
    assert load.offered_bytes == pytest.approx(10_000_000, rel=0.05)
    # A machine that stands still takes from a rate, and never adds to one.
    assert 0.7 * load.offered_bytes < load.source.sent_bytes <= load.offered_bytes
    assert load.sink.strange == load.sink.doubled == load.sink.reordered == 0
    assert load.sink.received + load.sink.overflowed == load.source.sent, "the link loses nothing"
    ip_bytes = load.source.sent_bytes + load.source.sent * UDP_AND_IP_BYTES
    assert ip_bytes <= carried < 1.05 * ip_bytes + 100_000, "the rest is ssh"


def test_bursts_are_on_and_off_in_the_links_own_account(sender: Sender) -> None:
    burst = 'rate = "80Mbit"\non = "400ms"\nevery = "1s"\n'
    looks = []
    with sender.started(f'duration = "2500ms"\n[[load]]\nkind = "udp"\n{burst}') as process:
        while process.poll() is None:
            looks.append((time.monotonic(), wire_bytes(sender.lab)))
            time.sleep(0.02)
        _, (load,) = of(process, 0)
    spans = list(pairwise(looks))
    rates = [(b[0], (b[1] - a[1]) * 8 / (b[0] - a[0])) for a, b in spans]
    # ssh and the record of it are some hundred kb/s; a look may fall on an edge, or be late.
    busy = [at for at, rate in rates if rate > 40_000_000]
    begins = [busy[0], *(b for a, b in pairwise(busy) if b - a > 0.3)]
    assert len(begins) == 3
    for first, second in pairwise(begins):
        assert second - first == pytest.approx(1.0, abs=0.2)
        quiet = [rate for at, rate in rates if first + 0.6 < at < second - 0.1]
        assert max(quiet) < 8_000_000
    assert load.received_bytes == pytest.approx(3 * 4_000_000, rel=0.3)


def test_objects_arrive_bit_for_bit_over_a_path_that_loses(lossy: Lab, tmp_path: Path) -> None:
    _, (load,) = Sender(lossy, tmp_path).loads(
        'duration = "1500ms"\n[[load]]\nkind = "rbudp"\nrate = "80Mbit"\nsize = "4MB"\nevery = "800ms"\n'
    )
    assert load.source is not None
    assert len(load.blasts) == 2
    assert all(blast.whole for blast in load.blasts)
    assert min(blast.rounds for blast in load.blasts) > 1
    digests = {blast.digest for blast in load.blasts}
    assert len(digests) == 2, "each object is another"
    pieces = 2 * -(-4_000_000 // (load.datagram_bytes or 0))
    assert load.lost is not None
    assert 0.005 < load.lost / load.source.sent < 0.06
    assert load.source.sent < 1.2 * pieces, "only what is missing is sent again"


def test_a_square_wave_of_tcp_with_two_congestion_controls(sender: Sender) -> None:
    waves = "".join(
        f'[[load]]\nkind = "tcp"\ncongestion_control = "{control}"\nstreams = {streams}\n'
        f'on = "500ms"\nevery = "1200ms"\nstart = "{start}"\n'
        for control, streams, start in (("bbr", 1, "0s"), ("cubic", 2, "600ms"))
    )
    record, loads = sender.loads(f'duration = "2400ms"\n{waves}')
    assert [load.congestion_control for load in loads] == ["bbr", "cubic"]
    for load, start_s in zip(loads, (0, 0.6), strict=True):
        assert len(load.periods) == 2
        for period, begin_s in zip(load.periods, (start_s, start_s + 1.2), strict=True):
            assert begin_s <= period.begin_s < begin_s + 0.5
            assert period.end_s - period.begin_s >= 0.4
            assert period.bytes > 200_000
        assert load.received_bytes == sum(period.bytes for period in load.periods)
    assert record.link_stats is not None
    assert record.link_stats["directions"]["near_to_far"]["ip_bytes"] > sum(
        load.received_bytes for load in loads
    )


def test_paced_tcp_arrives_at_its_rate(sender: Sender) -> None:
    paced = '[[load]]\nkind = "tcp"\nstreams = 2\n'
    _, loads = sender.loads(f'duration = "4s"\n{paced}rate = "16Mbit"\n')
    # Two streams send 2 MB each second; the first of them are slow start's.
    assert 5_000_000 < loads[0].received_bytes < 9_000_000


def test_ctrl_c_ends_both_ends_and_keeps_the_record(sender: Sender, cp: Copier) -> None:
    cp.forget_logins()
    before = wire_bytes(sender.lab)
    with sender.started('[[load]]\nkind = "udp"\nrate = "20Mbit"\n[[load]]\nkind = "tcp"\n') as process:
        wait_until(lambda: wire_bytes(sender.lab) - before > 2_000_000, 20)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        record, loads = of(process, 130)
        assert time.monotonic() - began < STOP_S + SLACK_S
    assert record.error == "interrupted by SIGINT"
    assert "interrupted" in record.flags
    assert all(load.received_bytes > 0 for load in loads)
    assert len(list(sender.folder.glob("data/howdah/records/*/*/*.json"))) == 1
    wait_until(lambda: all("[mux]" in args for args in cp.processes().values()), STOP_S + SLACK_S)
