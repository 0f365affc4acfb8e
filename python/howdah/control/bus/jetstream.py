"""The bus of many hosts: a key-value bucket of NATS JetStream."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.js import api

from howdah.control.bus.access import Access
from howdah.control.bus.bucket import Bucket, Follow, ending, gone
from howdah.control.bus.connection import NOT_FOUND, OTHER_REVISION, Connection, NoStream, Refused
from howdah.control.bus.interface import Bus, Entry, Watch, check, check_prefix

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

    async def delete(self, key: str) -> None:
        """Leaves a mark for watchers, which goes away later."""
        check(key)
        await self._publish(key, b"", ending())

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
