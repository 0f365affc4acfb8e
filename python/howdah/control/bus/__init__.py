"""The bus of controllers and agents: small values under keys, which can be watched, and an election.

``opened`` gives the bus of one process, or of many hosts over NATS, which is loaded only then. Both are a
``Bus``; ``leadership.stand`` works over either.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from howdah import HowdahError
from howdah.control.bus.access import Access
from howdah.control.bus.interface import Bus, Entry, KeyChange, Unreachable, Watch
from howdah.control.bus.local import LocalBus
from howdah.text import with_extra

if TYPE_CHECKING:
    from howdah.control.bus.jetstream import JetStreamBus

__all__ = ["Access", "Bus", "Entry", "KeyChange", "Unreachable", "Watch", "opened", "prepare"]


@asynccontextmanager
async def opened(
    servers: str | None = None, access: Access | None = None, *, replicas: int = 1
) -> AsyncIterator[Bus]:
    """The bus of this process alone, or of the NATS ``servers``: addresses with commas between them.

    ``replicas`` is on how many servers of a cluster a new bucket lies. Raises Unreachable when no server
    answers, HowdahError when one refuses or cannot do what is needed.
    """
    async with LocalBus() if servers is None else await _over_nats(servers, access, replicas) as bus:
        yield bus


def prepare(servers: str | None, access: Access) -> None:
    """Loads and reads all that connecting takes, then and later, so that it needs no privilege.

    Raises HowdahError as ``opened`` does.
    """
    if servers is not None:
        _jetstream()
        access.read()


async def _over_nats(servers: str, access: Access | None, replicas: int) -> Bus:
    return await _jetstream().connect(servers, access, replicas=replicas)


def _jetstream() -> "type[JetStreamBus]":
    try:
        from howdah.control.bus.jetstream import JetStreamBus  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"nats", "nkeys"}:
            raise
        raise HowdahError(f"NATS needs nats-py; install it with: {with_extra('control')}") from None
    return JetStreamBus
