"""The bus of many hosts: a key-value bucket of NATS JetStream.

A bucket is a stream laid out as NATS's key-value stores are (its ADR-8). Any client for such stores can read
it: ``nats kv watch howdah``. A Watch of it is kept up to date whatever happens to connection and server.

It is read by what NATS calls an ordered consumer (its ADR-15): pushed, unacknowledged, in memory. Messages
are numbered, and an idle server says the last number. A consumer that has missed something, or was silent, or
lost its connection, is replaced by a new one; nothing is asked for again. A new consumer begins with the last
message of each key, so a key that the Watch has and that is not among them is gone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import nats.errors
from nats.aio.msg import Msg
from nats.js import api

from howdah import HowdahError
from howdah.control.bus.access import Access
from howdah.control.bus.connection import (
    NAME_IN_USE,
    NOT_FOUND,
    OTHER_REVISION,
    Connection,
    Denied,
    NoStream,
    Refused,
)
from howdah.control.bus.interface import Bus, Entry, KeyChange, Unreachable, Watch, check, check_prefix

OPERATION = "KV-Operation"
REASON = "Nats-Marker-Reason"
"""The server puts this header into the mark that it leaves where the time of a value is over."""
_MARKER_S = 60.0
"""The mark of a value that is gone stays so long; watchers who come later find out without it."""
_HEARTBEAT_S = 1.0
_SILENT_S = 3 * _HEARTBEAT_S
_FIRST_S = 5.0
"""The limit for reading all that is there; ten thousand keys take less than one second."""
_RETRY_S = 0.2
_STATUS = "Status"
_IDLE = "100"
_LAST_NUMBER = "Nats-Last-Consumer"


class Bucket:
    """The stream, which is made when it is first needed, and anew when the server has lost it."""

    def __init__(self, connection: Connection, name: str, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas
        self.name = name
        self.stream = f"KV_{name}"
        self.prefix = f"$KV.{name}."

    async def ensure(self) -> None:
        """Makes the bucket unless it is there.

        Raises Unreachable, also for a missing one that only others may make; HowdahError for another layout.
        """
        try:
            info = await self._info()
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise
            info = await self._make()
        made = info.config
        if not (made.allow_msg_ttl and made.subject_delete_marker_ttl and made.allow_rollup_hdrs):
            raise HowdahError(
                f"the bucket {self.name} at {self._connection.where} was made without time to live for its "
                f"values; delete it, or give the bus another name"
            )

    async def _info(self) -> api.StreamInfo:
        return await self._connection.reply(self._connection.jetstream.stream_info(self.stream))

    async def _make(self) -> api.StreamInfo:
        layout = api.StreamConfig(
            name=self.stream,
            subjects=[f"{self.prefix}>"],
            max_msgs_per_subject=1,
            discard=api.DiscardPolicy.NEW,
            storage=api.StorageType.FILE,
            num_replicas=self._replicas,
            allow_direct=True,
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_msg_ttl=True,
            subject_delete_marker_ttl=_MARKER_S,
        )
        try:
            return await self._connection.reply(self._connection.jetstream.add_stream(layout))
        except Refused as error:
            if error.code not in NAME_IN_USE:
                raise
            return await self._info()
        except Denied:
            raise Unreachable(
                f"there is no bucket {self.name} at {self._connection.where} yet, "
                "and only a controller may make it"
            ) from None


def gone(headers: dict[str, str] | None) -> bool:
    """Whether a message with these headers says that its key has no value any more."""
    return headers is not None and (OPERATION in headers or REASON in headers)


def ending() -> dict[str, str]:
    """The headers of a message that deletes the value of its key."""
    return {OPERATION: "PURGE", api.Header.ROLLUP: "sub", api.Header.MSG_TTL: f"{_MARKER_S:g}"}


class Reading:
    """The messages of one consumer, on their way to a Watch."""

    def __init__(self, watch: Watch, prefix: int, complete: asyncio.Event) -> None:
        """``prefix`` is the length of what subjects have before keys; ``complete`` is set when all came."""
        self.stale = asyncio.Event()
        """Whether the consumer has missed something, or may have."""
        self.complete = False
        """Whether all that was there at the beginning has come."""
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
        self._watch.tell(KeyChange(key, None if ended else message.data, meta.sequence.stream))
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
        """Returns when the watch has all that is there. Raises Unreachable if that takes too long."""
        self._nats.stirred.add(self._stir)
        self._task = asyncio.create_task(self._run())
        complete = asyncio.create_task(self._complete.wait())
        await asyncio.wait((self._task, complete), timeout=_FIRST_S, return_when=asyncio.FIRST_COMPLETED)
        complete.cancel()
        if self._task.done():
            self._task.result()
        if not self._complete.is_set():
            raise Unreachable(
                f"the NATS server at {self._nats.where} did not say within {_FIRST_S:g} s what it has"
            )

    async def stop(self) -> None:
        """Ends the watch."""
        self._nats.stirred.discard(self._stir)
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
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
        except Exception as error:
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


_CONNECT_S = 5.0


class JetStreamBus(Bus):
    """A bus whose store is lost as a whole when a server starts empty."""

    forgets = True

    def __init__(self, connection: Connection, bucket: Bucket) -> None:
        self._nats = connection
        self._bucket = bucket
        self._follows: set[Follow] = set()

    @classmethod
    async def connect(
        cls,
        servers: str,
        access: Access | None = None,
        *,
        bucket: str = "howdah",
        replicas: int = 1,
        wait_s: float = _CONNECT_S,
    ) -> "JetStreamBus":
        """Connects to one of ``servers`` (addresses with commas between them); makes the bucket if need be.

        ``replicas`` is on how many servers of a cluster a new bucket lies. Raises Unreachable when none
        answers for ``wait_s``; HowdahError when it refuses, is too old or has another bucket of that name.
        """
        connection = Connection(servers, access or Access())
        await connection.open(wait_s)
        bus = cls(connection, Bucket(connection, bucket, replicas))
        try:
            await bus._bucket.ensure()
        except BaseException:
            await connection.close()
            raise
        return bus

    @property
    def connection(self) -> int:  # type: ignore[override]
        """The number of times that the connection broke so far."""
        return self._nats.breaks

    async def put(self, key: str, value: bytes, *, ttl_s: int | None = None) -> int:
        """The value is a message whose time to live the server keeps."""
        check(key, value, ttl_s)
        return await self._publish(key, value, {} if ttl_s is None else {api.Header.MSG_TTL: str(ttl_s)})

    async def tell(self, key: str, value: bytes) -> None:
        """The message asks for no acknowledgement, which would cost as much as the message."""
        check(key, value)
        await self._nats.tell(self._bucket.prefix + key, value)

    async def get(self, key: str) -> Entry | None:
        """The leader of the stream answers, so that nothing older comes back than was put before."""
        message = await self._last(key)
        if message is None or message.seq is None or gone(message.headers):
            return None
        return Entry(message.data or b"", message.seq)

    async def swap(self, key: str, value: bytes, expected: int) -> int | None:
        """The server compares and writes as one."""
        check(key, value)
        revision = await self._publish_over(key, value, expected)
        if revision is None and expected == 0:
            # The mark of a value that is gone counts as the last message.
            message = await self._last(key)
            if message and message.seq and gone(message.headers):
                revision = await self._publish_over(key, value, message.seq)
        return revision

    async def delete(self, key: str) -> int:
        """Leaves a mark for watchers, which goes away later."""
        check(key)
        return await self._publish(key, b"", ending())

    @asynccontextmanager
    async def watch(self, prefix: str = "") -> AsyncIterator[Watch]:
        """Raises Unreachable when the server does not say in time what is there."""
        check_prefix(prefix)
        follow = Follow(self._nats, self._bucket, Watch(prefix))
        self._follows.add(follow)
        try:
            await follow.start()
            yield follow.watch
        finally:
            self._follows.discard(follow)
            await follow.stop()

    async def close(self) -> None:
        """Values and the bucket stay on the server."""
        for follow in tuple(self._follows):
            await follow.stop()
        await self._nats.close()

    async def _publish(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        try:
            return await self._send(key, value, headers)
        except NoStream:
            await self._bucket.ensure()
        return await self._send(key, value, headers)

    async def _send(self, key: str, value: bytes, headers: dict[str, str]) -> int:
        subject = self._bucket.prefix + key
        sending = self._nats.jetstream.publish(subject, value, headers=headers or None)
        return (await self._nats.reply(sending, subject)).seq

    async def _publish_over(self, key: str, value: bytes, expected: int) -> int | None:
        try:
            return await self._publish(key, value, {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE: str(expected)})
        except Refused as error:
            if error.code not in OTHER_REVISION:
                raise
            return None

    async def _last(self, key: str) -> api.RawStreamMsg | None:
        check(key)
        asking = self._nats.jetstream.get_last_msg(self._bucket.stream, self._bucket.prefix + key)
        try:
            return await self._nats.reply(asking)
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise
            return None
