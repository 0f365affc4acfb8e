"""Orders: what people and programs want of a controller, beyond its policy file.

They are values on the bus, so that a controller that takes over finds them there:

- ``order.asked/CLASS/WHO``: somebody wants the class to have its share, for all its hosts or for one.
  With a time to live that WHO renews, it ends with who asked. A class is asked for as long as anybody asks.
- ``order.changed/CLASS``: other terms for a class than in the policy file, as a JSON object of its keys.
- ``order.drained/AGENT``: the host is left with its minimums.
"""

from contextlib import suppress

import msgspec

from howdah import HowdahError, decoding

PREFIX = "order."
REQUESTED = f"{PREFIX}asked/"

TermsTable = dict[str, str | int]
"""Terms of a class by the keys of the policy file, written as there."""


class ClassRequest(msgspec.Struct, frozen=True):
    """The value of an order that asks for a class."""

    until_unix_s: float | None = None
    """The end for people to see: the time to live of the order ends it."""
    host: str | None = None
    """The host that the share is for; null: every host of the class."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All orders that stand at one revision of the bus."""

    revision: int = 0
    requested: frozenset[str] = frozenset()
    """Classes that somebody asks for."""
    hosts: dict[str, frozenset[str]] = {}
    """The hosts of each class that is asked for on behalf of single hosts only."""
    changed: dict[str, TermsTable] = {}
    """The ordered terms by class."""
    drained: frozenset[str] = frozenset()
    """The agents that are drained."""


_Order = tuple[str, ClassRequest | TermsTable | None]
"""The name of a class or host, with its request or terms; null: the host is drained."""


class OrderBook:
    """Gathers single values, as a watch of the bus tells them."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._read: dict[str, _Order] = {}
        self._revision = 0

    def note(self, key: str, value: bytes | None, revision: int) -> None:
        """Takes in the new value of a key; null: it is gone. Raises HowdahError for what is no order."""
        self._revision = max(self._revision, revision)
        self._values.pop(key, None)
        self._read.pop(key, None)
        if value is not None:
            self._read[key] = _read(key, value)
            self._values[key] = value

    def value(self, key: str) -> bytes | None:
        """The value of a key; null: it has none."""
        return self._values.get(key)

    @property
    def requests(self) -> dict[tuple[str, str], ClassRequest]:
        """The requests for classes, by class and who asks."""
        return {
            (name, key.rpartition("/")[2]): what
            for key, (name, what) in sorted(self._read.items())
            if isinstance(what, ClassRequest)
        }

    def orders(self) -> Orders:
        """All orders that stand now."""
        hosts: dict[str, set[str | None]] = {}
        for (name, _), request in self.requests.items():
            hosts.setdefault(name, set()).add(request.host)
        return Orders(
            revision=self._revision,
            requested=frozenset(hosts),
            hosts={name: frozenset(map(str, each)) for name, each in hosts.items() if None not in each},
            changed={name: what for name, what in self._read.values() if isinstance(what, dict)},
            drained=frozenset(name for name, what in self._read.values() if what is None),
        )


def request_key(name: str, who: str) -> str:
    """The key of the order by which ``who`` asks for a class."""
    return f"{REQUESTED}{name}/{who}"


def changed_key(name: str) -> str:
    """The key of the order that gives a class other terms."""
    return f"{PREFIX}changed/{name}"


def drained_key(host: str) -> str:
    """The key of the order that drains a host."""
    return f"{PREFIX}drained/{host}"


def _read(key: str, value: bytes) -> _Order:
    """Raises HowdahError for what is no order. A request that cannot be read asks for all of its class."""
    match key.removeprefix(PREFIX).split("/"):
        case ["asked", name, _]:
            with suppress(msgspec.DecodeError):
                return name, decoding.from_json(value, ClassRequest)
            return name, ClassRequest()
        case ["drained", name]:
            return name, None
        case ["changed", name]:
            try:
                return name, decoding.from_json(value, TermsTable)
            except msgspec.DecodeError as error:
                raise HowdahError(f"{key} on the bus is not an order ({error}); delete it") from None
    raise HowdahError(f"{key} on the bus is not an order; delete it")
