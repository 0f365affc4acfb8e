"""A pattern of traffic as a person writes it, in TOML; every value has its unit.

For example::

    name = "bursty-udp-1-5"
    duration = "60s"               # default 60s, at most 24h; --for says otherwise

    [[load]]                       # up to 8, side by side
    kind = "udp"                   # datagrams at a rate
    rate = "300Mbit"               # of payload
    on = "1s"                      # absent: all the time
    every = "5s"                   # from the beginning of one burst to that of the next
    start = "2s"                   # after the start of the run; absent: with it
    datagram = "1000B"             # payload of one; absent: what the way takes whole, 1472B at most
    name = "bursts"                # absent: the kind and a number

    [[load]]
    kind = "tcp"                   # as fast as congestion control lets it
    congestion_control = "bbr"     # absent: this host's default
    streams = 2                    # absent: 1
    rate = "10Mbit"                # of all its streams at most, which are paced; absent: unbounded
    on = "10s"
    every = "20s"

    [[load]]
    kind = "rbudp"                 # an object at a rate, then what was lost, until it is whole
    rate = "400Mbit"
    size = "50MB"
    every = "20s"                  # absent: one after the other
"""

from pathlib import Path
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_duration, parse_bytes, parse_duration, parse_rate
from howdah.text import count
from howdah.traffic.pattern import (
    DURATION_MAX_S,
    DURATION_S,
    LOADS_MAX,
    Load,
    Pattern,
    Rbudp,
    Tcp,
    Udp,
    Wave,
)
from howdah.values.plan import STREAMS_MAX

SEE = "see: howdah traffic --help"

_ON_MIN_S = {"tcp": 0.1, "udp": 0.001}
"""A TCP load is connected anew each time that it comes on."""


class _TcpText(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="tcp"):
    name: str | None = None
    start: str = "0s"
    on: str | None = None
    every: str | None = None
    streams: Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)] = 1
    congestion_control: str | None = None
    rate: str | None = None


class _UdpText(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="udp"):
    rate: str
    name: str | None = None
    start: str = "0s"
    on: str | None = None
    every: str | None = None
    datagram: str | None = None


class _RbudpText(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="rbudp"):
    rate: str
    size: str
    name: str | None = None
    start: str = "0s"
    every: str | None = None
    datagram: str | None = None


class _PatternText(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    load: list[_TcpText | _UdpText | _RbudpText]
    summary: str = ""
    duration: str | None = None


def load(file: Path, lasting_s: float | None = None) -> Pattern:
    """The pattern in ``file``, ``lasting_s`` long if given. Raises HowdahError: file, key, what to do."""
    return loads(tomlfile.read(file, SEE), str(file), lasting_s)


def loads(text: str, where: str, lasting_s: float | None = None) -> Pattern:
    """A pattern from TOML, as ``load``."""
    table = tomlfile.table(text, where, SEE)
    given = tomlfile.convert(table, _PatternText, f"{where} is not a pattern of traffic", SEE)
    if not 1 <= len(given.load) <= LOADS_MAX:
        raise HowdahError(
            f"{where} has {count(len(given.load), 'load')}; give 1 to {LOADS_MAX} tables [[load]]; {SEE}"
        )
    duration_s = _duration_s(given.duration, where) if lasting_s is None else lasting_s
    if not 0 < duration_s <= DURATION_MAX_S:
        raise HowdahError(
            f"{where}: a duration of {duration_s:g} s cannot be; give more than 0s, and 24h at most"
        )
    made = [_load(each, number, where, duration_s) for number, each in enumerate(given.load, start=1)]
    names = [each.name for each in made]
    for name in names:
        if names.count(name) > 1:
            raise HowdahError(f"{where}: two loads are called {name}; give each a name of its own")
    return Pattern(
        name=tomlfile.name(given.name, f"{where}: name"),
        summary=" ".join(given.summary.split()),
        duration_s=duration_s,
        loads=tuple(made),
    )


def _duration_s(text: str | None, where: str) -> float:
    return DURATION_S if text is None else _time_s(text, f"{where}: duration")


def _load(given: _TcpText | _UdpText | _RbudpText, number: int, where: str, duration_s: float) -> Load:
    kind = given.__struct_config__.tag
    at = f"{where}: load {number} ({kind})"
    name = tomlfile.name(given.name or f"{kind}{number}", f"{at}: name")
    start_s = _time_s(given.start, f"{at}: start")
    if start_s >= duration_s:
        raise HowdahError(
            f"{at} starts after {format_duration(start_s)}, "
            f"and all is over after {format_duration(duration_s)}"
        )
    match given:
        case _TcpText():
            return Tcp(
                name=name,
                wave=_wave(given, start_s, at),
                streams=given.streams,
                congestion_control=given.congestion_control,
                rate_bps=None if given.rate is None else _rate_bps(given.rate, at),
            )
        case _UdpText():
            rate_bps, datagram_bytes = _rate(given, at)
            return Udp(
                name=name,
                wave=_wave(given, start_s, at),
                rate_bps=rate_bps,
                datagram_bytes=datagram_bytes,
            )
        case _RbudpText():
            return _rbudp(given, name, start_s, at, duration_s)


def _rbudp(given: _RbudpText, name: str, start_s: float, at: str, duration_s: float) -> Rbudp:
    rate_bps, datagram_bytes = _rate(given, at)
    every_s = None if given.every is None else _time_s(given.every, f"{at}: every")
    made = Rbudp(
        name=name,
        start_s=start_s,
        every_s=every_s,
        rate_bps=rate_bps,
        object_bytes=tomlfile.value(parse_bytes, given.size, f"{at}: size"),
        datagram_bytes=datagram_bytes,
    )
    takes = f"{given.size} at {given.rate} takes {format_duration(made.sending_s)}"
    if made.object_bytes == 0:
        raise HowdahError(f"{at}: size {given.size} is nothing; give 1B to 64GiB")
    if every_s is not None and made.sending_s >= every_s:
        raise HowdahError(f"{at}: {takes}, which does not fit into every {given.every}")
    if start_s + made.sending_s > duration_s:
        raise HowdahError(f"{at}: {takes}, and all is over after {format_duration(duration_s)}")
    return made


def _wave(given: _TcpText | _UdpText, start_s: float, at: str) -> Wave:
    if (given.on is None) != (given.every is None):
        raise HowdahError(f"{at}: give on and every together, or neither for all the time; {SEE}")
    if given.on is None or given.every is None:
        return Wave(start_s=start_s)
    on_s, every_s = _time_s(given.on, f"{at}: on"), _time_s(given.every, f"{at}: every")
    least_s = _ON_MIN_S[str(given.__struct_config__.tag)]
    if on_s < least_s:
        raise HowdahError(f"{at}: on {given.on} is too short; give {format_duration(least_s)} or more")
    if on_s >= every_s:
        raise HowdahError(f"{at}: on {given.on} does not fit into every {given.every}; make on the shorter")
    return Wave(start_s=start_s, on_s=on_s, every_s=every_s)


def _rate(given: _UdpText | _RbudpText, at: str) -> tuple[int, int | None]:
    rate_bps = _rate_bps(given.rate, at)
    if given.datagram is None:
        return rate_bps, None
    return rate_bps, tomlfile.value(parse_bytes, given.datagram, f"{at}: datagram")


def _rate_bps(text: str, at: str) -> int:
    rate_bps = tomlfile.value(parse_rate, text, f"{at}: rate")
    if rate_bps < 1000:
        raise HowdahError(f"{at}: rate {text} is too low; give 1kbit or more")
    return rate_bps


def _time_s(text: str, where: str) -> float:
    return tomlfile.value(parse_duration, text, where) / 1e9
