"""Background traffic as it shall be: loads side by side, each on and off by the one clock of the run.

The patterns are those of a paper on shared networks (scenarios/traffic-*.toml): constant, square waves, and
Bursty-UDP(x, y), which is ``on_s`` x and ``every_s`` y: a burst of x seconds every y seconds, as its second
scenario says (where it lists the patterns, y is the gap).

A person writes a pattern in TOML, and every value has its unit. For example::

    name = "bursty-udp-1-5"
    duration = "60s"               # default 60s

    [[load]]                       # up to 8, side by side
    kind = "udp"                   # datagrams at a rate
    rate = "300Mbit"               # of payload
    on = "1s"                      # absent: all the time
    every = "5s"                   # from the beginning of one burst to that of the next
    start = "2s"                   # after the start of the run; absent: with it
    datagram = "1000B"             # payload of one; absent: what the path takes whole, 1472B at most
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

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_bytes, format_duration, format_rate, parse_bytes, parse_rate
from howdah.bounds import TRAFFIC_S, Bounds
from howdah.text import count
from howdah.tomlfile import Duration, Rate, Size
from howdah.values.plan import STREAMS_MAX

DURATION_S = 60.0
"""How long a pattern lasts that does not say."""

LOADS_MAX = 8
"""The most loads: each TCP load has an ssh session of its own, and sshd takes ten through one login."""


class ActivePeriod(NamedTuple):
    """A time in which something is sent, in seconds after the start."""

    begin_s: float
    end_s: float


class Wave(msgspec.Struct, frozen=True, kw_only=True):
    """The times at which a load is on: from ``start_s`` to the end, or for ``on_s`` every ``every_s``."""

    start_s: float = 0.0
    on_s: float | None = None
    every_s: float | None = None
    """Seconds from one beginning to the next; null with ``on_s``, and only then."""

    def periods(self, duration_s: float) -> Iterator[ActivePeriod]:
        """The times when it is on, in a run of ``duration_s``."""
        on_s, every_s = self.on_s or duration_s, self.every_s or duration_s
        number = 0
        while (begin_s := self.start_s + number * every_s) < duration_s:
            yield ActivePeriod(begin_s, min(begin_s + on_s, duration_s))
            number += 1

    def in_words(self) -> str:
        """The words ``10 s every 20 s from 5 s``."""
        on = "all the time" if self.on_s is None else f"{self.on_s:g} s every {self.every_s:g} s"
        return f"{on} from {self.start_s:g} s" if self.start_s else on


class Tcp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tcp"):
    """Streams that send as fast as their congestion control lets them, or as they are paced."""

    name: str
    wave: Wave
    streams: int = 1
    congestion_control: str | None = None
    """The congestion control; null: this host's default."""
    rate_bps: int | None = None
    """The most that all streams together may send, which are paced; null: nothing paces them."""

    def in_words(self) -> str:
        """The words for what it sends, and when."""
        control = self.congestion_control or "default congestion control"
        paced = "" if self.rate_bps is None else f"at most {format_rate(self.rate_bps)}, "
        return f"TCP, {count(self.streams, 'stream')}, {control}, {paced}{self.wave.in_words()}"


class Udp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="udp"):
    """Datagrams at a rate, whether they arrive or not."""

    name: str
    wave: Wave
    rate_bps: int
    """The rate of payload."""
    datagram_bytes: int | None = None
    """The payload of one datagram; null: the largest that the path takes whole."""

    def in_words(self) -> str:
        """The words for what it sends, and when."""
        return f"UDP, {format_rate(self.rate_bps)}, {self.wave.in_words()}"


class Rbudp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rbudp"):
    """Objects over UDP at a rate; what is missing is sent again until each is whole."""

    name: str
    start_s: float = 0.0
    every_s: float | None = None
    """Seconds from the beginning of one to that of the next; null: as soon as one is whole."""
    rate_bps: int
    """The rate of payload, also of the missing pieces."""
    object_bytes: int
    datagram_bytes: int | None = None
    """The payload of one datagram; null: the largest that the path takes whole."""

    @property
    def sending_s(self) -> float:
        """Seconds that the first round of an object takes."""
        return self.object_bytes * 8 / self.rate_bps

    def begins_s(self, now_s: float, number: int, duration_s: float) -> float | None:
        """The begin of object ``number``, from 0, if nothing is on its way at ``now_s``; null: never.

        An object whose first round would go on after the end does not begin.
        """
        planned_s = self.start_s + number * (self.every_s or 0.0)
        begin_s = max(now_s, planned_s)
        return begin_s if begin_s + self.sending_s <= duration_s else None

    def in_words(self) -> str:
        """The words for what it sends, and when."""
        when = "one after the other" if self.every_s is None else f"every {self.every_s:g} s"
        start = f" from {self.start_s:g} s" if self.start_s else ""
        return f"RBUDP, {format_bytes(self.object_bytes)} at {format_rate(self.rate_bps)} {when}{start}"


Load = Tcp | Udp | Rbudp


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """Loads that a run has side by side."""

    name: str
    summary: str = ""
    duration_s: float = DURATION_S
    loads: tuple[Load, ...]

    def controls(self) -> list[str]:
        """The congestion controls that the pattern names."""
        named = [load.congestion_control for load in self.loads if isinstance(load, Tcp)]
        return list(dict.fromkeys(name for name in named if name is not None))

    def in_words(self) -> str:
        """A line for the whole and one for each load."""
        width = max(len(load.name) for load in self.loads)
        lines = [f"  {load.name.ljust(width)}  {load.in_words()}" for load in self.loads]
        return "\n".join([f"{self.name}, {format_duration(self.duration_s)}", *lines])


class Clock:
    """Seconds since the start of a run; before it, negative."""

    def __init__(self) -> None:
        self._begin_s = time.monotonic()
        self._stopped = threading.Event()

    def begin(self) -> None:
        """The run starts now."""
        self._begin_s = time.monotonic()

    def now_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._begin_s

    def wait_until(self, at_s: float) -> bool:
        """Waits until ``at_s``; false when the run was stopped."""
        return not self._stopped.wait(max(0.0, at_s - self.now_s()))

    def stop(self) -> None:
        """Ends the run, and all waits."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether the run has been stopped."""
        return self._stopped.is_set()


SEE = "see: howdah traffic --help"


def _load_rate_bps(text: str) -> int:
    rate_bps = parse_rate(text)
    if rate_bps < 1000:
        raise HowdahError(f"{text} is too low; give 1kbit or more")
    return rate_bps


class _LoadRate(Rate):
    number = staticmethod(_load_rate_bps)


DATAGRAM_BYTES = Bounds(64, 65_507, show="{}B".format)
"""The payload of a datagram, as a source sends it (crates/traffic/src/header.rs)."""

OBJECT_BYTES_MAX = 64 * 1024**3
"""The largest object that a source sends (crates/traffic/src/blast.rs)."""


def _datagram_bytes(text: str) -> int:
    size_bytes = parse_bytes(text)
    if (why := DATAGRAM_BYTES.refused(size_bytes)) is not None:
        raise HowdahError(f"{text} is {why}; leave it out for what the path takes whole")
    return size_bytes


class _Datagram(Size):
    number = staticmethod(_datagram_bytes)


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
    datagram: _Datagram | None = None

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
    datagram: _Datagram | None = None

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
        if not 1 <= made.object_bytes <= OBJECT_BYTES_MAX:
            what = "too large" if made.object_bytes else "empty"
            raise HowdahError(f"size {self.size} is {what}; give 1B to 64GiB")
        if made.every_s is not None and made.sending_s >= made.every_s:
            raise HowdahError(f"{takes}, which does not fit into every {self.every}")
        if made.start_s + made.sending_s > duration_s:
            raise HowdahError(f"{takes}, and everything is over after {format_duration(duration_s)}")
        return made


class _PatternTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    load: list[_TcpTable | _UdpTable | _RbudpTable]
    summary: str = ""
    duration: Duration = Duration(DURATION_S * 1e9)


def load_pattern(file: Path, lasting_s: float | None = None, see: str = SEE) -> Pattern:
    """The pattern in ``file``, ``lasting_s`` long if given. Raises HowdahError: file, key, what to do."""
    return parse_pattern(tomlfile.read(file, see), str(file), lasting_s, see)


def parse_pattern(text: str, where: str, lasting_s: float | None = None, see: str = SEE) -> Pattern:
    """The pattern in a text of TOML. Raises HowdahError as ``load_pattern`` does."""
    given = tomlfile.loads(text, where, _PatternTable, see)
    if not 1 <= len(given.load) <= LOADS_MAX:
        raise HowdahError(
            f"{where} has {count(len(given.load), 'load')}; give 1 to {LOADS_MAX} tables [[load]]; {see}"
        )
    duration_s = given.duration.seconds if lasting_s is None else lasting_s
    if (why := TRAFFIC_S.refused(duration_s)) is not None:
        raise HowdahError(f"{where}: a duration of {duration_s:g} s is {why}; give another")
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
            f"and everything is over after {format_duration(duration_s)}"
        )
    try:
        return given.load(name, duration_s)
    except HowdahError as error:
        raise HowdahError(f"{at}: {error}") from None
