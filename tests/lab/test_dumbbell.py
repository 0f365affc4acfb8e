"""Labs of many hosts: routers, cables of a rate of their own, one link that all of them share."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from traces import Traces, ping, round_trip_ms, wait_for

from bench.carrying import PORT, received, thrown, wire_bps
from howdah import lab
from howdah._native import HowdahError
from howdah.lab.hosts import HostCommands, configure
from howdah.values.link import CableDrops, Dropped, LinkStats

pytestmark = pytest.mark.lab

MS = 1_000_000


def pairs_wire_bps(star: lab.Lab, pairs: list[tuple[str, str]], skip_s: float, span_s: float) -> list[float]:
    """What each pair's connection carries while all of them do."""

    def carried(place: int) -> float:
        source, sink = pairs[place]
        return wire_bps(received(star, skip_s, span_s, source=source, sink=sink, port=PORT + place))

    with ThreadPoolExecutor(len(pairs)) as threads:
        return list(threads.map(carried, range(len(pairs))))


def smallest_ms(wan: lab.Lab, ways: list[tuple[str, str]]) -> list[float]:
    """The smallest round trip of each way, all at once."""
    pings = [wan.popen(source, ping(5, to), stdout=subprocess.PIPE, text=True) for source, to in ways]
    return [round_trip_ms(each.communicate(timeout=30)[0]) for each in pings]


def test_eight_pairs_have_the_links_round_trip_and_a_lan_of_their_own() -> None:
    across = [(f"left{place}", f"right{place}") for place in range(1, 9)]
    across += [(f"right{place}", f"left{9 - place}") for place in range(1, 9)]
    across += [("left8", "right1-v6")]
    with lab.started(lab.symmetric(1_000_000_000, 20 * MS), lab.dumbbell(8, 8)) as wan:
        for smallest in smallest_ms(wan, across):
            assert 20 <= smallest < 22
        crossed = wan.stats().directions["near_to_far"].segments
        (beside,) = smallest_ms(wan, [("left1", "left8")])
        assert beside < 2
        stats = wan.stats()
    assert crossed == stats.directions["near_to_far"].segments == 5 * len(across)
    assert stats.cables == dict.fromkeys(wan.addresses, CableDrops(0, 0))


def test_two_senders_share_the_link_and_fill_it() -> None:
    link = lab.symmetric(100_000_000, 10 * MS, queue_bytes=1_000_000)
    with lab.started(link, lab.dumbbell(2, 1, lan_rate_bps=1_000_000_000)) as star:
        rates = pairs_wire_bps(star, [("left1", "right1"), ("left2", "right1")], 2, 3)
        stats = star.stats()
    assert 0.9 < sum(rates) / 100_000_000 < 1.05, "their spans are not the very same"
    assert min(rates) > 5_000_000
    assert stats.directions["near_to_far"].queue_bytes_max > 100_000, "the link is where they meet"
    assert stats.cables is not None
    assert {drops.queue for drops in stats.cables.values()} == {0}


def test_a_cables_rate_is_each_hosts_own() -> None:
    shape = lab.dumbbell(2, 2, lan_rate_bps=50_000_000)
    slowest = 0.0
    with lab.started(lab.symmetric(1_000_000_000, 4 * MS), shape) as wan:
        # A machine that stands still now and then takes from a rate, and never adds to one.
        for _ in range(3):
            rates = pairs_wire_bps(wan, [("left1", "right1"), ("left2", "right2")], 1, 3)
            assert max(rates) < 1.01 * 50_000_000
            slowest = max(slowest, min(rates))
            if slowest > 0.93 * 50_000_000:
                break
        stats = wan.stats()
    assert slowest > 0.93 * 50_000_000
    assert stats.directions["near_to_far"].dropped.queue == 0


def test_a_port_that_two_overload_counts_what_it_drops() -> None:
    shape = lab.dumbbell(2, 1, lan_rate_bps=50_000_000)
    with lab.started(lab.symmetric(1_000_000_000, 4 * MS), shape) as star, ThreadPoolExecutor() as threads:

        def missed(source: str, port: int) -> int:
            sent, caught = thrown(star, 200, source=source, sink="right1", port=port)
            return sent - caught["datagrams"]

        lost = sum(threads.map(missed, ("left1", "left2"), (PORT, PORT + 1)))
        stats = star.stats()
    assert stats.cables is not None
    # The datagrams that say it is over may be lost, too; the bucket of a host has cut packets of many.
    assert 100 < lost <= stats.cables["right1"].queue <= lost + 40
    assert stats.cables["left1"].queue == stats.cables["left2"].queue == 0
    assert stats.directions["near_to_far"].dropped == Dropped(0, 0, 0, 0, 0)


@pytest.mark.parametrize("rate_bps", [None, 1_000_000_000])
def test_offloaded_packets_cross_cables_and_routers_whole_and_losses_hit_single_segments(
    rate_bps: int | None,
) -> None:
    loss, writes = 0.01, 1000
    link = lab.symmetric(None, 2 * MS, loss=loss, seed=5)
    with lab.started(link, lab.dumbbell(1, 1, lan_rate_bps=rate_bps)) as wan:
        sent, caught = thrown(wan, writes, source="left1", sink="right1")
        stats = wan.stats()
    way = stats.directions["near_to_far"]
    lost = sent - caught["datagrams"] - caught["overflows"]
    # The datagrams that say it is over are also segments; a few of them may be lost.
    assert lost <= way.dropped.loss <= lost + 20
    assert abs(lost - sent * loss) < 3.3 * (sent * loss * (1 - loss)) ** 0.5
    # A packet leaves as two pieces where a segment of it is lost, and a write is 44 segments.
    assert stats.lateness.releases < 2.5 * writes


@pytest.mark.beside
def test_ssh_goes_between_all_hosts(tmp_path: Path) -> None:
    shape = lab.dumbbell(["base20", "base21"], ["arch"])
    with lab.started(lab.symmetric(1_000_000_000, 2 * MS), shape, sshd=True) as star:
        for source, to in (
            ("base20", "arch"),
            ("arch", "base21"),
            ("base21", "base20"),
            ("base20", "arch-v6"),
        ):
            result = star.run(source, ["ssh", to, "echo $SSH_CONNECTION"], capture_output=True, text=True)
            assert (result.returncode, result.stderr) == (0, "")
            if to in star.addresses:
                assert result.stdout.split()[::2] == [star.addresses[source], star.addresses[to]]
        (tmp_path / "from").write_bytes(os.urandom(1000))
        star.run("base21", ["scp", "-q", tmp_path / "from", f"arch:{tmp_path}/to"], check=True)
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()


@pytest.mark.beside
def test_a_copy_between_hosts_of_a_star_tells_what_the_link_and_cables_did(tmp_path: Path) -> None:
    shape = lab.dumbbell(2, ["arch"], lan_rate_bps=1_000_000_000)
    (tmp_path / "from").write_bytes(os.urandom(3_000_000))
    with lab.started(lab.symmetric(1_000_000_000, 10 * MS), shape, sshd=True) as star:
        argv = [sys.executable, "-m", "howdah", "cp", "--json", tmp_path / "from", f"arch:{tmp_path}/to"]
        environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
        done = star.run("left2", argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "to").read_bytes() == (tmp_path / "from").read_bytes()
    stats = msgspec.convert(msgspec.json.decode(done.stdout)["link_stats"], LinkStats)
    assert stats.directions["near_to_far"].ip_bytes > 3_000_000
    assert stats.cables == dict.fromkeys(("left1", "left2", "arch"), CableDrops(0, 0))


@pytest.mark.beside
def test_hosts_may_have_names_that_are_words_of_ip() -> None:
    words = ["a", "b", "l", "add", "name", "up", "down", "type", "dev", "mtu", "netns"]
    with lab.started(lab.symmetric(None, 2 * MS), lab.dumbbell(words, ["peer"], lan_rate_bps=10**9)) as star:
        for word in words:
            assert star.run(word, ping(1, "peer"), stdout=subprocess.DEVNULL).returncode == 0, word
        stats = star.stats()
    assert stats.cables == dict.fromkeys([*words, "peer"], CableDrops(0, 0))


@pytest.mark.beside
def test_sockets_of_every_host_are_set_up_for_the_link() -> None:
    with lab.started(lab.symmetric(1_000_000_000, 180 * MS), lab.dumbbell(2, 1)) as star:
        buffers = set()
        for host in star.topology.hosts:
            argv = ["cat", "/proc/sys/net/ipv4/tcp_wmem", "/proc/sys/net/ipv4/tcp_no_metrics_save"]
            buffers.add(star.run(host.name, argv, capture_output=True, text=True, check=True).stdout)
    assert buffers == {f"4096\t16384\t{4 * 22_500_000}\n1\n"}


@pytest.mark.beside
@pytest.mark.parametrize(
    ("commands", "named"),
    [
        (
            HostCommands({}, ["link add x type nothing"]),
            "cannot set up left1: this kernel has no veth devices",
        ),
        (
            HostCommands({}, [], ["qdisc add dev lo root nothing"]),
            "no token buckets; load their module: modprobe",
        ),
        (HostCommands({}, ["link set y up"]), 'cannot set up left1: Cannot find device "y"'),
    ],
)
def test_what_this_kernel_lacks_is_named(commands: HostCommands, named: str) -> None:
    with (
        lab.started(lab.symmetric(None, 0)) as wan,
        wan.popen("near", ["sleep", "60"]) as inside,
    ):
        wait_for(lambda: inside.inner_pid() is not None)
        with pytest.raises(HowdahError, match=named):
            configure("left1", f"/proc/{inside.inner_pid()}/ns/net", commands)
        inside.kill()


@pytest.mark.beside
def test_two_dumbbells_side_by_side() -> None:
    with (
        lab.started(lab.symmetric(1_000_000_000, 10 * MS), lab.dumbbell(2, 1)) as one,
        lab.started(lab.symmetric(1_000_000_000, 30 * MS), lab.dumbbell(2, 2)) as two,
    ):
        for wan, low_ms in ((one, 10), (two, 30)):
            result = wan.run("left2", ping(3, "right1"), capture_output=True, text=True, check=True)
            assert low_ms <= round_trip_ms(result.stdout) < low_ms + 2
        with pytest.raises(HowdahError, match="no host is called right2; this lab has left-router"):
            one.run("right2", ["true"])


@pytest.mark.beside
def test_fifty_senders_come_up_soon_and_all_reach_the_receiver() -> None:
    begin_s = time.monotonic()
    shape = lab.dumbbell(50, 1, lan_rate_bps=1_000_000_000)
    with lab.started(lab.symmetric(1_000_000_000, 20 * MS), shape) as star:
        assert time.monotonic() - begin_s < 15
        pings = [star.popen(name, ping(2, "right1"), stdout=subprocess.DEVNULL) for name in shape.left]
        assert [each.wait(timeout=30) for each in pings] == [0] * 50
        assert star.stats().directions["far_to_near"].segments >= 100


def test_an_idle_dumbbell_carries_nothing_over_its_link(traces: Traces) -> None:
    result = traces.howdah(
        *("lab", "run", "--topology", "dumbbell", "--left", "2", "--rtt", "2ms"),
        *("--json-stats", "-", "--", "sleep", "1"),
    )
    stats = msgspec.json.decode(result.stdout, type=LinkStats)
    assert [direction.segments for direction in stats.directions.values()] == [0, 0]
    assert stats.cables is not None
    assert list(stats.cables) == ["left1", "left2", "right1"]
    assert stats.warning() is None


@pytest.fixture
def name(traces: Traces) -> Iterator[str]:
    made = f"test-{secrets.token_hex(4)}"
    yield made
    traces.howdah("lab", "down", made)


@pytest.mark.beside
def test_a_dumbbell_stays_until_it_is_taken_down(traces: Traces, name: str, tmp_path: Path) -> None:
    file = tmp_path / "star.toml"
    file.write_text('topology = "dumbbell"\nleft = 4\nright = ["arch"]\nrate = "1Gbit"\nrtt = "10ms"\n')
    up = traces.howdah("lab", "up", name, "--schedule", str(file), "--left", "base20,base21", "--json")
    assert up.returncode == 0, up.stderr
    assert msgspec.json.decode(up.stdout)["hosts"] == {
        "base20": "10.77.1.1",
        "base21": "10.77.1.2",
        "arch": "10.77.2.1",
    }
    assert "1.00 Gb/s, 10.0 ms round trip, 2 hosts to 1" in traces.howdah("lab", "list").stdout
    result = traces.howdah("lab", "exec", name, "base21", "--", *ping(3, "arch"))
    assert 10 <= round_trip_ms(result.stdout) < 12
    routed = traces.howdah("lab", "exec", name, "left-router", "--", "ip", "-o", "link", "show", "base21")
    assert "base21@" in routed.stdout
    unknown = traces.howdah("lab", "exec", name, "left1", "--", "true")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("howdah: no host is called left1; this lab has ")
    assert traces.howdah("lab", "down", name).returncode == 0
    traces.assert_none()


@pytest.mark.beside
def test_killed_a_dumbbell_leaves_nothing(traces: Traces) -> None:
    shape = (
        "--topology",
        "dumbbell",
        "--left",
        "3",
        "--right",
        "2",
        "--lan-rate",
        "1Gbit",
        "--host",
        "left2",
    )
    script = "ip -4 -o address show eth0; readlink /proc/self/ns/net; setsid sleep 300 & exec sleep 300"
    with traces.start("lab", "run", *shape, "--sshd", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert " 10.77.1.2 " in process.stdout.readline()
        namespace = process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=5)
        traces.assert_none(namespace)


@pytest.mark.beside
@pytest.mark.parametrize(
    "arguments",
    [
        ("--left", "4", "--", "true"),
        ("--topology", "ring", "--", "true"),
        ("--topology", "dumbbell", "--left", "0", "--", "true"),
        ("--topology", "dumbbell", "--lan-rate", "1", "--", "true"),
        ("--topology", "dumbbell", "--host", "near", "--", "true"),
    ],
)
def test_bad_input_is_one_clear_line(traces: Traces, arguments: tuple[str, ...]) -> None:
    result = traces.howdah("lab", "run", *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("howdah: ")
    assert result.stderr.count("\n") == 1
