"""``howdah probe`` over emulated links: the base RTT, a queue, a change of route, and no answer at all."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from streams import streams

from howdah import lab
from howdah.archive import Archive
from howdah.values.link import Change, LinkSpec
from howdah.values.probe import Probe
from howdah.values.record import Record

pytestmark = pytest.mark.lab

MS = 1_000_000
MOVES_AT_S = 4.5


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    def probe(self) -> Probe:
        assert self.code == 0, self.err
        found = msgspec.json.decode(self.out, type=Record).probe
        assert found is not None
        return found


class Running:
    """``howdah probe`` on the near host of a lab."""

    def __init__(self, wan: lab.Lab, folder: Path, *words: str) -> None:
        env = {**os.environ, "XDG_DATA_HOME": str(folder)}
        argv = [sys.executable, "-m", "howdah", "probe", *words]
        pipe = subprocess.PIPE
        self._process = wan.popen("near", argv, stdout=pipe, stderr=pipe, text=True, env=env)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        out, err = self._process.communicate(timeout=40)
        return Ended(self._process.returncode, out, err)


def moving() -> LinkSpec:
    """20 ms, and 60 ms from MOVES_AT_S on."""
    link = lab.symmetric(100_000_000, 20 * MS)
    change = Change(at_ns=round(MOVES_AT_S * 1e9), delay_ns=30 * MS)
    there, back = (
        msgspec.structs.replace(way, changes=(change,)) for way in (link.near_to_far, link.far_to_near)
    )
    return msgspec.structs.replace(link, near_to_far=there, far_to_near=back)


@pytest.fixture(scope="module")
def four(privilege: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ended]]:
    """A queue, a change of route, no echo, no link: at the same time, because each mostly waits."""
    folder = tmp_path_factory.mktemp("probes")
    with contextlib.ExitStack() as stack:
        # A queue of 40 ms is 2 BDP, so that one stream never empties it once it is there.
        queue = stack.enter_context(lab.started(lab.symmetric(50_000_000, 20 * MS, queue_bytes=250_000)))
        sending = stack.enter_context(streams(queue, 1, 30))
        dead = stack.enter_context(lab.started(lab.symmetric(None, 20 * MS, loss=1.0)))
        mute = stack.enter_context(lab.started(lab.symmetric(100_000_000, 20 * MS), sshd=True))
        mute.run("far", ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all"], check=True)
        route = stack.enter_context(lab.started(moving()))
        running = {
            "route": Running(route, folder, "--for", "6s", "--json", "far"),
            "queue": Running(queue, folder, "--for", "5s", "--json", "far"),
            "mute": Running(mute, folder, "--for", "1s", "--json", "far"),
            "dead": Running(dead, folder, "--for", "2s", "far"),
        }
        stopped = Running(route, folder, "--for", "60s", "far")
        time.sleep(2)
        sending.send(0)
        stopped.interrupt()
        running["stopped"] = stopped
        yield {name: each.end() for name, each in running.items()}


def test_icmp_and_udp_find_the_base_round_trip(wan: lab.Lab, tmp_path: Path) -> None:
    both = [Running(wan, tmp_path, "--for", "1s", "--json", *words, "far") for words in ([], ["--udp"])]
    icmp, udp = (each.end().probe() for each in both)
    assert (icmp.way, udp.way) == ("icmp", "udp")
    for probe in (icmp, udp):
        # Nothing is faster than the link, and the least of 100 is no more than two sleeping cores later.
        assert 0.020 <= probe.base_rtt_s < 0.0205
        assert probe.base_is_seen
        assert probe.route_changes == []
        assert probe.counts.answered == probe.counts.sent
        assert len(probe.mean_of_ten_rtt_s) == 1
        assert probe.counts.unstamped < 0.1 * probe.counts.answered
    assert abs(icmp.base_rtt_s - udp.base_rtt_s) < 0.0003


def test_where_echo_is_switched_off_udp_is_asked_over_ssh(four: dict[str, Ended]) -> None:
    ended = four["mute"]
    assert ended.err == "howdah: far (10.77.0.2) answers no ICMP echo within 1.0 s; asking by UDP, over ssh\n"
    assert ended.probe().way == "udp"


def test_a_queue_of_tcp_is_a_queue_and_no_other_base(four: dict[str, Ended]) -> None:
    probe = four["queue"].probe()
    assert probe.route_changes == []
    assert 0.020 <= probe.base_rtt_s < 0.0205
    # The stream sends for at least a third of the time, and most probes wait no longer than the queue is.
    assert probe.queue_share > 0.3
    assert 0.010 < probe.queue_p90_s < 0.045


def test_a_base_that_moves_for_good_is_a_change_of_route(four: dict[str, Ended]) -> None:
    probe = four["route"].probe()
    (change,) = probe.route_changes
    assert 0.020 <= change.before_s < 0.0205
    assert 0.060 <= change.after_s < 0.0605
    assert 0 < change.at_s < MOVES_AT_S
    assert probe.base_rtt_s == pytest.approx(change.after_s, abs=0.0005)
    # By the old base, the 40 ms since the change would be a queue.
    assert probe.queue_mean_s < 0.008


def test_what_was_seen_before_ctrl_c_is_told_and_kept(four: dict[str, Ended]) -> None:
    stopped = four["stopped"]
    assert (stopped.code, stopped.err) == (130, "")
    assert "Base RTT  20.0" in stopped.out
    assert "Record: howdah archive show " in stopped.out


def test_a_link_without_answers_ends_with_the_reason(four: dict[str, Ended]) -> None:
    dead = four["dead"]
    assert dead.code == 1
    assert dead.out == ""
    first, last = dead.err.splitlines()
    assert first == "howdah: far (10.77.0.2) answers no ICMP echo within 1.5 s; asking by UDP, over ssh"
    assert last.startswith(f"{first.partition(';')[0]}, and by UDP: ssh to far did not answer")


BURSTS = """
name = "short"
duration = "2s"
[[load]]
kind = "tcp"
congestion_control = "cubic"
on = "1s"
every = "3s"
"""


def test_bursts_are_sent_beside_the_probes_and_their_cost_is_told(wan: lab.Lab, tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(BURSTS)
    words = ["--active", "--bursts", str(tmp_path / "short.toml"), "far"]
    before = wan.stats().directions["near_to_far"].ip_bytes
    said = Running(wan, tmp_path, *words).end()
    assert (said.code, said.err) == (0, "")
    assert "Sent      " in said.out
    probe = Archive(tmp_path / "howdah" / "records").load("last").probe
    assert probe is not None
    carried = wan.stats().directions["near_to_far"].ip_bytes - before
    (burst,) = probe.bursts
    assert burst.congestion_control == "cubic"
    assert 2.0 <= burst.start_s < 2.5
    assert 1.0 < burst.end_s - burst.start_s < 2.0
    assert 0.5 * carried < burst.bytes < carried
    # Before the first burst nothing of ours was on the path, so the base RTT is its own.
    assert 0.020 <= probe.base_rtt_s < 0.0205
    assert probe.elapsed_s == pytest.approx(4.0, abs=1.0)
