"""What is to be put on the bus: of each key the newest value only, at most so often.

What changes a hundred times while a value is on its way is sent once.
"""

import asyncio
from contextlib import suppress

from howdah.control.bus import Bus, Unreachable
from howdah.control.messages import Places, encode
from howdah.control.running.keys import Message, key_of

PACE_S = 0.01
"""Between two batches: far below a round trip of the paths this is for."""
_AGAIN_S = 0.1
"""After a batch of which something did not arrive."""


class Outbox:
    """What does not arrive is tried again, unless there is something newer to say by then.

    The first value of a key is heard to have arrived, so that what the bus refuses is known. Later ones, but
    for Places, are only told: they are said again with each beat.
    """

    def __init__(self, bus: Bus, patience_s: float) -> None:
        """``patience_s`` is how long a message may take; then it is taken to be lost."""
        self._bus = bus
        self._patience_s = patience_s
        self._waiting: dict[str, Message] = {}
        self._wake = asyncio.Event()
        self._arrived: dict[str, int] = {}
        """On which connection a key's last value that was heard of arrived."""

    def put(self, message: Message) -> None:
        """Takes it in place of an older one of the same key."""
        self._waiting[key_of(message)] = message
        self._wake.set()

    def clear(self) -> None:
        """Forgets what has not been sent."""
        self._waiting.clear()

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, {}
            told = {key for key, each in waiting.items() if await self._is_told(key, each)}
            putting = [key for key in waiting if key not in told]
            arrived = await asyncio.gather(*(self._arrives(key, waiting[key]) for key in putting))
            if all(arrived):
                await asyncio.sleep(PACE_S)
            else:
                lost = (key for key, done in zip(putting, arrived, strict=True) if not done)
                self._waiting = {key: waiting[key] for key in lost} | self._waiting
                self._wake.set()
                await asyncio.sleep(_AGAIN_S)

    async def _is_told(self, key: str, message: Message) -> bool:
        if isinstance(message, Places) or self._arrived.get(key) != self._bus.connection:
            return False
        with suppress(Unreachable):
            await self._bus.tell(key, encode(message))
            return True
        return False

    async def _arrives(self, key: str, message: Message) -> bool:
        connection = self._bus.connection
        with suppress(Unreachable, TimeoutError):
            async with asyncio.timeout(self._patience_s):
                await self._bus.put(key, encode(message))
                self._arrived[key] = connection
                return True
        return False
