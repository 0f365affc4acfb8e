"""The outbox of a controller or an agent: messages to the bus, and complaints to people.

A message that changes a hundred times while it is on its way is sent once. A complaint is made once, until
what it is about is right again. The tasks of both go on side by side until one ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from howdah.control.bus import Bus, Unreachable
from howdah.control.leases.messages import Message, Places, encode, key_of


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Runs all until one ends, then ends the others. Raises what that one raised, and no group of it."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


PACE_S = 0.01
"""The time between two batches: far below a round trip of the paths this is for."""
_AGAIN_S = 0.1
"""The time after a batch of which something did not arrive."""
_AWAY_S = 1.0
"""A bus that has taken nothing for so long is away: a connection that breaks is made again in less."""

Tell = Callable[[str], None]
"""Takes one line for people."""


class Complaints:
    """The complaints of one party; ``about`` is a key of the bus, or another name of what goes wrong."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: dict[str, str] = {}

    def wrong(self, about: str, error: Exception) -> None:
        """Tells the error, unless it was told last."""
        if self._told.get(about) != str(error):
            self._told[about] = str(error)
            self._tell(str(error))

    def right(self, about: str) -> None:
        """The next error of it is told, whether new or not."""
        self._told.pop(about, None)


class Outbox:
    """The newest message of each key; what does not arrive is tried again, unless there is a newer one.

    The first value of a key is put with an acknowledgement, so that a refusal of the bus is seen. Later ones,
    but for Places, go without: they are said again with each beat.
    """

    def __init__(self, bus: Bus, patience_s: float, tell: Tell = lambda line: None) -> None:
        """``patience_s`` is how long a message may take; then it is taken to be lost.

        ``tell`` gets a line when the bus has taken nothing for a while, and when it does again.
        """
        self._bus = bus
        self._patience_s = patience_s
        self._tell = tell
        self._taken_s = 0.0
        """The time at which the bus took something, by the loop's clock."""
        self._is_away = False
        self._why: Exception = TimeoutError()
        self._waiting: dict[str, Message] = {}
        self._wake = asyncio.Event()
        self._arrived: dict[str, int] = {}
        """The connection on which a key's last acknowledged value arrived."""

    def put(self, message: Message) -> None:
        """Takes the message in place of an older one of the same key."""
        self._waiting[key_of(message)] = message
        self._wake.set()

    def clear(self) -> None:
        """Drops what has not been sent."""
        self._waiting.clear()

    async def run(self) -> None:
        """Sends until cancelled."""
        self._taken_s = asyncio.get_running_loop().time()
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, {}
            told = {key for key, each in waiting.items() if await self._is_told(key, each)}
            putting = [key for key in waiting if key not in told]
            arrived = await asyncio.gather(*(self._arrives(key, waiting[key]) for key in putting))
            self._note(taken=any(arrived) or bool(told))
            if all(arrived):
                await asyncio.sleep(PACE_S)
            else:
                lost = (key for key, done in zip(putting, arrived, strict=True) if not done)
                self._waiting = {key: waiting[key] for key in lost} | self._waiting
                self._wake.set()
                await asyncio.sleep(_AGAIN_S)

    def _note(self, *, taken: bool) -> None:
        """Tells when the bus goes, and when it comes back."""
        now_s = asyncio.get_running_loop().time()
        if taken:
            self._taken_s = now_s
            if self._is_away:
                self._is_away = False
                self._tell("the bus answers again")
        elif not self._is_away and now_s > self._taken_s + _AWAY_S:
            self._is_away = True
            why = f": {self._why}" if str(self._why) else ""
            self._tell(f"the bus does not answer{why}; shares stay until their leases run out")

    async def _is_told(self, key: str, message: Message) -> bool:
        if isinstance(message, Places) or self._arrived.get(key) != self._bus.connection:
            return False
        with suppress(Unreachable):
            await self._bus.tell(key, encode(message))
            return True
        return False

    async def _arrives(self, key: str, message: Message) -> bool:
        connection = self._bus.connection
        try:
            async with asyncio.timeout(self._patience_s):
                await self._bus.put(key, encode(message))
        except (Unreachable, TimeoutError) as error:
            self._why = error
            return False
        self._arrived[key] = connection
        return True
