"""What a JetStream consumer has delivered, and whether it has missed anything.

Each message is numbered, and an idle server says the last number; nothing is asked for again. A consumer
begins with the last message of each key, so what a Watch knows and is not among them is gone.
"""

import asyncio
from contextlib import suppress

from nats.aio.msg import Msg
from nats.js import api

from howdah.control.bus.bucket import gone
from howdah.control.bus.watch import Change, Watch

_STATUS = "Status"
_IDLE = "100"
_LAST_NUMBER = "Nats-Last-Consumer"


class Reading:
    """What one consumer delivers, on its way to a Watch."""

    def __init__(self, watch: Watch, prefix: int, complete: asyncio.Event) -> None:
        """``prefix`` is the length of what subjects have before keys; ``complete`` is set when all came."""
        self.stale = asyncio.Event()
        """It misses something, or may."""
        self.complete = False
        """All that was there at the beginning has come."""
        self._watch = watch
        self._prefix = prefix
        self._completed = complete
        self._present: set[str] = set()
        self._number = 0
        self._arrivals = 0

    async def take(self, message: Msg) -> None:
        """Takes in what the server sends."""
        if self.stale.is_set():
            return
        self._arrivals += 1
        headers = message.headers or {}
        if headers.get(_STATUS) == _IDLE:
            self._check(int(headers.get(_LAST_NUMBER, 0)))
            return
        meta = message.metadata
        self._number += 1
        self._check(meta.sequence.consumer)
        if self.stale.is_set():
            return
        key = message.subject[self._prefix :]
        ended = gone(message.headers)
        if not self.complete:
            (self._present.discard if ended else self._present.add)(key)
        self._watch.tell(Change(key, None if ended else message.data, meta.sequence.stream))
        if meta.num_pending == 0:
            self._complete()

    def look(self, info: api.ConsumerInfo) -> None:
        """Takes in what the server says of the consumer: nothing may be left, or have been there at all."""
        delivered = info.delivered.consumer_seq if info.delivered else 0
        if info.num_pending == 0 and delivered == self._number:
            self._complete()

    async def goes_on(self, silent_s: float) -> bool:
        """Waits ``silent_s``, or until something is missing; false then, or if nothing has come."""
        arrivals = self._arrivals
        with suppress(TimeoutError):
            async with asyncio.timeout(silent_s):
                await self.stale.wait()
        return not self.stale.is_set() and self._arrivals > arrivals

    def _check(self, number: int) -> None:
        if number != self._number:
            self.stale.set()

    def _complete(self) -> None:
        if not self.complete:
            self.complete = True
            self._watch.keep_only(self._present)
            self._completed.set()
