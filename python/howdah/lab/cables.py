"""What the cables of a dumbbell dropped, as the kernel counts it where it happens."""

import subprocess
from collections.abc import Mapping

import msgspec

from howdah.lab.netns import path
from howdah.lab.topology import ENDS, ROUTERS, Topology
from howdah.values.link import CableDrops, LinkStats

Drops = dict[str, CableDrops]
"""By host."""

_DEVICES = ("cat", "/proc/net/dev")
_QUEUES = ("tc", "-statistics", "-json", "qdisc", "show")
_RECEIVED_DROPPED, _SENT_DROPPED = 3, 8 + 3
"""Columns of /proc/net/dev: eight of what was received come first."""


class _Queue(msgspec.Struct):
    """One queueing discipline, as tc(8) shows it."""

    kind: str
    dev: str
    drops: int = 0


def settle(topology: Topology, namespaces: Mapping[str, int]) -> None:
    """Has the kernel be done with cables that just came up: until then it drops what it says on them itself.

    To ask for one device waits for that since Linux 6.8 (linkwatch_sync_dev, commit facd15dfd691); before,
    there is nothing to wait for it by.
    """
    script = 'for device; do ip link show dev "$device"; done'
    waiting = []
    for end in ENDS:
        devices = (host.name for host in topology.side(end))
        waiting.append(_asked(namespaces[ROUTERS[end]], ("sh", "-c", script, "sh", *devices)))
    for process in waiting:
        process.communicate()


def count(topology: Topology, namespaces: Mapping[str, int]) -> Drops:
    """What was dropped since the lab began; nothing for a cable that somebody has taken down."""
    asking = {
        (router, command): _asked(namespaces[router], command)
        for router in ROUTERS.values()
        for command in (_DEVICES, _QUEUES)
    }
    answers = {what: process.communicate()[0] for what, process in asking.items()}
    drops = {}
    for end in ENDS:
        devices = device_drops(answers[ROUTERS[end], _DEVICES])
        queues = queue_drops(answers[ROUTERS[end], _QUEUES])
        for host in topology.side(end):
            drops[host.name] = CableDrops(queues.get(host.name, 0), devices.get(host.name, 0))
    return drops


def since(now: Drops, earlier: Drops) -> Drops:
    """What was dropped after ``earlier``."""
    return {name: _difference(drops, earlier[name]) for name, drops in now.items()}


def added(stats: LinkStats, drops: Drops) -> LinkStats:
    """``stats`` with ``drops``; those of the machine spoil a run wherever they happen."""
    lost = sum(each.machine for each in drops.values())
    lateness = stats.lateness
    if lost and not lateness.spoilt:
        why = (
            f"{lost} packets were dropped by this machine between hosts and routers; "
            "lower the rate or stop other programs"
        )
        lateness = msgspec.structs.replace(lateness, spoilt=True, why=why)
    return msgspec.structs.replace(stats, lateness=lateness, cables=drops)


def device_drops(text: bytes) -> dict[str, int]:
    """Packets dropped on their way into or out of each device, of /proc/net/dev.

    What a processor has no room for (netdev_max_backlog) is counted at both ends of a veth pair, as sent
    at one and received at the other. So one of the two tells of both ways.
    """
    rows = (line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    counters = {device.strip(): numbers.split() for device, numbers in rows}
    return {
        device: int(numbers[_RECEIVED_DROPPED]) + int(numbers[_SENT_DROPPED])
        for device, numbers in counters.items()
    }


def queue_drops(text: bytes) -> dict[str, int]:
    """Packets for which the queue of each device's token bucket had no room, as tc(8) tells."""
    if not text.strip():
        return {}
    queues = msgspec.json.decode(text, type=list[_Queue])
    return {queue.dev: queue.drops for queue in queues if queue.kind == "tbf"}


def _asked(namespace: int, command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        ["nsenter", f"--net={path(namespace)}", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _difference(now: CableDrops, earlier: CableDrops) -> CableDrops:
    names = CableDrops.__struct_fields__
    # A device that somebody made anew counts from zero again.
    return CableDrops(**{name: max(getattr(now, name) - getattr(earlier, name), 0) for name in names})
