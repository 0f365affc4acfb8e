"""Agents on the real kernel: an application that knows nothing of them has its share, and all is put back."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from controls import clean_kernel, in_kernel, take_all_away
from copying import alive, wait_until
from streams import PORT, Samples, streams, wire_bps

from howdah import lab
from howdah.cc import programs
from howdah.cc.shares import everyones, now_ns
from howdah.control.bus import LocalBus
from howdah.control.leases.agent import Held, Kernel
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import loads
from howdah.control.privilege import remote
from howdah.control.privilege.helper import Host
from howdah.control.running.agent import serve
from howdah.control.running.operations import Operations
from howdah.control.status import FlowStatus
from howdah.lab import Lab

pytestmark = pytest.mark.lab

RTT_NS = 20_000_000
SHARE_BPS, SPAN_NS = 60_000_000, 2_000_000_000
LEAST, MOST = 0.7, 1.03
"""Of it, on a machine that others use too."""
SOON_S = 20
NAME = "base20"
POLICY = """
name = "small"
guarantee = "80Mbit"
lease = "1s"
[class.background]
minimum = "5Mbit"
[[class.background.member]]
host = "base20"
to = "10.99.0.0/16"
[class.images]
minimum = "10Mbit"
priority = 1
active = "asked"
maximum = "60Mbit"
[[class.images.member]]
host = "base20"
to = "ADDRESS"
ports = "PORT"
"""
HOLD_AND_WAIT = """
import sys, time
from howdah.control.leases.agent import Held
from howdah.control.privilege.helper import Host
from howdah.control.policy.members import Member
host = Host(sys.argv[1], int(sys.argv[2]))
host.hold("images/base20", Held(60_000_000, 10_000_000, int(sys.argv[3])))
host.place({"images/base20": Member("base20", "10.78.0.0/16", (1, 65535))})
print("held", flush=True)
time.sleep(3600)
"""

TWO_HOSTS = """
from howdah.control.leases.agent import Held
from howdah.control.privilege.helper import Host
hosts = [Host("base20", 1), Host("base21", 2)]
for host in hosts:
    host.hold("images", Held(60_000_000, 10_000_000, 0))
for host in hosts:
    host.leave()
"""


@pytest.fixture(scope="module")
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture(autouse=True)
def clean(kernel: None) -> Iterator[None]:
    yield
    take_all_away()


@pytest.fixture(scope="module")
def wan(kernel: None) -> Iterator[Lab]:
    with lab.started(lab.symmetric(100_000_000, RTT_NS)) as up:
        yield up


def namespace(wan: Lab) -> int:
    """Inode of the near host's."""
    stat = ["stat", "--dereference", "--format=%i", "/proc/self/ns/net"]
    return int(wan.run("near", stat, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("helped", [False, True])
def test_connections_have_the_share_that_is_ordered_and_all_is_put_back(wan: Lab, helped: bool) -> None:
    policy = loads(
        POLICY.replace("ADDRESS", f"{wan.far_address}/32").replace("PORT", str(PORT)), "small.toml"
    )
    shown: list[FlowStatus] = []
    arrived: list[Samples] = []

    async def attend(operations: Operations) -> None:
        revision = await operations.ask("images", "test")
        async for status in operations.watch():
            if status.settled and status.revision >= revision:
                break
        end_s = time.monotonic() + SOON_S
        while time.monotonic() < end_s and not (shown and held(shown[-1])):
            await asyncio.sleep(SPAN_NS / 1e9)
            shown.extend(flow for flow in operations.status().flows if flow.traffic_class == "images")
        arrived.extend(opened.until_now())

    with streams(wan, 4, 60) as opened, kernels_of(namespace(wan), helped=helped) as kernels:
        opened.send(*range(4))
        asyncio.run(serve("test", policy, LocalBus(), kernels, attend, lambda line: None))
    assert held(shown[-1]), shown
    end_ns = max(own[-1][0] for own in arrived)
    assert LEAST < sum(wire_bps(each, end_ns - SPAN_NS, end_ns) for each in arrived) / SHARE_BPS < MOST
    assert everyones() == []
    status = programs.status()
    assert not status.rules
    assert not any(each.loaded for each in status.programs)


@contextmanager
def kernels_of(inode: int, *, helped: bool) -> Iterator[dict[str, Kernel]]:
    """In this process, or in a helper with less privilege."""
    if helped:
        with remote.started({NAME: inode}) as helper:
            yield {**helper.kernels}
    else:
        yield {NAME: Host(NAME, inode)}


def held(images: FlowStatus) -> bool:
    """Whether its four connections have the share, and send it."""
    assert images.share_bps == SHARE_BPS
    return images.connections == 4 and LEAST < (images.sent_bps or 0) / SHARE_BPS < MOST


def test_a_share_is_others_before_the_first_byte_and_after_the_last(wan: Lab) -> None:
    policy = loads(
        POLICY.replace("ADDRESS", f"{wan.far_address}/32")
        .replace("PORT", str(PORT))
        .replace('active = "asked"', 'active = "asked"\nidle = "lent"'),
        "small.toml",
    )
    seen: list[int | None] = []

    async def share(operations: Operations, *, idle: bool) -> None:
        """What the images have once they are said to be idle, or not."""
        async with asyncio.timeout(SOON_S):
            async for status in operations.watch():
                (images,) = (flow for flow in status.flows if flow.traffic_class == "images")
                if status.asked and status.settled and images.idle == idle:
                    seen.append(images.share_bps)
                    return

    async def attend(operations: Operations) -> None:
        await operations.ask("images", "test")
        await share(operations, idle=True)
        opened.send(*range(4))
        await share(operations, idle=False)
        opened.send()
        await share(operations, idle=True)

    with streams(wan, 4, 60) as opened:
        asyncio.run(
            serve("test", policy, LocalBus(), {NAME: Host(NAME, namespace(wan))}, attend, lambda line: None)
        )
    assert seen == [10_000_000, SHARE_BPS, 10_000_000]


def test_what_a_killed_agent_had_in_force_is_found_as_it_was(wan: Lab) -> None:
    until_ns = now_ns() + 3600 * 10**9
    words = [sys.executable, "-c", HOLD_AND_WAIT, NAME, str(namespace(wan)), str(until_ns)]
    with alive(subprocess.Popen(words, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGKILL)
    host = Host(NAME, namespace(wan))
    assert host.held() == {"images/base20": Held(60_000_000, 10_000_000, until_ns)}
    (rule,) = programs.status().rules
    host.place({"images/base20": Member("base20", "10.78.0.0/16", (1, 65535))})
    assert programs.status().rules == [rule]
    # What somebody else ends is placed again.
    programs.detach(rule.place)
    assert programs.status().rules == []
    members = {"images/base20": Member("base20", "10.78.0.0/16", (1, 65535))}
    wait_until(lambda: not host.place(members) and bool(programs.rules()), SOON_S)
    assert [each.place for each in programs.rules()] == [rule.place]
    host.leave()
    assert everyones() == []


def test_hosts_of_two_namespaces_and_one_name_do_not_meet(wan: Lab) -> None:
    one, other = Host(NAME, namespace(wan)), Host(NAME, 1)
    one.hold("images/base20", Held(60_000_000, 10_000_000, 0))
    assert other.held() == {}
    one.release("images/base20")
    assert one.held() == {}


def test_a_flow_that_is_released_is_left_to_ordinary_control(wan: Lab) -> None:
    host = Host(NAME, namespace(wan))
    members = {name: Member(NAME, f"10.{number}.0.0/16", (1, 9)) for number, name in enumerate("abc", 70)}
    for name in members:
        host.hold(name, Held(60_000_000, 10_000_000, 0))
    host.place(members)
    assert len(programs.status().rules) == 3
    host.release("b")
    assert sorted(host.held()) == ["a", "c"]
    assert [rule.to for rule in programs.status().rules] == ["10.70.0.0/16", "10.72.0.0/16"]


def test_the_last_host_of_a_process_takes_the_program_with_it(kernel: None) -> None:
    take_all_away()
    subprocess.run([sys.executable, "-c", TWO_HOSTS], check=True)
    assert not in_kernel()
