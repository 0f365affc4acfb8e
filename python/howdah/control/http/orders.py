"""Which operation each change of the API is."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from howdah import HowdahError
from howdah.control.bus.interface import Unreachable
from howdah.control.http import endpoints
from howdah.control.http.endpoints import Endpoint, Ordered
from howdah.control.http.refusal import Refused
from howdah.control.interface import Operations

Names = Mapping[str, str]
"""By the braces of the path."""
Order = Callable[[Names, Any], Awaitable[int | None]]


def orders(operations: Operations) -> dict[Endpoint, Order]:
    """What each endpoint that changes something does, with the names of its path and its body."""
    return {
        endpoints.ASK: lambda names, wish: operations.ask(
            names["class"], names["who"], wish.for_s, wish.host
        ),
        endpoints.RELEASE: lambda names, _: operations.release(names["class"], names["who"]),
        endpoints.CHANGE: lambda names, terms: operations.change(names["class"], _given(terms)),
        endpoints.RESTORE: lambda names, _: operations.restore(names["class"]),
        endpoints.DRAIN: lambda names, _: operations.drain(names["host"]),
        endpoints.UNDRAIN: lambda names, _: operations.undrain(names["host"]),
    }


async def give(order: Order, names: Names, body: msgspec.Struct | None, operations: Operations) -> Ordered:
    """Gives the order. Raises Refused where it is not taken."""
    try:
        return Ordered(await order(names, body))
    except Unreachable as error:
        raise Refused(503, str(error)) from None
    except HowdahError as error:
        raise Refused(422 if _are_known(names, operations) else 404, str(error)) from None


def _given(terms: msgspec.Struct) -> dict[str, str | int]:
    return {key: value for key, value in msgspec.to_builtins(terms).items() if value is not None}


def _are_known(names: Names, operations: Operations) -> bool:
    """Whether the policy has the class and the host, of which a path names one."""
    status = operations.status()
    known = {
        "class": {each.traffic_class for each in status.flows},
        "host": {each.name for each in status.hosts},
    }
    return all(names[key] in known[key] for key in known.keys() & names.keys())
