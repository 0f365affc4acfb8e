"""The share of one transfer: which flow of the policy it is, the request for it, and its enforcement here.

The request is made, renewed, followed and given back. It ends by itself unless it is renewed, so a transfer
that is killed keeps nothing. The kernel and the agent keep connections to the share: without a controller a
transfer goes on at what its host has.
"""

import contextlib
import math
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple, Self

from howdah import HowdahError
from howdah.arguments import NotHere
from howdah.cc import programs
from howdah.cc.shares import everyones
from howdah.control.http.client import Client
from howdah.control.policy.members import Member
from howdah.control.status import FlowStatus, Status
from howdah.values.outcome import HOLD
from howdah.values.path import Share
from howdah.values.record import HostLimits, Shared, ShareSample


class Here(NamedTuple):
    """The state of this host that decides which flow a transfer is."""

    name: str
    """The host's own name; its agent may have another."""
    own_ports: tuple[int, int]
    """The first and the last port that connections it begins are given."""
    cgroup: str
    """The cgroup of this process, in the unified hierarchy."""
    enforced: Collection[str] | None
    """Flows to whose share a rule here would keep them; null: only root can see the rules."""


class NotYet(NotHere):
    """No rule is there, or not yet: rules come after shares, and a new controller begins without reports."""


def own_flow(status: Status, name: str, addresses: Sequence[str], here: Here) -> FlowStatus:
    """The flow that connections from here to ``addresses`` are, of the class ``name``.

    Raises HowdahError when they are none, or no agent is there to keep them to its share.
    """
    among = [each for each in status.flows if each.traffic_class == name]
    if not among:
        known = ", ".join(sorted({each.traffic_class for each in status.flows}))
        raise NotHere(f"{{traffic_class}} {name}: {status.policy} has no such class; it has {known}")
    found = _found(status, name, among, addresses, here)
    (host,) = (each for each in status.hosts if each.name == found.host)
    if host.heard_s is None or not host.lease_left_s:
        raise NotYet(
            f"{status.controller} has no message from the agent of {host.name}, so nothing there has more "
            "than its minimum; start it there: howdah control agent"
        )
    if host.drained:
        raise HowdahError(
            f"{host.name} is drained, so it has only its minimums; first: howdah control undrain {host.name}"
        )
    return found


def _found(
    status: Status, name: str, among: Sequence[FlowStatus], addresses: Sequence[str], here: Here
) -> FlowStatus:
    fitting = [each for each in among if _fits(each, addresses, here)]
    fitting.sort(key=lambda each: len(each.cgroup or ""), reverse=True)  # the deepest cgroup has it
    for each in fitting:
        if each.host == here.name if here.enforced is None else each.flow in here.enforced:
            return each
    meant = (str(Member(each.host, each.to, each.ports, each.cgroup)) for each in among)
    members = "; ".join(each.removesuffix(" ports 1-65535") for each in meant)
    where = " or ".join(addresses)
    if here.enforced is not None:
        raise NotYet(
            f"{{traffic_class}} {name}: no rule on this host holds connections to {where} to a share of "
            f"{name}. {status.policy} means {members}; is its agent running here?"
        )
    raise NotHere(
        f"{{traffic_class}} {name}: {here.name} to {where} is not of {name} in {status.policy}, "
        f"which means {members}"
    )


def _fits(flow: FlowStatus, addresses: Sequence[str], here: Here) -> bool:
    """Whether every connection there is meant, whichever ports it is given."""
    first, last = flow.ports
    return (
        first <= here.own_ports[0]
        and here.own_ports[1] <= last
        and goes(addresses, flow.to)
        and is_below(here.cgroup, flow.cgroup)
    )


def goes(addresses: Sequence[str], prefix: str | None) -> bool:
    """Whether one of the addresses is in the prefix; null: every one is."""
    return prefix is None or any(ip_address(address) in ip_network(prefix) for address in addresses)


def is_below(cgroup: str, wanted: str | None) -> bool:
    """Whether it is that cgroup or one below it; null: every one is."""
    return wanted is None or f"{cgroup}/".startswith(f"{wanted.rstrip('/')}/")


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


REQUEST_S = 15
"""The time of a request. A transfer that was killed keeps its share so long, and a new controller must get
the next renewal within it."""
RENEWED_S = 5.0
"""The time between two renewals."""
LOOK_S = 1.0
"""The time between two looks at what it has."""
SOON_S = 0.01
"""The time between two looks until it has what it is to have."""
PATIENCE_S = 5.0
"""The longest wait for a host that has to give something up first, and is silent: what it gives up later
comes to a transfer that runs."""
ANSWER_S = 0.05
"""The time from asking until it is in force, on a machine with other things to do."""
FOUND_S = 2.0
"""The longest wait for an agent that has just begun, or whose controller has."""
CONNECT_BPS = 250_000
"""The least rate to connect at: with less, pacing puts 50 ms and more between two full segments."""
_GIVEN_BACK_S = 1.0

Find = Callable[[Status], FlowStatus]
"""Finds the flow that the transfer is; raises HowdahError when it is none."""


class ShareRequest:
    """A share, from entering until leaving. Raises HowdahError when it cannot be asked for.

    Others give up theirs the moment it is asked for, so it is asked for only when payload is about to come,
    unless what its host has before is too little even to connect: then it is in force on entering.
    """

    def __init__(self, client: Client, name: str, find: Find, *, look_only: bool = False) -> None:
        """``name`` is the class; with ``look_only`` nothing is asked for."""
        self._client, self._name, self._find, self._look_only = client, name, find, look_only
        self._who = f"cp-{re.sub(r'[^-_A-Za-z0-9]', '-', socket.gethostname())[:40]}-{os.urandom(4).hex()}"
        self._requests = False
        self._after_s: float | None = None
        """The time from the begin of the transfer to its payload; None: it has not begun."""
        self._requested_s: float | None = None
        self._in_force_s: float | None = None
        self._samples: list[ShareSample] = []
        self._unheard_s: float | None = None
        self._told = False
        self._news: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread()

    def __enter__(self) -> Self:
        status = self._found()
        self._most_bps, self._policy = status.trusted_bps, status.policy
        self._requests = self._name in status.askable and not self._look_only
        try:
            if self._requests and self._flow.minimum_bps < CONNECT_BPS:
                self._renew()
                self._wait()
                # Logging in may take longer than a request lasts.
                self._have_it_followed()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            # A renewal on its way would come after what gives it back; its own end then ends it.
            self._thread.join(_GIVEN_BACK_S)
        if not self._thread.is_alive():
            self._give_back()

    def begin(self, payload_s: float) -> None:
        """Begins the transfer, its payload so much later; a share not asked for yet is asked for in time."""
        self._after_s = max(0.0, payload_s - ANSWER_S)
        self._have_it_followed()

    @property
    def share(self) -> Share:
        """The share that a decider plans with."""
        return Share(
            flow=self._flow.flow, rate_bps=self._flow.share_bps, most_bps=self._most_bps, policy=self._policy
        )

    def news(self) -> str | None:
        """A line, once, where the controller has not answered for PATIENCE_S, or does so again."""
        news, self._news = self._news, None
        return news

    def to_record(self) -> Shared:
        """The share as a Record keeps it."""
        return Shared(
            controller=self._client.address,
            policy=self._policy,
            traffic_class=self._name,
            flow=self._flow.flow,
            asked=self._requested_s is not None,
            waited_s=self._waited_s,
            samples=list(self._samples),
        )

    def _found(self) -> Status:
        """The status in which the flow was found, if need be after a while."""
        until_s = time.monotonic() + FOUND_S
        while True:
            status = self._client.status()
            try:
                self._flow = self._find(status)
            except NotYet:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(LOOK_S / 10)
            else:
                return status

    def _renew(self) -> None:
        if self._requested_s is None:
            # Before the answer: an order that is broken off may have been taken.
            self._requested_s = time.monotonic()
        self._revision = self._client.ask(self._name, self._who, REQUEST_S, self._flow.host)

    def _wait(self) -> None:
        """Waits until the flow has what it is to have, or patience ends."""
        until_s = time.monotonic() + PATIENCE_S
        while not self._ended.is_set():
            status = self._client.status()
            self._flow = self._own(status)
            if time.monotonic() >= until_s or self._has_its_share(status):
                break
            time.sleep(SOON_S)
        self._in_force_s = time.monotonic()
        self._samples.append(ShareSample(t_s=0.0, share_bps=self._flow.share_bps))

    def _has_its_share(self, status: Status) -> bool:
        if self._revision is not None and status.revision < self._revision:
            return False
        mine = self._flow
        # A controller that does not lead has no target.
        target_bps = mine.minimum_bps + 1 if mine.target_bps is None else mine.target_bps
        return mine.share_bps is not None and mine.share_bps >= target_bps

    @property
    def _waited_s(self) -> float | None:
        if self._requested_s is None or self._in_force_s is None:
            return None
        return self._in_force_s - self._requested_s

    def _own(self, status: Status) -> FlowStatus:
        for each in status.flows:
            if each.flow == self._flow.flow:
                return each
        raise HowdahError(
            f"{self._client.address} now has another policy, {status.policy}; start the copy again"
        )

    def _have_it_followed(self) -> None:
        """Begins a thread that follows the share, also where an unforeseen error has ended the one before."""
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        """Makes the request if that is left to do, renews it, and notes the share once the transfer began."""
        renew_s = time.monotonic() + (self._after_s or 0.0 if self._requested_s is None else RENEWED_S)
        while not self._ended.wait(min(LOOK_S, max(0.0, renew_s - time.monotonic()))):
            try:
                if self._requests and time.monotonic() >= renew_s:
                    renew_s = time.monotonic() + LOOK_S
                    self._renew()
                    renew_s = time.monotonic() + RENEWED_S
                    if self._in_force_s is None:
                        self._wait()
                        continue
                if self._after_s is not None:
                    self._look()
                    self._heard()
            except HowdahError as error:
                self._unheard(error)
            if not self._requests:
                renew_s = math.inf

    def _heard(self) -> None:
        self._unheard_s = None
        if self._told:
            self._told, self._news = False, f"the controller at {self._client.address} answers again"

    def _unheard(self, error: HowdahError) -> None:
        now_s = time.monotonic()
        self._unheard_s = self._unheard_s or now_s
        if self._after_s is None:
            return
        if self._in_force_s is not None:
            self._samples.append(ShareSample(t_s=now_s - self._in_force_s))
        if not self._told and now_s - self._unheard_s >= PATIENCE_S:
            self._told, self._news = True, f"{error}; meanwhile {self._flow.flow} may be at its minimum"

    def _look(self) -> None:
        mine = self._own(self._client.status())
        if self._in_force_s is None:
            self._in_force_s = time.monotonic()
        t_s = time.monotonic() - self._in_force_s
        self._samples.append(ShareSample(t_s=t_s, share_bps=mine.share_bps, sent_bps=mine.sent_bps))

    def _give_back(self) -> None:
        if self._requested_s is not None:
            with contextlib.suppress(HowdahError):
                self._client.release(self._name, self._who)
