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
from howdah._native import format_duration, parse_rate
from howdah.text import count
from howdah.tomlfile import Duration, Rate, Size
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


def _load_rate_bps(text: str) -> int:
    rate_bps = parse_rate(text)
    if rate_bps < 1000:
        raise HowdahError(f"{text} is too low; give 1kbit or more")
    return rate_bps


class _LoadRate(Rate):
    number = staticmethod(_load_rate_bps)


class _LoadTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """The keys of loads of every kind."""

    name: str | None = None
    start: Duration = Duration(0)
    every: Duration | None = None


class _WaveTable(_LoadTable, kw_only=True):
    """The keys of a load that is on and off."""

    on: Duration | None = None

    def wave(self, on_least_s: float) -> Wave:
        """The wave of the load. Raises HowdahError for times that do not fit."""
        if (self.on is None) != (self.every is None):
            raise HowdahError(f"give on and every together, or neither for all the time; {SEE}")
        if self.on is None or self.every is None:
            return Wave(start_s=self.start.seconds)
        if self.on.seconds < on_least_s:
            raise HowdahError(f"on {self.on} is too short; give {format_duration(on_least_s)} or more")
        if self.on >= self.every:
            raise HowdahError(f"on {self.on} does not fit into every {self.every}; make on the shorter")
        return Wave(start_s=self.start.seconds, on_s=self.on.seconds, every_s=self.every.seconds)


class _TcpTable(_WaveTable, kw_only=True, tag="tcp"):
    streams: Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)] = 1
    congestion_control: str | None = None
    rate: _LoadRate | None = None

    def load(self, name: str, duration_s: float) -> Tcp:
        return Tcp(
            name=name,
            # A TCP load connects anew each time that it comes on.
            wave=self.wave(on_least_s=0.1),
            streams=self.streams,
            congestion_control=self.congestion_control,
            rate_bps=tomlfile.plain(self.rate),
        )


class _UdpTable(_WaveTable, kw_only=True, tag="udp"):
    rate: _LoadRate
    datagram: Size | None = None

    def load(self, name: str, duration_s: float) -> Udp:
        return Udp(
            name=name,
            wave=self.wave(on_least_s=0.001),
            rate_bps=int(self.rate),
            datagram_bytes=tomlfile.plain(self.datagram),
        )


class _RbudpTable(_LoadTable, kw_only=True, tag="rbudp"):
    rate: _LoadRate
    size: Size
    datagram: Size | None = None

    def load(self, name: str, duration_s: float) -> Rbudp:
        made = Rbudp(
            name=name,
            start_s=self.start.seconds,
            every_s=self.every.seconds if self.every is not None else None,
            rate_bps=int(self.rate),
            object_bytes=int(self.size),
            datagram_bytes=tomlfile.plain(self.datagram),
        )
        takes = f"{self.size} at {self.rate} takes {format_duration(made.sending_s)}"
        if made.object_bytes == 0:
            raise HowdahError(f"size {self.size} is nothing; give 1B to 64GiB")
        if made.every_s is not None and made.sending_s >= made.every_s:
            raise HowdahError(f"{takes}, which does not fit into every {self.every}")
        if made.start_s + made.sending_s > duration_s:
            raise HowdahError(f"{takes}, and all is over after {format_duration(duration_s)}")
        return made


class _PatternTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    load: list[_TcpTable | _UdpTable | _RbudpTable]
    summary: str = ""
    duration: Duration = Duration(DURATION_S * 1e9)


def load(file: Path, lasting_s: float | None = None) -> Pattern:
    """The pattern in ``file``, ``lasting_s`` long if given. Raises HowdahError: file, key, what to do."""
    return loads(tomlfile.read(file, SEE), str(file), lasting_s)


def loads(text: str, where: str, lasting_s: float | None = None) -> Pattern:
    """A pattern from TOML, as ``load``."""
    given = tomlfile.loads(text, where, _PatternTable, SEE)
    if not 1 <= len(given.load) <= LOADS_MAX:
        raise HowdahError(
            f"{where} has {count(len(given.load), 'load')}; give 1 to {LOADS_MAX} tables [[load]]; {SEE}"
        )
    duration_s = given.duration.seconds if lasting_s is None else lasting_s
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


def _load(given: _TcpTable | _UdpTable | _RbudpTable, number: int, where: str, duration_s: float) -> Load:
    kind = given.__struct_config__.tag
    at = f"{where}: load {number} ({kind})"
    name = tomlfile.name(given.name or f"{kind}{number}", f"{at}: name")
    if given.start.seconds >= duration_s:
        raise HowdahError(
            f"{at} starts after {format_duration(given.start.seconds)}, "
            f"and all is over after {format_duration(duration_s)}"
        )
    try:
        return given.load(name, duration_s)
    except HowdahError as error:
        raise HowdahError(f"{at}: {error}") from None
