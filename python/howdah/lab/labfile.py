"""A whole lab as a person writes it: options of the command line over a TOML file.

The file says the same as the options, and what they cannot: directions that differ in everything,
and changes in time. Every value is text with its unit::

    rate = "10Gbit"            # both directions; any of these keys may be absent
    rtt = "100ms"              # half each way
    queue = "125MB"            # or "0.5BDP" of rate and RTT; default: one such product
    loss = "0.01%"             # or "1e-4"
    burst = { enter = "0.001%", leave = "20%", loss_bad = "100%", loss_good = "0%" }
    jitter = "1ms"
    mtu = 1500
    frame_overhead = "38B"
    seed = 1
    topology = "dumbbell"      # absent: a pair, near and far, at the ends of the link
    left = 4                   # left1 to left4; or names: ["base20", "base21"]; default 1
    right = ["arch"]
    lan_rate = "1Gbit"         # on the wire of each host's cable, each way; absent: not shaped

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

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import parse_bytes, parse_fraction
from howdah.arguments import BadArgument, Refusing, literal
from howdah.lab.topology import PAIR, Topology, dumbbell
from howdah.text import count
from howdah.tomlfile import Duration, Rate, Size, U, Unit
from howdah.values.link import BadLink, Burst, Change, Direction, LinkSpec, checked

_SEE = "see: howdah lab run --help"
_FIELDS = {
    "rate": "rate_bps",
    "queue": "queue_bytes",
    "jitter": "jitter_ns",
    "delay": "delay_ns",
    "at": "at_ns",
    "frame_overhead": "frame_overhead_bytes",
}
"""The fields of keys whose names have no unit."""
_KEYS = {field: key for key, field in _FIELDS.items()}
_DROPS_MAX = 1_000_000
BDP = "BDP"
_PRODUCTS = (0.01, 100)
"""The least and the most bandwidth-delay products of a queue."""
_LAN_KEYS = ("left", "right", "lan_rate")
_TOPOLOGIES = ("pair", "dumbbell")


def _whole_number(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise HowdahError(f"{text} is not a whole number from 0 on")
    return int(text)


class _Whole(Unit, int):
    number = staticmethod(_whole_number)


def _segments(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= _DROPS_MAX:
        raise HowdahError(f"{text} is not a whole number from 1 to {_DROPS_MAX:,}")
    return int(text)


class _Segments(Unit, int):
    number = staticmethod(_segments)


def _loss(text: str) -> float:
    """A share of segments. Raises HowdahError for ``0.01``, which other tools take for percent."""
    share = parse_fraction(text)
    if share and not {"%", "e", "E"} & {*text}:
        raise HowdahError(f"{text} could mean {text}% or {share * 100:g}%; write one of them")
    return share


class _Loss(Unit, float):
    number = staticmethod(_loss)


def _queue(text: str) -> float:
    """Bytes, or products of rate and round trip."""
    if not text.endswith(BDP):
        return parse_bytes(text)
    try:
        products = float(text.removesuffix(BDP))
    except ValueError:
        products = 0.0
    if not _PRODUCTS[0] <= products <= _PRODUCTS[1]:
        raise HowdahError(f'{text}: give bytes, or {_PRODUCTS[0]} to {_PRODUCTS[1]} BDP, as "0.5BDP"')
    return products


class _Queue(Unit, float):
    """A queue in bytes, or in products of its direction's rate and the round trip, written as ``0.5BDP``."""

    number = staticmethod(_queue)

    def bytes(self, rate_bps: int | None, rtt_ns: int) -> int:
        """Its bytes. Raises HowdahError where there is no product."""
        if not self.written.endswith(BDP):
            return int(self)
        if rate_bps is None or not rtt_ns:
            missing = "rate is not shaped" if rate_bps is None else "round trip is 0"
            raise HowdahError(f"queue {self} needs a rate and a round trip, but the {missing}; give bytes")
        return max(1, round(self * rate_bps * rtt_ns / 8e9))


_TWO_VALUED: dict[str, type[Unit]] = {"rate": Rate, "queue": _Queue, "loss": _Loss, "jitter": Duration}
"""Options that take two values with a comma."""

_WHOLE_LINK: dict[str, type[Unit]] = {"mtu": _Whole, "frame_overhead": Size, "seed": _Whole}
"""Keys that are no direction's."""


class _BurstTable(msgspec.Struct, forbid_unknown_fields=True):
    enter: _Loss
    leave: _Loss
    loss_bad: _Loss | None = None
    loss_good: _Loss | None = None


class _DirectionTable(msgspec.Struct, forbid_unknown_fields=True):
    rate: Rate | None = None
    queue: _Queue | None = None
    loss: _Loss | None = None
    burst: _BurstTable | None = None
    jitter: Duration | None = None
    delay: Duration | None = None


class _ChangeTable(msgspec.Struct, forbid_unknown_fields=True):
    at: Duration
    direction: Literal["near_to_far", "far_to_near"] | None = None
    rate: Rate | None = None
    delay: Duration | None = None
    loss: _Loss | None = None
    burst: _BurstTable | None = None
    drop: _Segments | None = None
    outage: bool | None = None

    def __post_init__(self) -> None:
        moment = self.__struct_fields__[2:]
        if all(getattr(self, key) is None for key in moment):
            raise ValueError(f"it changes nothing; add one of {', '.join(moment)}")


class _LabTable(msgspec.Struct, forbid_unknown_fields=True):
    rate: Rate | None = None
    rtt: Duration | None = None
    queue: _Queue | None = None
    loss: _Loss | None = None
    burst: _BurstTable | None = None
    jitter: Duration | None = None
    mtu: _Whole | None = None
    frame_overhead: Size | None = None
    seed: _Whole | None = None
    near_to_far: _DirectionTable = msgspec.field(default_factory=_DirectionTable)
    far_to_near: _DirectionTable = msgspec.field(default_factory=_DirectionTable)
    change: list[_ChangeTable] = msgspec.field(default_factory=list)
    topology: Literal["pair", "dumbbell"] | None = None
    left: int | str | list[str] | None = None
    right: int | str | list[str] | None = None
    lan_rate: Rate | None = None


class LabOptions(msgspec.Struct, frozen=True):
    """The options of a lab as typed; null where not given.

    ``rate``, ``queue``, ``loss`` and ``jitter`` take one value for both directions, or two with a
    comma: near to far, far to near. ``burst_loss`` is ``ENTER,LEAVE[,BAD[,GOOD]]``. A side (``left``,
    ``right``) is a number of hosts, or names with commas.
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
    topology: str | None = None
    left: str | None = None
    right: str | None = None
    lan_rate: str | None = None


def build(options: LabOptions, file: Path | None = None) -> tuple[LinkSpec, Topology]:
    """The lab of ``file`` with ``options`` over it. Raises HowdahError: file, key, what to do."""
    lab = tomlfile.load(file, _LabTable, _SEE) if file else _LabTable()
    return _link(lab, options, str(file)), _topology(lab, options, str(file))


def link(options: LabOptions) -> LinkSpec:
    """The link of options alone. Raises BadArgument."""
    return _link(_LabTable(), options, "")


def _link(lab: _LabTable, options: LabOptions, file: str) -> LinkSpec:
    directions: dict[str, Any] = {}
    for place, name in enumerate(("near_to_far", "far_to_near")):
        values = (
            _delay(lab.rtt, place)
            | _fields(lab, "rate", "queue", "loss", "burst", "jitter")
            | _fields(getattr(lab, name))
            | _options(options, place)
        )
        changes = [_fields(each) for each in lab.change if each.direction in {None, name}]
        directions[name] = values | {"changes": tuple(Change(**each) for each in changes)}
    rtt_ns = sum(values.get("delay_ns", 0) for values in directions.values())
    for values in directions.values():
        if (queue := values.get("queue_bytes")) is not None:
            with nullcontext() if options.queue is None else Refusing():
                values["queue_bytes"] = queue.bytes(values.get("rate_bps"), rtt_ns)
    typed: dict[str, Any] = {
        key: _option(kind, str(text), key)
        for key, kind in _WHOLE_LINK.items()
        if (text := getattr(options, key)) is not None
    }
    whole = _fields(lab, *_WHOLE_LINK) | _fields(_LabTable(**typed), *_WHOLE_LINK)
    ways: dict[str, Any] = {name: Direction(**values) for name, values in directions.items()}
    try:
        return checked(LinkSpec(**ways, **whole))
    except BadLink as error:
        raise _as_written(error, lab, options, file) from None


def _as_written(bad: BadLink, lab: _LabTable, options: LabOptions, file: str) -> HowdahError:
    """The error, with the option or the key of the file in place of the field."""
    key = _KEYS.get(bad.field, bad.field)
    says = (f": {bad.part}" if bad.part else "") + re.sub(r"\w+_bps", "rate", bad.says)
    if bad.change is not None:
        of_way = [place for place, each in enumerate(lab.change, 1) if each.direction in {None, bad.way}]
        return HowdahError(f"{file}: change {of_way[bad.change]}: {key}{says}")
    whole = {"delay": "rtt", "burst": "burst_loss"}.get(key, key)
    of_one_way = bad.way is not None and getattr(getattr(lab, bad.way), key, None) is not None
    if getattr(options, whole) is None and of_one_way:
        return HowdahError(f"{file}: {bad.way}: {key}{says}")
    if key == "delay":
        says = f", one way,{says}"
    if getattr(options, whole) is None:
        return HowdahError(f"{file}: {'rtt' if key == 'delay' else key}{says}")
    return BadArgument(f"{{{whole}}}{says}")


def _option(kind: type[U], text: str, option: str) -> U:
    """The value of an option. Raises BadArgument."""
    with Refusing(option):
        return kind.read(text)


def _options(options: LabOptions, place: int) -> dict[str, Any]:
    """The fields of the direction ``place`` (0 near to far, 1 far to near) that options give."""
    rtt = None if options.rtt is None else _option(Duration, options.rtt, "rtt")
    values: dict[str, Any] = {}
    for key, kind in _TWO_VALUED.items():
        text: str | None = getattr(options, key)
        if text is None:
            continue
        parts = text.split(",")
        if len(parts) > 2:
            raise BadArgument(
                f"{{{key}}}: {literal(text)} has more than two values; give one, or NEAR-TO-FAR,FAR-TO-NEAR"
            )
        values[key] = _option(kind, parts[min(place, len(parts) - 1)], key)
    if options.burst_loss is not None:
        values["burst"] = _burst(options.burst_loss)
    return _delay(rtt, place) | _fields(_DirectionTable(**values))


def _burst(text: str) -> _BurstTable:
    parts = text.split(",")
    if not 2 <= len(parts) <= 4:
        raise BadArgument(
            f"{{burst_loss}}: {literal(text)} has {count(len(parts), 'value')}; "
            "give ENTER,LEAVE[,BAD[,GOOD]], as 0.01%,20%"
        )
    return _BurstTable(*(_option(_Loss, part, "burst_loss") for part in parts))


def _delay(rtt: Duration | None, place: int) -> dict[str, Any]:
    """The delay of one direction out of the round trip: half each way, the odd nanosecond back."""
    if rtt is None:
        return {}
    there_ns = rtt // 2
    return {"delay_ns": (there_ns, rtt - there_ns)[place]}


def _fields(table: msgspec.Struct, *keys: str) -> dict[str, Any]:
    """The fields of a link, direction, change or burst that ``keys`` of ``table`` (or all) give."""
    values: dict[str, Any] = {}
    for key in keys or table.__struct_fields__:
        value = getattr(table, key)
        if value is not None and key != "direction":
            values[_FIELDS.get(key, key)] = _plain(value)
    return values


def _plain(value: Any) -> Any:  # noqa: ANN401, whatever a table holds
    if isinstance(value, _BurstTable):
        return Burst(**_fields(value))
    # How many bytes that is shows when rate and round trip are known.
    return value if isinstance(value, _Queue) else tomlfile.plain(value)


def _topology(lab: _LabTable, options: LabOptions, file: str) -> Topology:
    def given(key: str, default: Any = None) -> Any:  # noqa: ANN401, whatever a table holds
        found = (getattr(options, key), getattr(lab, key), default)
        return next((each for each in found if each is not None), None)

    def wrong(key: str, says: str) -> HowdahError:
        of_file = getattr(options, key) is None
        return (
            HowdahError(f"{file}: {key}: {says}") if of_file else BadArgument(f"{{{key}}}: {literal(says)}")
        )

    kind = given("topology", "pair")
    if kind not in _TOPOLOGIES:
        raise wrong("topology", f"{kind!r} is unknown; give {' or '.join(_TOPOLOGIES)}")
    if kind == "pair":
        for key in _LAN_KEYS:
            if given(key) is not None:
                raise wrong(key, "a pair of hosts has no LAN; give the topology dumbbell")
        return PAIR
    left, right = (_side(given(key, 1)) for key in ("left", "right"))
    rate_bps = None if lab.lan_rate is None else int(lab.lan_rate)
    if options.lan_rate is not None:
        rate_bps = int(_option(Rate, options.lan_rate, "lan_rate"))
    of_file = all(getattr(options, key) is None for key in _LAN_KEYS)
    with nullcontext() if of_file else Refusing():
        return dumbbell(left, right, lan_rate_bps=rate_bps)


def _side(value: int | str | list[str]) -> int | list[str]:
    if isinstance(value, str):
        words = [word.strip() for word in value.split(",")]
        return int(value) if value.isascii() and value.isdecimal() else words
    return value
