"""The bucket of a bus: a JetStream stream laid out as NATS's key-value stores are (its ADR-8).

Any client for such stores can read it: ``nats kv watch howdah``.
"""

from nats.js import api

from howdah import HowdahError
from howdah.control.bus.connection import Connection
from howdah.control.bus.interface import Unreachable
from howdah.control.bus.refusals import NAME_IN_USE, NOT_FOUND, Denied, Refused

OPERATION = "KV-Operation"
REASON = "Nats-Marker-Reason"
"""Put by the server into the mark it leaves where the time of a value is over."""
_MARKER_S = 60.0
"""How long the mark of a value that is gone stays; watchers who come later find out without."""


class Bucket:
    """Made when it is first needed, and anew when the server has lost it."""

    def __init__(self, connection: Connection, name: str, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas
        self.name = name
        self.stream = f"KV_{name}"
        self.prefix = f"$KV.{name}."

    async def ensure(self) -> None:
        """Makes the bucket unless it is there.

        Raises Unreachable, also where it is not there and only others may make it; HowdahError for one that
        is made otherwise.
        """
        try:
            info = await self._info()
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise
            info = await self._make()
        self._check(info.config)

    async def _info(self) -> api.StreamInfo:
        return await self._connection.reply(self._connection.jetstream.stream_info(self.stream))

    async def _make(self) -> api.StreamInfo:
        try:
            return await self._connection.reply(self._connection.jetstream.add_stream(self._layout()))
        except Refused as error:
            if error.code not in NAME_IN_USE:
                raise
            return await self._info()
        except Denied:
            raise Unreachable(
                f"there is no bucket {self.name} at {self._connection.where} yet, "
                "and only a controller may make it"
            ) from None

    def _layout(self) -> api.StreamConfig:
        return api.StreamConfig(
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

    def _check(self, found: api.StreamConfig) -> None:
        if not (found.allow_msg_ttl and found.subject_delete_marker_ttl and found.allow_rollup_hdrs):
            raise HowdahError(
                f"the bucket {self.name} at {self._connection.where} was made without time to live for its "
                f"values; delete it, or give the bus another name"
            )


def gone(headers: dict[str, str] | None) -> bool:
    """Whether a message with these headers says that its key has no value any more."""
    return headers is not None and (OPERATION in headers or REASON in headers)


def ending() -> dict[str, str]:
    """The headers of a message that deletes the value of its key."""
    return {OPERATION: "PURGE", api.Header.ROLLUP: "sub", api.Header.MSG_TTL: f"{_MARKER_S:g}"}
