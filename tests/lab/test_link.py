"""The emulator against the model of the link, through the kernel's own sockets.

Bounds of time are wide where the machine can only make things later, and tight where it cannot:
nothing may ever come too early, too fast, or be lost without the link saying so.
"""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from copying import alive
from requirement import missing
from traces import wait_for

from bench.carrying import PORT, ROOT, echoes_ns, probe, received, serving, thrown, wire_bps
from howdah import lab
from howdah.values.link import Change, LinkSpec

pytestmark = pytest.mark.lab

MS = 1_000_000


def with_changes(link: LinkSpec, *changes: Change) -> LinkSpec:
    there = msgspec.structs.replace(link.near_to_far, changes=changes)
    return msgspec.structs.replace(link, near_to_far=there)


@pytest.mark.parametrize("rtt_ms", [1, 30])
def test_no_echo_is_early_and_most_are_in_time(rtt_ms: int) -> None:
    with lab.started(lab.symmetric(1_000_000_000, rtt_ms * MS)) as wan:
        round_trips = echoes_ns(wan, 100, 0.005)
    assert len(round_trips) == 100
    assert min(round_trips) >= rtt_ms * MS
    assert statistics.median(round_trips) < (rtt_ms + 1) * MS


REFUSED = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.connect((sys.argv[1], 9))
    print("ready", flush=True)
    sys.stdin.readline()
    begin_ns = time.monotonic_ns()
    asking.send(b"anyone?")
    print("sent", flush=True)
    try:
        asking.recv(1)
    except ConnectionRefusedError:
        print(time.monotonic_ns() - begin_ns)
"""
"""A round trip by the kernels alone: no program is behind the port."""


def stopped(wan: lab.Lab) -> bool:
    assert wan.identity is not None
    threads = Path(f"/proc/{wan.identity.pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(") ")[2].startswith("T") for thread in threads)


def stopped_round_trip_ns(wan: lab.Lab, stop_s: float) -> int:
    """The round trip of a datagram that comes while the emulator is stopped for ``stop_s``."""
    argv = [sys.executable, "-c", REFUSED, wan.far_address]
    assert wan.identity is not None
    with alive(wan.popen("near", argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as asking:
        assert asking.stdout.readline() == "ready\n"
        os.kill(wan.identity.pid, signal.SIGSTOP)
        wait_for(lambda: stopped(wan))
        try:
            asking.stdin.write("go\n")
            asking.stdin.flush()
            assert asking.stdout.readline() == "sent\n"
            time.sleep(stop_s)
        finally:
            os.kill(wan.identity.pid, signal.SIGCONT)
        return int(asking.stdout.read())


def test_a_late_reading_is_no_part_of_the_delay() -> None:
    with lab.started(lab.symmetric(1_000_000_000, 400 * MS)) as wan:
        round_trip_ns = stopped_round_trip_ns(wan, 0.15)
        stats = wan.stats()
    assert 400 * MS <= round_trip_ns < 475 * MS
    assert stats.lateness.max_ns is not None
    assert stats.lateness.max_ns < 75 * MS


def test_a_late_reading_that_delays_a_packet_is_lateness() -> None:
    with lab.started(lab.symmetric(1_000_000_000, 0)) as wan:
        assert stopped_round_trip_ns(wan, 0.15) >= 150 * MS
        stats = wan.stats()
    assert stats.lateness.max_ns is not None
    assert stats.lateness.max_ns >= 149 * MS
    assert stats.lateness.spoilt


@pytest.mark.parametrize("rate_bps", [20_000_000, 500_000_000])
def test_the_rate_counts_headers_and_frames(rate_bps: int) -> None:
    link = lab.symmetric(rate_bps, 10 * MS, queue_bytes=max(rate_bps // 100, 280_000))
    with lab.started(link) as wan:
        carried_bps = wire_bps(received(wan, 1, 3))
        way = wan.stats().directions["near_to_far"]
    assert 0.95 < carried_bps / rate_bps < 1.005
    # Ethernet's 38 bytes beside each IP packet.
    assert way.wire_bytes - way.ip_bytes == 38 * way.segments
    assert way.queue_bytes_max <= (link.near_to_far.queue_bytes or 0)


def test_losses_hit_single_segments_of_offloaded_writes_and_are_all_accounted_for() -> None:
    loss, writes = 0.01, 1000
    with lab.started(lab.symmetric(None, 2 * MS, loss=loss, seed=5)) as wan:
        sent, caught = thrown(wan, writes)
        way = wan.stats().directions["near_to_far"]
    lost = sent - caught["datagrams"] - caught["overflows"]
    # The datagrams that say it is over are also segments; a few of them may be lost.
    assert lost <= way.dropped.loss <= lost + 20
    assert abs(lost - sent * loss) < 3.3 * (sent * loss * (1 - loss)) ** 0.5
    assert caught["datagrams"] > 0.9 * sent, "whole writes were lost"


TRANSFER = """
import hashlib, random, socket, sys
address, family = sys.argv[1], getattr(socket, sys.argv[2])
data = random.Random(3).randbytes(8 << 20)
if address == "listen":
    listener = socket.create_server(("", 5302), family=family)
    print("ready", flush=True)
    connection, _ = listener.accept()
    seen = hashlib.sha256()
    while block := connection.recv(1 << 20):
        seen.update(block)
    print(seen.hexdigest() == hashlib.sha256(data).hexdigest())
else:
    with socket.create_connection((address, 5302)) as connection:
        connection.sendall(data)
"""


@pytest.mark.beside
@pytest.mark.parametrize(("family", "address"), [("AF_INET", "10.77.0.2"), ("AF_INET6", "fd77::2")])
def test_cut_packets_carry_the_same_bytes(family: str, address: str) -> None:
    link = lab.symmetric(200_000_000, 4 * MS, loss=0.01, seed=11)
    with lab.started(link) as wan:
        receiving: list[Any] = [sys.executable, "-c", TRANSFER, "listen", family]
        with alive(wan.popen("far", receiving, stdout=subprocess.PIPE, text=True)) as receiver:
            assert receiver.stdout.readline() == "ready\n"
            wan.run("near", [sys.executable, "-c", TRANSFER, address, family], check=True, timeout=60)
            assert receiver.stdout.read() == "True\n"
        way = wan.stats().directions["near_to_far"]
    assert way.dropped.loss > 10
    assert way.segments > way.dropped.loss


def test_a_schedule_changes_the_delay_and_takes_the_link_down() -> None:
    link = with_changes(
        lab.symmetric(1_000_000_000, 10 * MS),
        Change(2_000 * MS, delay_ns=25 * MS),
        Change(3_000 * MS, outage=True),
        Change(3_500 * MS, outage=False, delay_ns=5 * MS),
    )
    with lab.started(link) as wan:
        round_trips = echoes_ns(wan, 500, 0.01)
        stats = wan.stats()
    slow = sum(value >= 30 * MS for value in round_trips)
    lost = stats.directions["near_to_far"].dropped.outage
    assert stats.elapsed_ns > 3_500 * MS, "the schedule was over before the echoes were"
    assert len(round_trips) + lost == 500
    assert 40 <= lost <= 51, "one each 10 ms for half a second, and one that was sent late"
    assert 90 <= slow <= 110, "one each 10 ms for a second"
    assert min(round_trips) >= 10 * MS


@pytest.mark.beside
def test_both_ends_of_the_same_link_lose_the_same_segments_again() -> None:
    def arrived(_: int) -> int:
        with lab.started(lab.symmetric(100_000_000, 2 * MS, loss=0.3, seed=9)) as wan:
            return len(echoes_ns(wan, 200, 0.001))

    # At the same time: what is lost is waited for, for two seconds.
    with ThreadPoolExecutor(2) as threads:
        first, again = threads.map(arrived, range(2))
    assert first == again
    assert 60 < first < 140, "0.7 squared of 200"


def steered(wan: lab.Lab, host: str) -> int:
    """The cores that receive for a host in place of the one that writes to it, a bit each."""
    show = "mount --types sysfs sysfs /sys && cat /sys/class/net/wan0/queues/rx-0/rps_cpus"
    argv = ["unshare", "--mount", "sh", "-c", show]
    mask = wan.run(host, argv, capture_output=True, text=True, check=True, timeout=10).stdout
    return int(mask.replace(",", ""), 16)


def test_hosts_receive_on_other_cores_while_a_link_is_busy() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        missing("one core has nobody to leave work to")
    with lab.started(lab.symmetric(10_000_000_000, 2 * MS)) as wan:
        assert echoes_ns(wan, 20, 0.01)
        assert [steered(wan, host) for host in ("near", "far")] == [0, 0]
        with serving(wan, "sink", PORT, 0, 2):
            source = wan.popen("near", probe("source", wan.far_address, PORT, 1), cwd=ROOT)
            wait_for(lambda: steered(wan, "far") > 0)
            others = steered(wan, "near")
            assert others == steered(wan, "far")
            assert others.bit_count() == len(os.sched_getaffinity(0)) - 1
            source.wait(timeout=10)
        # What ends the quiet is a packet.
        wait_for(lambda: bool(echoes_ns(wan, 5, 0.02)) and steered(wan, "near") == 0)


def test_a_flooded_link_stops_at_once() -> None:
    with contextlib.ExitStack() as stack:
        wan = stack.enter_context(lab.started(lab.symmetric(None, 2 * MS)))
        with serving(wan, "catch", PORT):
            flood = wan.popen("near", probe("throw", wan.far_address, PORT, 10**7, 1e12), cwd=ROOT)
            time.sleep(1)
            carried = wan.stats().directions["near_to_far"].wire_bytes
            begin_s = time.monotonic()
            stack.close()
            took_s = time.monotonic() - begin_s
            flood.wait(timeout=10)
    assert carried > 100_000_000
    assert took_s < 5
