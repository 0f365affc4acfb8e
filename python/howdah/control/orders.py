"""Orders: what people and programs want of a controller.

They are values on the bus, so that whoever takes over knows them without having been told:

- ``order.asked/CLASS/WHO``: somebody wants the class to have its share, for all its hosts or for one.
  With a time to live that WHO renews, it ends with who asked. A class is asked for as long as anybody asks.
- ``order.changed/CLASS``: other terms for a class than in the policy file, as a JSON object of its keys.
- ``order.drained/AGENT``: the host is left with its minimums.
"""

from collections.abc import Mapping

import msgspec

from howdah import HowdahError

PREFIX = "order."

Terms = dict[str, str | int]


class Asked(msgspec.Struct, frozen=True):
    """The value of an order that asks for a class."""

    until_unix_s: float | None = None
    """For people: the time to live of the order ends it."""
    host: str | None = None
    """For whom; null: for every host of the class."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All that stand at one revision of the bus."""

    revision: int = 0
    asked: frozenset[str] = frozenset()
    """Classes."""
    hosts: dict[str, frozenset[str]] = {}
    """By class that is asked for on behalf of single hosts only, these."""
    changed: dict[str, Terms] = {}
    """By class."""
    drained: frozenset[str] = frozenset()
    """Agents."""


class OrderBook:
    """Gathers single values, as a watch of the bus tells them."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._revision = 0

    def note(self, key: str, value: bytes | None, revision: int) -> None:
        """What the key has become; null: gone. Raises HowdahError for what is no order."""
        self._revision = max(self._revision, revision)
        self._values.pop(key, None)
        if value is not None:
            _check(key, value)
            self._values[key] = value

    def value(self, key: str) -> bytes | None:
        """What the key has; null: nothing."""
        return self._values.get(key)

    def orders(self) -> Orders:
        """All that stand now."""
        return gathered(self._values, self._revision)


def gathered(values: Mapping[str, bytes], revision: int) -> Orders:
    """The orders that these keys are. Raises HowdahError for one that is none."""
    asked: dict[str, set[str | None]] = {}
    drained, changed = set(), {}
    for key, value in values.items():
        kind, name = _check(key, value)
        if kind == "changed":
            changed[name] = msgspec.json.decode(value, type=Terms)
        elif kind == "asked":
            asked.setdefault(name, set()).add(read_asked(value).host)
        else:
            drained.add(name)
    return Orders(
        revision=revision,
        asked=frozenset(asked),
        hosts={
            name: frozenset(host for host in hosts if host is not None)
            for name, hosts in asked.items()
            if None not in hosts
        },
        changed=changed,
        drained=frozenset(drained),
    )


def read_asked(value: bytes) -> Asked:
    """What asks for a class; what cannot be read asks for all of it, until it is released."""
    try:
        return msgspec.json.decode(value, type=Asked)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Asked()


def _check(key: str, value: bytes) -> tuple[str, str]:
    """The kind of order, and whom it is about."""
    match key.removeprefix(PREFIX).split("/"):
        case ["asked", name, _]:
            return "asked", name
        case ["drained", name]:
            return "drained", name
        case ["changed", name]:
            try:
                msgspec.json.decode(value, type=Terms)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise HowdahError(f"{key} on the bus is no order ({error}); delete it") from None
            return "changed", name
    raise HowdahError(f"{key} on the bus is no order; delete it")
