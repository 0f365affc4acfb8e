"""Hosts and LANs of a dumbbell: names, addresses, the ways between them, and what cables drop."""

import ipaddress
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import text as words
from howdah._native import HowdahError
from howdah.lab import labfile, lan
from howdah.lab.hosts import HostCommands
from howdah.lab.topology import ENDS, HOSTS_MAX, PAIR, ROUTERS, Topology, dumbbell
from howdah.values.link import CableDrops, DirectionStats, Dropped, Lateness, LinkSpec, LinkStats, symmetric

LINK = symmetric(1_000_000_000, 180_000_000, loss=1e-4)
COUNTS = st.integers(1, HOSTS_MAX)
NAMES = st.text("abcdefghij", min_size=1, max_size=15)
DROPS = st.builds(CableDrops, *[st.integers(0, 2**40)] * 2)


class Device(NamedTuple):
    namespace: str
    name: str


class Paper:
    """The network as the batches of ip(8) describe it, and the way of a packet in it."""

    def __init__(self, topology: Topology, link: LinkSpec) -> None:
        self.local: set[tuple[str, str]] = set()
        self.routes: dict[str, list[tuple[Any, str]]] = {}
        self.joined = {
            Device(ROUTERS["near"], "wan0"): ROUTERS["far"],
            Device(ROUTERS["far"], "wan0"): ROUTERS["near"],
        }
        self.ethernet: dict[str, set[str]] = {}
        names = {host.name: host.name for host in topology.hosts}
        for end in ENDS:
            self._take(ROUTERS[end], lan.router(end, topology, link, "wan0", names))
            for host in topology.side(end):
                self._take(host.name, lan.host(end, host, topology, link))

    def way(self, source: str, address: str) -> list[str]:
        """The namespaces that a packet for ``address`` is in, one after the other."""
        here, passed = source, [source]
        while (here, address) not in self.local:
            assert len(passed) <= 4, f"{address} is in a loop: {passed}"
            here = self.joined[Device(here, self._next(here, address))]
            passed.append(here)
        return passed

    def _next(self, namespace: str, address: str) -> str:
        to = ipaddress.ip_address(address)
        fitting = [(net, device) for net, device in self.routes[namespace] if to in net]
        return max(fitting, key=lambda route: route[0].prefixlen)[1]

    def _take(self, namespace: str, commands: HostCommands) -> None:
        routes = self.routes.setdefault(namespace, [])
        for line in commands.ip:
            if made := re.match(r"link add name (\S+) .*address (\S+) .*address (\S+) netns (\S+)$", line):
                device, ours, theirs, host = made.groups()
                self.joined[Device(namespace, device)] = host
                self.joined[Device(host, "eth0")] = namespace
                assert ours == theirs, "without ARP a frame goes to the sender's own address"
                self.ethernet.setdefault(namespace, set()).add(ours)
            elif made := re.match(r"address add (\S+) peer (\S+) dev (\S+)", line):
                self.local.add((namespace, made[1]))
                routes.append((ipaddress.ip_network(made[2]), made[3]))
            elif made := re.match(r"route add (\S+) (?:via \S+ )?dev (\S+)$", line):
                routes.append((ipaddress.ip_network(made[1]), made[2]))
            else:
                assert line.startswith("link set "), line


@given(left=st.integers(1, 6), right=st.integers(1, 6), rate_bps=st.none() | st.just(10**9))
def test_every_host_reaches_every_other_and_only_the_other_side_over_the_link(
    left: int, right: int, rate_bps: int | None
) -> None:
    topology = dumbbell(left, right, lan_rate_bps=rate_bps)
    paper = Paper(topology, LINK)
    sides = {host.name: ROUTERS[end] for end in ENDS for host in topology.side(end)}
    for source, to in itertools.permutations(topology.hosts, 2):
        routers = [sides[source.name], sides[to.name]]
        expected = [source.name, *dict.fromkeys(routers), to.name]
        assert paper.way(source.name, to.address) == expected
        assert paper.way(source.name, to.address6) == expected
    assert {name: len(used) for name, used in paper.ethernet.items()} == {
        ROUTERS["near"]: left,
        ROUTERS["far"]: right,
    }


@given(left=COUNTS, right=COUNTS)
def test_names_and_addresses_are_each_hosts_own(left: int, right: int) -> None:
    topology = dumbbell(left, right)
    assert (topology.left[0], topology.right[-1]) == ("left1", f"right{right}")
    said = [part for host in topology.hosts for part in msgspec.structs.astuple(host)]
    said += [*ROUTERS.values(), *(host for end in PAIR.hosts for host in (end.address, end.address6))]
    assert len(set(said)) == len(said) == 4 * (left + right) + 6
    assert all(len(name) <= 15 for name in (*topology.left, *topology.right))
    assert msgspec.json.decode(msgspec.json.encode(topology), type=Topology) == topology


def test_a_pair_is_near_and_far_at_the_ends_of_the_link() -> None:
    assert PAIR.ends == {"near": "near", "far": "far"}
    assert [(host.name, host.name6, host.address) for host in PAIR.hosts] == [
        ("near", "near6", "10.77.0.1"),
        ("far", "far6", "10.77.0.2"),
    ]
    assert [host.name for host in PAIR.servers] == ["far"]


@pytest.mark.parametrize(
    ("left", "right", "rate_bps", "named"),
    [
        (0, 1, None, "0 hosts on the left"),
        (1, HOSTS_MAX + 1, None, f"{HOSTS_MAX + 1} hosts on the right"),
        ([], 1, None, "0 hosts on the left"),
        (["Base20"], 1, None, "'Base20' is not a host name"),
        (["a" * 16], 1, None, "is not a host name"),
        (["a b"], 1, None, "is not a host name"),
        (["arch"], ["arch"], None, "host name arch is taken"),
        (1, ["left1"], None, "host name left1 is taken"),
        (["arch"], ["arch-v6"], None, "host name arch-v6 is taken"),
        (["left-router"], 1, None, "host name left-router is taken"),
        (["wan0"], 1, None, "host name wan0 is taken"),
        (["all"], 1, None, "host name all is taken"),
        (1, 1, 0, "the LAN's rate is 0 b/s"),
        (1, 1, 10**13, "the LAN's rate is 10.0 Tb/s"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    left: int | Sequence[str], right: int | Sequence[str], rate_bps: int | None, named: str
) -> None:
    with pytest.raises(HowdahError) as refused:
        dumbbell(left, right, lan_rate_bps=rate_bps)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def built(options: labfile.LabOptions, text: str, folder: Path) -> tuple[LinkSpec, Topology]:
    file = folder / "lab.toml"
    file.write_text(text, encoding="utf-8")
    return labfile.build(options, file)


def test_a_file_describes_a_whole_lab_and_options_win_over_it(tmp_path: Path) -> None:
    text = """
        rate = "1Gbit"
        rtt = "180ms"
        loss = "0.01%"
        topology = "dumbbell"
        left = ["base20", "base21"]
        right = 2
        lan_rate = "10Gbit"
    """
    star = dumbbell(["base20", "base21"], ["arch"], lan_rate_bps=10**10)
    assert built(labfile.LabOptions(right="arch"), text, tmp_path) == (LINK, star)
    narrow = dumbbell(3, 2, lan_rate_bps=10**9)
    assert built(labfile.LabOptions(left="3", lan_rate="1Gbit"), text, tmp_path) == (LINK, narrow)


def test_options_alone_make_a_pair_or_a_dumbbell() -> None:
    assert labfile.build(labfile.LabOptions())[1] == PAIR
    assert labfile.build(labfile.LabOptions(topology="pair"))[1] == PAIR
    assert labfile.build(labfile.LabOptions(topology="dumbbell"))[1] == dumbbell(1, 1)
    typed = labfile.LabOptions(topology="dumbbell", left="4", right="arch, tape")
    assert labfile.build(typed)[1] == dumbbell(4, ["arch", "tape"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('topology = "ring"', "lab.toml: topology: 'ring' is unknown; give pair or dumbbell"),
        ("topology = 2", "lab.toml: topology: expected a text, got a whole number"),
        ("left = 2", "lab.toml: left: a pair of hosts has no LAN"),
        ('lan_rate = "1Gbit"', "lab.toml: lan_rate: a pair of hosts has no LAN"),
        (
            'topology = "dumbbell"\nleft = true',
            "lab.toml: left: expected a whole number or a text or a list, got true or false",
        ),
        ('topology = "dumbbell"\nleft = [1]', "lab.toml: left 1: expected a text, got a whole number"),
        (
            'topology = "dumbbell"\nright = 1.5',
            "lab.toml: right: expected a whole number or a text or a list",
        ),
        ('topology = "dumbbell"\nright = "a,,b"', "'' is not a host name"),
        ('topology = "dumbbell"\nlan_rate = "fast"', "lab.toml: lan_rate: "),
        ('topology = "dumbbell"\nhosts = 3', "lab.toml: unknown key hosts"),
    ],
)
def test_bad_files_are_refused_by_file_and_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(HowdahError) as refused:
        built(labfile.LabOptions(), text, tmp_path)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bad_options_are_refused_by_name() -> None:
    for options, named in (
        (labfile.LabOptions(left="2"), "left: a pair of hosts has no LAN"),
        (labfile.LabOptions(topology="star"), "topology: 'star' is unknown"),
        (labfile.LabOptions(topology="dumbbell", lan_rate="10"), "lan_rate: "),
    ):
        with pytest.raises(HowdahError, match=named):
            labfile.build(options)


@given(rate_bps=st.integers(10**6, 10**12), mtu=st.integers(576, 65535), overhead_bytes=st.integers(0, 100))
def test_full_frames_leave_a_bucket_at_the_rate_on_the_wire(
    rate_bps: int, mtu: int, overhead_bytes: int
) -> None:
    link = msgspec.structs.replace(LINK, mtu=mtu, frame_overhead_bytes=overhead_bytes)
    made = lan.bucket(rate_bps, link)
    frames_a_s = made.rate_bps / 8 / (mtu + 14)
    assert frames_a_s * (mtu + overhead_bytes) * 8 == pytest.approx(rate_bps, rel=1e-5)
    assert frames_a_s * (mtu + overhead_bytes) * 8 <= rate_bps * (1 + 1e-12)
    assert made.depth_bytes >= 2 * (mtu + 14)
    assert made.depth_bytes >= rate_bps / 8 * 0.0001 - 1
    assert made.depth_bytes <= max(80 * 1024, 2 * (mtu + 14), rate_bps / 8 * 0.0001)


def test_a_gigabit_lets_a_whole_packet_of_segmentation_offload_pass() -> None:
    headers_bytes = 14 + 20 + 32
    payload_bytes = 65536 - 20 - 32
    for segment_bytes in (1448, 8948):
        segments = -(-payload_bytes // segment_bytes)
        assert lan.bucket(10**9, LINK).depth_bytes >= payload_bytes + segments * headers_bytes


def test_only_cables_with_a_rate_have_buckets() -> None:
    names = {"left1": "x", "left2": "y", "right1": "z"}
    free, shaped = dumbbell(2, 1), dumbbell(2, 1, lan_rate_bps=10**9)
    assert lan.router("near", free, LINK, "wan0", names).tc == []
    lines = lan.router("near", shaped, LINK, "wan0", names).tc
    assert [line.split()[3] for line in lines] == ["left1", "left2"]
    (own,) = lan.host("near", shaped.side("near")[0], shaped, LINK).tc
    assert own.split()[3] == "eth0"
    assert int(own.split()[-1]) > int(lines[0].split()[-1]), "a socket is held back before its host drops"


def device_row(name: str, received_dropped: int, sent_dropped: int) -> str:
    received = [7, 1, 2, received_dropped, 3, 4, 5, 6]
    sent = [9, 1, 2, sent_dropped, 3, 4, 5, 6]
    return f"{name:>6}:{received[0]:>8} {' '.join(map(str, received[1:] + sent))}"


@given(st.dictionaries(NAMES, st.tuples(*[st.integers(0, 2**63)] * 2), max_size=20))
def test_a_devices_drops_are_those_of_both_ways(counters: dict[str, tuple[int, int]]) -> None:
    header = ["Inter-|   Receive                    |  Transmit", " face |bytes    packets errs drop"]
    rows = [device_row(name, *dropped) for name, dropped in counters.items()]
    found = lan.device_drops("\n".join([*header, *rows, ""]).encode())
    assert found == {name: sum(dropped) for name, dropped in counters.items()}


def test_a_queues_drops_are_those_of_its_bucket() -> None:
    text = b"""[{"kind":"pfifo_fast","handle":"0:","dev":"wan0","root":true,"drops":5},
        {"kind":"tbf","handle":"8001:","dev":"left1","root":true,"refcnt":2,
         "options":{"rate":123,"burst":81920,"lat":9},"bytes":7,"packets":1,"drops":3,"overlimits":2},
        {"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{}}]\n"""
    assert lan.queue_drops(text) == {"left1": 3}
    assert lan.queue_drops(b"") == lan.queue_drops(b"[ ]\n") == {}


@given(earlier=DROPS, more=DROPS)
def test_what_was_dropped_since_is_the_difference(earlier: CableDrops, more: CableDrops) -> None:
    names = CableDrops.__struct_fields__
    now = CableDrops(*(getattr(earlier, name) + getattr(more, name) for name in names))
    assert lan.drops_since({"left1": now}, {"left1": earlier}) == {"left1": more}
    assert lan.drops_since({"left1": earlier}, {"left1": now}) == {"left1": CableDrops(0, 0)}


def carried(lateness: Lateness) -> LinkStats:
    nothing = DirectionStats(0, 0, 0, Dropped(0, 0, 0, 0, 0), 0, None, 0, None)
    return LinkStats(1, "wan0", {"near_to_far": nothing, "far_to_near": nothing}, lateness)


ON_TIME = Lateness(0, None, None, None, 0.0, 1_000_000, spoilt=False)


def test_packets_that_the_machine_drops_on_a_lan_spoil_a_run() -> None:
    kept = lan.with_drops(carried(ON_TIME), {"left1": CableDrops(5, 0)})
    assert kept.warning() is None
    assert kept.cables == {"left1": CableDrops(5, 0)}
    lost = lan.with_drops(carried(ON_TIME), {"left1": CableDrops(0, 2), "right1": CableDrops(0, 1)})
    assert "3 packets were dropped by this machine between hosts and routers" in (lost.warning() or "")
    late = msgspec.structs.replace(ON_TIME, spoilt=True, why="late")
    assert lan.with_drops(carried(late), {"left1": CableDrops(0, 2)}).lateness.why == "late"


@given(st.lists(NAMES, min_size=1, max_size=30))
def test_names_in_words_are_all_said_or_counted(names: list[str]) -> None:
    said = words.some(names)
    more = re.search(r" and (\d+) more$", said)
    listed = re.split(r", | and ", said[: more.start()] if more else said)
    assert listed == names[: len(listed)]
    assert len(listed) + (int(more[1]) if more else 0) == len(names)
