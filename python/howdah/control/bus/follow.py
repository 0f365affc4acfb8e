"""Keeping a Watch up to date from a JetStream bucket, whatever happens to the connection or the server.

It reads by what NATS calls an ordered consumer (its ADR-15): pushed, unacknowledged, in memory. When that
has missed something (``reading.py``), or has been silent, or the connection was lost, a new one takes over.
"""

import asyncio
from contextlib import suppress

import nats.errors
from nats.js import api

from howdah import HowdahError
from howdah.control.bus.bucket import Bucket
from howdah.control.bus.connection import Connection
from howdah.control.bus.interface import Unreachable
from howdah.control.bus.reading import Reading
from howdah.control.bus.watch import Watch

_HEARTBEAT_S = 1.0
_SILENT_S = 3 * _HEARTBEAT_S
_FIRST_S = 5.0
"""For all that is there; ten thousand keys take less than one second."""
_RETRY_S = 0.2


class Follow:
    """One watch on one connection."""

    def __init__(self, connection: Connection, bucket: Bucket, watch: Watch) -> None:
        self.watch = watch
        self._nats = connection
        self._bucket = bucket
        self._task: asyncio.Task[None] | None = None
        self._complete = asyncio.Event()
        self._reading: Reading | None = None

    async def start(self) -> None:
        """Returns when the watch knows all that is there. Raises Unreachable if that takes too long."""
        self._nats.stirred.add(self._stir)
        self._task = asyncio.create_task(self._run())
        complete = asyncio.create_task(self._complete.wait())
        await asyncio.wait((self._task, complete), timeout=_FIRST_S, return_when=asyncio.FIRST_COMPLETED)
        complete.cancel()
        if self._task.done():
            self._task.result()
        if not self._complete.is_set():
            raise Unreachable(
                f"the NATS server at {self._nats.where} did not say within {_FIRST_S:g} s what it holds"
            )

    async def stop(self) -> None:
        """Ends the watch."""
        self._nats.stirred.discard(self._stir)
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError, HowdahError):
                await self._task
        self.watch.end()

    def _stir(self) -> None:
        if self._reading:
            self._reading.stale.set()

    async def _run(self) -> None:
        try:
            while True:
                if why := self._nats.closed:
                    raise why
                try:
                    await self._bucket.ensure()
                    await self._read()
                except Unreachable:
                    await asyncio.sleep(_RETRY_S)
        except HowdahError as error:
            self.watch.end(error)
            raise

    async def _read(self) -> None:
        """Reads with one consumer until it is of no use any more."""
        reading = self._reading = Reading(self.watch, len(self._bucket.prefix), self._complete)
        inbox = self._nats.client.new_inbox()
        jetstream, stream = self._nats.jetstream, self._bucket.stream
        subscription = await self._nats.reply(self._nats.client.subscribe(inbox, cb=reading.take))
        try:
            made = await self._nats.reply(jetstream.add_consumer(stream, self._consumer(inbox)))
            reading.look(made)
            while await reading.goes_on(_SILENT_S):
                if not reading.complete:
                    reading.look(await self._nats.reply(jetstream.consumer_info(stream, made.name)))
        finally:
            with suppress(nats.errors.Error):
                await subscription.unsubscribe()

    def _consumer(self, inbox: str) -> api.ConsumerConfig:
        return api.ConsumerConfig(
            deliver_subject=inbox,
            deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT,
            filter_subject=f"{self._bucket.prefix}{self.watch.prefix}>",
            ack_policy=api.AckPolicy.NONE,
            max_deliver=1,
            idle_heartbeat=_HEARTBEAT_S,
            mem_storage=True,
            num_replicas=1,
        )
