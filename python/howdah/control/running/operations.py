"""Orders that people and programs may give to a running controller, and the status that they get of it.

Orders are values on the bus, so they may be given to any controller, leader or not, and outlive it. Each
is checked against the policy before it is written.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec

from howdah import HowdahError
from howdah.control.policy import Flow
from howdah.control.policy.orders import ClassRequest, TermsTable, changed_key, drained_key, request_key
from howdah.control.policy.terms import TERMS
from howdah.control.running.controller import RunningController, Sighting
from howdah.control.status import AskedStatus, FlowStatus, HostStatus, Status

REQUEST_S_MAX = 7 * 24 * 3600
SILENCE_S = 1.0
"""A watcher gets a status at least so often."""
PACE_S = 0.1
"""A watcher gets a status no more often than this."""
KNOWN_S = 1.0
"""An order that this controller has not read back from the bus by then is answered all the same."""
_S = 1_000_000_000
_WHO = re.compile(r"[-_=A-Za-z0-9]{1,64}")


class Operations:
    """The orders and the status of one controller.

    What orders returns a revision: it is in force once ``Status`` is ``settled`` at that or a later one. An
    order returns when this controller's own status has it, or after ``KNOWN_S``: the bus has it by then.
    All raise HowdahError for what the policy does not allow, and Unreachable while the bus is away.
    """

    def __init__(self, controller: RunningController) -> None:
        self._controller = controller
        self._policy = controller.policy
        self._last: tuple[int, Status] | None = None
        self._made_s = 0.0

    async def ask(self, name: str, who: str, for_s: int | None = None, host: str | None = None) -> int:
        """``who`` asks for a class, for that long or until it is released; asking again prolongs.

        On behalf of one ``host`` of the class, the others have no more than their minimums of it.
        """
        self._check_request(name, who)
        if host is not None:
            self._policy.check_member(name, host)
        if for_s is not None and not 1 <= for_s <= REQUEST_S_MAX:
            raise HowdahError(f"{name} for {for_s} s: give 1 s to {REQUEST_S_MAX} s, or leave the time out")
        request = ClassRequest(None if for_s is None else time.time() + for_s, host)
        return await self._put(request_key(name, who), msgspec.json.encode(request), ttl_s=for_s)

    async def release(self, name: str, who: str) -> int | None:
        """``who`` asks for the class no longer; others may."""
        self._check_request(name, who)
        return await self._delete(request_key(name, who))

    async def change(self, name: str, terms: TermsTable) -> int:
        """Orders terms for a class, by the keys of the policy file; they replace those ordered before."""
        if not terms:
            raise HowdahError(f"nothing to change for {name}: give {', '.join(TERMS)}")
        self._controller.targets.check(self._controller.orders, name, terms)
        return await self._put(changed_key(name), msgspec.json.encode(terms))

    async def restore(self, name: str) -> int | None:
        """The class has its terms from the policy file again."""
        self._policy.changed({name: {}})
        return await self._delete(changed_key(name))

    async def drain(self, host: str) -> int:
        """The host is left with its minimums, and others have the rest."""
        self._check_host(host)
        return await self._put(drained_key(host), b"{}")

    async def undrain(self, host: str) -> int | None:
        """The host has its part again."""
        self._check_host(host)
        return await self._delete(drained_key(host))

    def status(self) -> Status:
        """The status now."""
        return _status(self._controller)

    async def watch(self) -> AsyncIterator[Status]:
        """The status now and after changes: at most every ``PACE_S``, at least every ``SILENCE_S``."""
        while True:
            version, status = self._recent()
            yield status
            await asyncio.sleep(PACE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(SILENCE_S - PACE_S):
                    await self._controller.newer(version)

    def _recent(self) -> tuple[int, Status]:
        """A version and its status; all who watch at the same time get the same."""
        now_s = asyncio.get_running_loop().time()
        if self._last is None or now_s - self._made_s > PACE_S / 2:
            self._made_s = now_s
            self._last = self._controller.version, self.status()
        return self._last

    async def _put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        revision = await self._controller.bus.put(key, value, ttl_s=ttl_s)
        await self._until(lambda: self._controller.revision >= revision)
        return revision

    async def _delete(self, key: str) -> int | None:
        """The revision; None where nothing was ordered, so that no status will tell of it."""
        before = self._controller.book.value(key)
        revision = await self._controller.bus.delete(key)
        if before is None:
            return None
        await self._until(
            lambda: self._controller.revision >= revision or self._controller.book.value(key) != before
        )
        return revision

    async def _until(self, known: Callable[[], bool]) -> None:
        """Waits until a status would tell of it, so that who orders and then looks sees what was ordered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KNOWN_S):
                while not known():
                    await self._controller.newer(self._controller.version)

    def _check_request(self, name: str, who: str) -> None:
        self._policy.check_requestable(name)
        if not _WHO.fullmatch(who):
            raise HowdahError(f"who asks for {name}, {who!r}: give up to 64 letters, digits and - _ =")

    def _check_host(self, host: str) -> None:
        hosts = sorted(self._controller.targets.minimums_bps)
        if host not in hosts:
            raise HowdahError(f"{self._policy.name} has no host {host}; it has {', '.join(hosts)}")


def _status(controller: RunningController) -> Status:
    now_ns, policy, core = controller.clock_ns(), controller.policy, controller.core
    leads, leading = core.leads(now_ns), controller.leading
    bounds = [peer.account.bound_bps(now_ns) for peer in core.peers.values()]
    # The name on the bus may still be this controller's, after its term.
    other = leading if leading and leading.controller != controller.name else None
    return Status(
        unix_s=time.time(),
        policy=policy.name,
        guarantee_bps=policy.guarantee_bps,
        trusted_bps=policy.trusted_bps,
        free_bps=max(0, policy.trusted_bps - sum(bounds)) if leads else None,
        controller=controller.name,
        leader=controller.name if leads else other.controller if other else None,
        epoch=core.epoch if leads else other.epoch if other else None,
        revision=controller.revision,
        settled=core.settled(now_ns) is not None,
        askable=[each.name for each in policy.classes if each.asked],
        asked=[
            AskedStatus(traffic_class=name, who=who, until_unix_s=each.until_unix_s, host=each.host)
            for (name, who), each in controller.book.requests.items()
        ],
        changed=controller.orders.changed,
        hosts=[
            _host(controller, name, now_ns)
            for name in sorted({*controller.targets.minimums_bps, *controller.sightings})
        ],
        flows=[
            _flow(controller, each.name, flow, leads, now_ns)
            for each in policy.classes
            for flow in each.flows
        ],
        trouble=controller.trouble,
        differs=controller.differs,
    )


def _host(controller: RunningController, name: str, now_ns: int) -> HostStatus:
    seen = controller.sightings.get(name, Sighting())
    return HostStatus(
        name=name,
        heard_s=(now_ns - seen.arrived_ns) / _S if seen.report else None,
        lease_left_s=seen.left_ns(now_ns) / _S if seen.report else None,
        drained=name in controller.orders.drained,
        leased=bool(seen.report and seen.report.left_ns),
    )


def _flow(controller: RunningController, name: str, flow: Flow, leads: bool, now_ns: int) -> FlowStatus:
    host = flow.member.agent
    seen = controller.sightings.get(host, Sighting())
    rates, report = seen.rates(flow.id), seen.report
    measured = report.measured.get(flow.id) if report else None
    return FlowStatus(
        flow=flow.id,
        traffic_class=name,
        host=host,
        to=flow.member.to,
        ports=flow.member.ports,
        cgroup=flow.member.cgroup,
        share_bps=seen.share_bps(flow.id, now_ns),
        target_bps=controller.core.peers[host].target[flow.id].rate_bps if leads else None,
        minimum_bps=controller.targets.minimums_bps[host][flow.id],
        sent_bps=rates.sent_bps if rates else None,
        acked_bps=rates.acked_bps if rates else None,
        connections=measured.connections if measured else None,
        idle=bool(report and flow.id in report.idle),
        placed=None if report is None or report.placed is None else flow.id in report.placed,
    )
