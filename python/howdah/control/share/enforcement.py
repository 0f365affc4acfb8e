"""Enforcement of shares by this host's kernel: its rules, for root, and the control of own connections."""

import contextlib
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from howdah import HowdahError
from howdah.cc import programs
from howdah.cc.shares import everyones
from howdah.control.share.flow import Here, goes, is_below
from howdah.values.outcome import HOLD
from howdah.values.record import HostLimits

_OWN_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_NAMESPACE = Path("/proc/self/ns/net")
_CGROUPS = Path("/proc/self/cgroup")
_DESCRIPTORS = Path("/proc/self/fd")
_CONTROL_BYTES = 16
"""The kernel's TCP_CA_NAME_MAX."""


def here(addresses: Sequence[str]) -> Here:
    """This host, or this network namespace of it, for connections to ``addresses``."""
    first, last = map(int, _OWN_PORTS.read_text(encoding="ascii").split())
    cgroup, enforced = _cgroup(), None
    if HostLimits.here().privileged:
        with contextlib.suppress(HowdahError):
            enforced = _enforced(addresses, cgroup)
    return Here(socket.gethostname().partition(".")[0], (first, last), cgroup, enforced)


def _cgroup() -> str:
    """The cgroup of this process; the root where the unified hierarchy does not tell."""
    for line in _CGROUPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            return path
    return "/"


def _enforced(addresses: Sequence[str], cgroup: str) -> set[str]:
    """The flows to whose share the rules keep connections from here."""
    mine = _NAMESPACE.stat().st_ino
    names = {share.number: share.name for share in everyones()}
    return {
        names[rule.target.share]
        for rule in programs.rules()
        if rule.target is not None
        and rule.target.share in names
        and rule.namespace in (None, mine)
        and goes(addresses, rule.to)
        and is_below(cgroup, rule.cgroup)
    }


def unenforced(port: int) -> set[str]:
    """The congestion controls other than hold of this process's connections to that port of another host."""
    found = set()
    for each in _DESCRIPTORS.iterdir():
        # What is closed meanwhile, or is no connection, is passed over.
        with contextlib.suppress(OSError):
            descriptor = os.dup(int(each.name))
            try:
                found |= _control(descriptor, port)
            finally:
                os.close(descriptor)
    return found - {HOLD}


def _control(descriptor: int, port: int) -> set[str]:
    """The control of a connection to that port; of anything else none."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return set()
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.getpeername()[1] != port:
            return set()
        control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _CONTROL_BYTES)
        return {control.rstrip(b"\0").decode(errors="replace")}
    finally:
        connection.detach()
