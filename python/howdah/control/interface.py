"""What people and programs may do with a running controller: the HTTP server is a client of this.

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
from howdah.control.orders import Asked, Terms
from howdah.control.running import keys
from howdah.control.running.controller import RunningController
from howdah.control.running.picture import picture
from howdah.control.status import Status

ASKED_S_MAX = 7 * 24 * 3600
SILENCE_S = 1.0
"""A watcher is told at least so often."""
PACE_S = 0.1
"""And no more often than this."""
HEARD_S = 1.0
"""An order that this controller has not heard of itself by then is answered all the same."""
_WHO = re.compile(r"[-_=A-Za-z0-9]{1,64}")


class Operations:
    """What orders returns a revision: it is in force once ``Status`` is ``settled`` at that or a later one.

    An order returns when this controller's own status has it, or after ``HEARD_S``: the bus has it by then.
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
        self._check_asking(name, who)
        if host is not None:
            self._policy.check_member(name, host)
        if for_s is not None and not 1 <= for_s <= ASKED_S_MAX:
            raise HowdahError(f"{name} for {for_s} s: give 1 s to {ASKED_S_MAX} s, or no time at all")
        asked = Asked(None if for_s is None else time.time() + for_s, host)
        return await self._put(keys.asked(name, who), msgspec.json.encode(asked), ttl_s=for_s)

    async def release(self, name: str, who: str) -> None:
        """``who`` asks for the class no longer; others may."""
        self._check_asking(name, who)
        await self._delete(keys.asked(name, who))

    async def change(self, name: str, terms: Terms) -> int:
        """Other terms for a class, by the keys of the policy file; they replace what was ordered before."""
        if not terms:
            raise HowdahError(f"nothing to change for {name}: give fixed, minimum, maximum, weight, priority")
        self._controller.targets.check(self._controller.orders, name, terms)
        return await self._put(keys.changed(name), msgspec.json.encode(terms))

    async def restore(self, name: str) -> None:
        """The class has its terms from the policy file again."""
        self._policy.changed({name: {}})
        await self._delete(keys.changed(name))

    async def drain(self, host: str) -> int:
        """The host is left with its minimums, and others have the rest."""
        self._check_host(host)
        return await self._put(keys.drained(host), b"{}")

    async def undrain(self, host: str) -> None:
        """It has its part again."""
        self._check_host(host)
        await self._delete(keys.drained(host))

    def status(self) -> Status:
        """Now."""
        return picture(self._controller)

    async def watch(self) -> AsyncIterator[Status]:
        """Now, and whenever something changes: at most every ``PACE_S``, at least every ``SILENCE_S``."""
        while True:
            version, status = self._recent()
            yield status
            await asyncio.sleep(PACE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(SILENCE_S - PACE_S):
                    await self._controller.newer(version)

    def _recent(self) -> tuple[int, Status]:
        """With its version; all who watch at the same time get the same."""
        now_s = asyncio.get_running_loop().time()
        if self._last is None or now_s - self._made_s > PACE_S / 2:
            self._made_s = now_s
            self._last = self._controller.version, picture(self._controller)
        return self._last

    async def _put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        revision = await self._controller.bus.put(key, value, ttl_s=ttl_s)
        await self._heard(lambda: self._controller.revision >= revision)
        return revision

    async def _delete(self, key: str) -> None:
        before = self._controller.ordered(key)
        await self._controller.bus.delete(key)
        await self._heard(lambda: before is None or self._controller.ordered(key) != before)

    async def _heard(self, known: Callable[[], bool]) -> None:
        """Waits until a status would tell of it, so that who orders and then looks sees what was ordered."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S):
                while not known():
                    await self._controller.newer(self._controller.version)

    def _check_asking(self, name: str, who: str) -> None:
        self._policy.check_asked(name)
        if not _WHO.fullmatch(who):
            raise HowdahError(f"who asks for {name}, {who!r}: give up to 64 letters, digits and - _ =")

    def _check_host(self, host: str) -> None:
        hosts = sorted(self._controller.targets.minimums_bps)
        if host not in hosts:
            raise HowdahError(f"{self._policy.name} has no host {host}; it has {', '.join(hosts)}")
