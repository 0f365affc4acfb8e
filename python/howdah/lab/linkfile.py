"""A link as a person writes it: options of the command line over a TOML file.

The file says the same as the options, and what they cannot: directions that differ in everything,
and changes in time. Every value is text with its unit::

    rate = "10Gbit"            # both directions; any of these keys may be absent
    rtt = "100ms"              # half each way
    queue = "125MB"            # default: one bandwidth-delay product
    loss = "0.01%"
    burst = { enter = "0.001%", leave = "20%", loss_bad = "100%", loss_good = "0%" }
    jitter = "1ms"
    mtu = 1500
    frame_overhead = "38B"
    seed = 1

    [far_to_near]              # or near_to_far: wins over the above
    rate = "1Gbit"
    delay = "80ms"             # one way

    [[change]]                 # in any number, in the order of time
    at = "5s"                  # after the start
    direction = "near_to_far"  # or far_to_near; absent: both
    rate = "2Gbit"             # rate, delay, loss, burst, drop, outage; absent: as it was

    [[change]]
    at = "7s"
    drop = 1                   # wire segments, from the next on, lost for certain

    [[change]]
    at = "8s"
    outage = true              # until a later change says false
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from howdah import tomlfile
from howdah._native import HowdahError, parse_bytes, parse_duration, parse_fraction, parse_rate
from howdah.values.link import Burst, Change, Direction, LinkSpec, checked

T = TypeVar("T")
_SEE = "see: howdah lab run --help"

Values = dict[str, Any]
"""Fields of LinkSpec, Direction or Change by name."""

_BOTH_WAYS = ("rate", "queue", "loss", "jitter")
"""Options that take two values with a comma."""


class Options(msgspec.Struct, frozen=True):
    """The link's options as typed; null where not given.

    ``rate``, ``queue``, ``loss`` and ``jitter`` take one value for both directions, or two with a
    comma: near to far, far to near. ``burst_loss`` is ``ENTER,LEAVE[,BAD[,GOOD]]``.
    """

    rate: str | None = None
    rtt: str | None = None
    queue: str | None = None
    loss: str | None = None
    burst_loss: str | None = None
    jitter: str | None = None
    mtu: int | None = None
    frame_overhead: str | None = None
    seed: int | None = None


def build(options: Options, file: Path | None = None) -> LinkSpec:
    """The link of ``file`` with ``options`` over it. Raises HowdahError: file, key, what to do."""
    return of_table(options, read(file) if file else {}, str(file))


def of_table(options: Options, table: Values, where: str) -> LinkSpec:
    """The link of a table that is at ``where``, with ``options`` over it. Raises HowdahError alike."""
    _only(table, where, *_WHOLE, "rtt", *_DIRECTION, "near_to_far", "far_to_near", "change")
    directions: Values = {}
    for place, name in enumerate(("near_to_far", "far_to_near")):
        own = table.get(name, {})
        own_where = f"{where}: {name}"
        if not isinstance(own, dict):
            raise HowdahError(f"{own_where} is not a table; write [{name}] and its keys below")
        _only(own, own_where, *_DIRECTION, "delay")
        values = (
            _round_trip(table, where, place)
            | _parsed(table, where, _DIRECTION)
            | _parsed(own, own_where, (*_DIRECTION, "delay"))
            | _from_options(options, place)
        )
        directions[name] = Direction(**values, changes=_changes(table, where, name))
    given = {key: value for key in _WHOLE if (value := getattr(options, key)) is not None}
    whole = _parsed(table, where, _WHOLE) | _parsed(given, "", _WHOLE)
    return checked(LinkSpec(**directions, **whole))


def read(file: Path) -> Values:
    """What a file of TOML has. Raises HowdahError."""
    return tomlfile.table(tomlfile.read(file, _SEE), str(file), _SEE)


def _from_options(options: Options, place: int) -> Values:
    """The fields of the direction ``place`` (0 near to far, 1 far to near) that options give."""
    values: Values = _round_trip({"rtt": options.rtt}, "", place) if options.rtt is not None else {}
    for key in _BOTH_WAYS:
        text: str | None = getattr(options, key)
        if text is None:
            continue
        ways = text.split(",")
        if len(ways) > 2:
            raise HowdahError(f"--{key} {text}: more than two values; give one, or NEAR-TO-FAR,FAR-TO-NEAR")
        values |= _parsed({key: ways[min(place, len(ways) - 1)]}, "", (key,))
    if options.burst_loss is not None:
        parts = options.burst_loss.split(",")
        if not 2 <= len(parts) <= 4:
            raise HowdahError(
                f"--burst-loss {options.burst_loss}: {len(parts)} values; "
                "give ENTER,LEAVE[,BAD[,GOOD]], as 0.01%,20%"
            )
        keys = ("enter", "leave", "loss_bad", "loss_good")
        values["burst"] = _burst(dict(zip(keys, parts, strict=False)), "--burst-loss")
    return values


def _changes(table: Values, where: str, name: str) -> tuple[Change, ...]:
    entries = table.get("change", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise HowdahError(f"{where}: change is not a list of tables; write [[change]] above each")
    changes = []
    for number, entry in enumerate(entries, start=1):
        entry_where = f"{where}: change {number}"
        _only(entry, entry_where, *_CHANGE, "direction")
        direction = entry.get("direction")
        if direction not in (None, "near_to_far", "far_to_near"):
            raise HowdahError(
                f"{entry_where}: direction {direction!r} is unknown; "
                "give near_to_far or far_to_near, or leave it out"
            )
        if "at" not in entry:
            raise HowdahError(f'{entry_where}: no time; add at = "5s"')
        if not entry.keys() & _MOMENT:
            raise HowdahError(f"{entry_where} changes nothing; add one of {', '.join(_MOMENT)}")
        if direction in (None, name):
            changes.append(Change(**_parsed(entry, entry_where, _CHANGE)))
    return tuple(changes)


def _round_trip(table: Mapping[str, Any], where: str, place: int) -> Values:
    """The delay of one direction out of ``rtt``: half each way, the odd nanosecond back."""
    if "rtt" not in table:
        return {}
    rtt_ns = _value(table["rtt"], parse_duration, where, "rtt")
    there_ns = rtt_ns // 2
    return {"delay_ns": (there_ns, rtt_ns - there_ns)[place]}


def _burst(value: object, where: str) -> Burst:
    if not isinstance(value, dict):
        raise HowdahError(f'{where} is not a table; write {{ enter = "0.01%", leave = "20%" }}')
    _only(value, where, "enter", "leave", "loss_bad", "loss_good")
    missing = {"enter", "leave"} - value.keys()
    if missing:
        raise HowdahError(f"{where}: no {min(missing)}; a burst needs enter and leave")
    return Burst(**{key: _value(text, parse_fraction, where, key) for key, text in value.items()})


def _outage(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise HowdahError(f"{where} is neither true nor false")
    return value


def _whole_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise HowdahError(f"{text} is not a whole number from 0 on")
    return int(text)


_TEXT: dict[str, tuple[str, Callable[[str], Any]]] = {
    "rate": ("rate_bps", parse_rate),
    "queue": ("queue_bytes", parse_bytes),
    "loss": ("loss", parse_fraction),
    "jitter": ("jitter_ns", parse_duration),
    "delay": ("delay_ns", parse_duration),
    "at": ("at_ns", parse_duration),
    "mtu": ("mtu", _whole_number),
    "frame_overhead": ("frame_overhead_bytes", parse_bytes),
    "seed": ("seed", _whole_number),
    "drop": ("drop", _whole_number),
}
"""Keys whose value is one text: the field it becomes, and how it is read."""

_TABLES: dict[str, Callable[[Any, str], Any]] = {"burst": _burst, "outage": _outage}

_WHOLE = ("mtu", "frame_overhead", "seed")
_DIRECTION = ("rate", "queue", "loss", "burst", "jitter")
_MOMENT = ("rate", "delay", "loss", "burst", "drop", "outage")
_CHANGE = ("at", *_MOMENT)


def _parsed(table: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> Values:
    """The fields that ``keys`` of ``table`` give; keys that are absent give none."""
    values: Values = {}
    for key in keys:
        if key not in table:
            continue
        if key in _TABLES:
            values[key] = _TABLES[key](table[key], f"{where}: {key}")
        else:
            field, read = _TEXT[key]
            values[field] = _value(table[key], read, where, key)
    return values


def _value(value: object, read: Callable[[str], T], where: str, key: str) -> T:
    """One value as text or number, read; ``where`` is empty for an option."""
    name = f"{where}: {key}" if where else f"--{key.replace('_', '-')}"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise HowdahError(f'{name} is not a text with a unit, as "10Gbit"')
    return tomlfile.value(read, str(value), name)


def _only(table: Mapping[str, Any], where: str, *known: str) -> None:
    unknown = sorted(table.keys() - set(known))
    if unknown:
        raise HowdahError(f"{where}: unknown key {unknown[0]}; known are {', '.join(known)}")
