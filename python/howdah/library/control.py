"""The control plane of a guaranteed path: its policy served, the agents of its hosts, and orders to it.

``Client`` is a controller as a program sees it. What serves, or runs agents, is entered before its event loop
begins: a helper is started, and privilege given up, before there is any thread.

    with controlling("policy.toml", Listening(address="127.0.0.1:7310"), Site()) as work:
        asyncio.run(work())
"""

import asyncio
import getpass
import math
import os
import re
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from howdah import HowdahError
from howdah.arguments import BadArgument, NotHere, literal
from howdah.control.bus import Access, opened, prepare
from howdah.control.bus.access import login
from howdah.control.http import prepared
from howdah.control.http.address import Listening
from howdah.control.http.client import Client
from howdah.control.http.tokens import make as new_token
from howdah.control.leases.agent import Kernel
from howdah.control.policy import Policy, members
from howdah.control.policy.policyfile import load
from howdah.control.privilege import drop, remote
from howdah.control.running.agent import follow, serve
from howdah.control.running.operations import Operations
from howdah.control.status import Status
from howdah.library.ended import Name, log
from howdah.text import some

__all__ = ["Access", "Client", "Listening", "Serving", "Site", "agents", "ask", "controlling", "login"]
__all__ += ["myself", "new_token", "release"]

_TOLD_AFTER_S = 1.0
"""An order is mostly in force before that, and nothing is told of why it is not."""
_LEADS_AFTER_S = 1.5
"""A controller leads by then where the one that it knows as the leader has gone."""
_LOOK_S = 0.1
_ENDED_AFTER_S = 2.0
"""A controller has told by then that the time of a request is over."""
MakeKernel = Callable[[str, int | None], Kernel]
"""What makes the kernel of a host, by its name and the inode of the network namespace that stands for it."""
Work = Callable[[], Coroutine[Any, Any, None]]


class Site(NamedTuple):
    """This machine and its bus."""

    hosts: Sequence[str] = ()
    """The hosts whose agents run here: each NAME, or NAME=NAMESPACE with the file of a network namespace."""
    servers: str | None = None
    """The NATS servers, with commas between them; null: the bus is this process."""
    access: Access = Access()


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What serves or follows, once it is ready."""

    hosts: list[str]
    """The hosts whose agents are in this process."""
    policy: str | None = None
    controller: str | None = None
    url: str | None = None
    """The address of the API and the page."""


@contextmanager
def controlling(
    policy: Name,
    listening: Listening,
    site: Site,
    *,
    on_ready: Callable[[Serving], None] = lambda ready: None,
    tell: Callable[[str], None] = log,
    make_kernel: MakeKernel | None = None,
) -> Iterator[Work]:
    """A controller of the policy in a file, and the agents of the site's hosts: what to run until cancelled.

    Without ``make_kernel``, which tests give, this process has no privilege any more once this is entered.

    Args:
        policy: the TOML file (docs/control.md).
        listening: where the API and the page are served.
        site: without hosts and servers, this machine is one of the policy's hosts.
        on_ready: called once, in the event loop.
        tell: called with what an operator should know, a line each; by default it goes to the log.
        make_kernel: makes the kernels of the hosts in place of the helper.

    Raises:
        HowdahError: when it cannot begin, or not go on.
    """
    known = load(Path(policy))
    wanted = _namespaces(site.hosts) if site.hosts or site.servers else _this_machine(known)
    _check_known(wanted, known)
    name = f"{_hostname()}-{os.getpid()}"
    access = _reached_at(site.access, "controller")
    with prepared(listening) as api, _kernels(wanted, make_kernel) as (kernels, watched):
        if make_kernel is None:
            _lose_privilege(site.servers, access)

        async def work() -> None:
            async def attend(operations: Operations) -> None:
                async with api.serving(operations) as url:
                    on_ready(Serving(hosts=[*kernels], policy=known.name, controller=name, url=url))
                    await asyncio.Event().wait()

            async with watched, opened(site.servers, access) as bus:
                await serve(name, known, bus, kernels, attend, tell)

        yield work


@contextmanager
def agents(
    site: Site,
    *,
    on_ready: Callable[[Serving], None] = lambda ready: None,
    tell: Callable[[str], None] = log,
    make_kernel: MakeKernel | None = None,
) -> Iterator[Work]:
    """The agents of the site's hosts, by default of this machine: what to run until cancelled.

    The arguments and the errors are those of ``controlling``.
    """
    wanted = _namespaces(site.hosts or [_hostname()])
    access = _reached_at(site.access, next(iter(wanted)))
    with _kernels(wanted, make_kernel) as (kernels, watched):
        if make_kernel is None:
            _lose_privilege(site.servers, access)

        async def work() -> None:
            async with watched, opened(site.servers, access) as bus:
                on_ready(Serving(hosts=[*kernels]))
                await follow(bus, kernels, tell)

        yield work


def ask(
    name: str,
    *,
    host: str | None = None,
    who: str | None = None,
    for_s: int | None = None,
    wait: bool = False,
    at: str | None = None,
    tell: Callable[[str], None] = log,
) -> int | None:
    """Asks a controller for a class, on behalf of one host or of all; returns the revision of the order.

    Args:
        name: the class.
        host: the host; None: all.
        who: who asks; by default this user of this machine (``myself``).
        for_s: seconds; None: until it is released.
        wait: returns when the order is in force.
        at: the address of the controller; by default that of HOWDAH_CONTROL.
        tell: called with what keeps the order from being in force; by default it goes to the log.

    Raises:
        HowdahError: when the controller does not answer, or refuses, and with ``wait`` when the request ends
            before the order is in force.
    """
    client, asking = Client(at), who or myself(host)
    if wait:
        _check_leads(client, name)
    until_s = math.inf if for_s is None else time.monotonic() + for_s
    revision = client.ask(name, asking, for_s, host)
    if wait and revision is not None:
        _until_in_force(client.watch(), name=name, who=asking, revision=revision, until_s=until_s, tell=tell)
    return revision


def _check_leads(client: Client, name: str) -> None:
    """Raises HowdahError at a controller that stands by: it never learns that an order is in force."""
    until_s = time.monotonic() + _LEADS_AFTER_S
    while _leads_elsewhere(status := client.status()):
        if time.monotonic() > until_s:
            controller, leader = literal(status.controller), literal(str(status.leader))
            raise NotHere(
                f"{controller} stands by, and only the controller that leads, {leader}, can say when "
                f"{literal(name)} is in force: give its address with {{at}}, or leave out {{wait}}"
            )
        time.sleep(_LOOK_S)


def _leads_elsewhere(status: Status) -> bool:
    return status.leader is not None and not status.leads


def _until_in_force(
    statuses: Iterable[Status],
    *,
    name: str,
    who: str,
    revision: int,
    until_s: float,
    tell: Callable[[str], None],
) -> None:
    """Returns when the order is in force; ``until_s`` is on the monotonic clock. Raises HowdahError."""
    told, tell_from_s = None, time.monotonic() + _TOLD_AFTER_S
    for each in statuses:
        now_s, known = time.monotonic(), each.revision >= revision
        asked = any((request.traffic_class, request.who) == (name, who) for request in each.asked)
        why = _not_in_force(each)
        # A controller that has lost its orders does not know of this one, so the time counts too.
        if (known and not asked) or now_s > until_s + _ENDED_AFTER_S:
            raise HowdahError(
                f"{name} is no longer asked for by {who}, and it was not in force in that time: {why}"
            )
        if known and each.settled:
            return
        if asked and _leads_elsewhere(each):
            raise HowdahError(
                f"{each.controller} does not lead any more, and only {each.leader} can say when {name} is in "
                f"force; {who} still asks for it"
            )
        if why != told and now_s >= tell_from_s:
            told = why
            tell(f"{name} is not in force yet: {why}")


def _not_in_force(status: Status) -> str:
    """What keeps orders from being in force, in words that stay the same while it does."""
    if not status.leads:
        leader = f"{status.leader} does" if status.leader else "none does"
        return f"{status.controller} does not lead, {leader}"
    if silent := [host.name for host in status.hosts if host.heard_s is None]:
        return f"no message yet from {some(silent)}; check that `howdah control agent` runs there"
    if silent := [host.name for host in status.hosts if not host.lease_left_s]:
        return f"no more messages from {some(silent)}; check that `howdah control agent` runs there"
    if bare := [flow.flow for flow in status.unplaced]:
        return f"no rule for {some(bare)}; the agents there tell why"
    return "a change is under way"


def release(
    name: str, *, host: str | None = None, who: str | None = None, at: str | None = None
) -> int | None:
    """Ends what ``ask`` with the same arguments began. Raises HowdahError as that does."""
    return Client(at).release(name, who or myself(host))


def myself(host: str | None = None) -> str:
    """Who asks: this user of this machine, apart for each host that is asked for."""
    me = f"{getpass.getuser()}-{socket.gethostname()}" + (f"={host}" if host else "")
    return re.sub(r"[^-_=A-Za-z0-9]", "-", me)[:64]


def _reached_at(access: Access, name: str) -> Access:
    """The same access with an inbox of its own, which the server's permissions can keep others from."""
    return replace(access, inbox=f"_INBOX_{name}")


def _namespaces(texts: Iterable[str]) -> dict[str, int | None]:
    """The inode of each host's network namespace; null: that of this process and all others."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        try:
            members.name(literal(name), "{hosts}")
        except HowdahError as error:
            raise BadArgument(str(error)) from None
        if name in found:
            raise BadArgument(f"{{hosts}} {name} is given twice; each host has one agent")
        namespace = _inode(name, file) if equals else None
        if other := next((each for each, its in found.items() if its == namespace), None):
            where = "this machine" if namespace is None else f"the network namespace {literal(file)}"
            raise NotHere(
                f"{{hosts}} {other} and {name} are both {where}; give each a network namespace of its own"
            )
        found[name] = namespace
    return found


def _inode(name: str, file: str) -> int:
    try:
        return Path(file).stat().st_ino
    except OSError as error:
        raise NotHere(
            f"{{hosts}} {name}={literal(file)}: {error.strerror}; give the file of a network namespace, "
            f"as /run/netns/{name}"
        ) from None


def _this_machine(policy: Policy) -> dict[str, int | None]:
    name, hosts = _hostname(), _hosts(policy)
    if name not in hosts:
        raise NotHere(
            f"this machine is called {name}, and {policy.name} has no such host: say with {{hosts}} which "
            f"of its hosts this is ({', '.join(hosts)}), or reach other agents with {{servers}}"
        )
    return {name: None}


def _check_known(wanted: Iterable[str], policy: Policy) -> None:
    hosts = _hosts(policy)
    for name in wanted:
        if name not in hosts:
            raise NotHere(f"{{hosts}} {name}: {policy.name} has no such host; it has {', '.join(hosts)}")


def _hosts(policy: Policy) -> list[str]:
    return sorted({flow.member.agent for flow in policy.flows})


@contextmanager
def _kernels(
    wanted: Mapping[str, int | None], make: MakeKernel | None
) -> Iterator[tuple[dict[str, Kernel], AbstractAsyncContextManager[None]]]:
    """The kernels of the hosts, and what to be in while they are needed: it is left when they are gone."""
    if make is not None:
        yield {name: make(name, namespace) for name, namespace in wanted.items()}, nullcontext()
    elif not wanted:
        yield {}, nullcontext()
    else:
        with remote.started(wanted) as helper:
            yield {**helper.kernels}, helper.watched()


def _lose_privilege(servers: str | None, access: Access) -> None:
    """Reads what takes root to read; from then on a helper alone has privilege."""
    prepare(servers, access)
    drop()


def _hostname() -> str:
    return socket.gethostname().partition(".")[0]
