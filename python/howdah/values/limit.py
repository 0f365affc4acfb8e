"""Limits of a copy: what is asked for, by the hour of the day where that counts, and what came of it."""

import re
from datetime import datetime
from typing import Literal, NamedTuple, Self

import msgspec

from howdah import HowdahError
from howdah._native import parse_rate
from howdah.arguments import BadArgument, literal

LIMIT_BPS_MIN = 8_000
"""The least limit. At less, one end could not tell the other from one that hangs (crates/wire)."""

_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]|24):([0-5]\d)")
_UNITS = ((10**9, "Gb/s"), (10**6, "Mb/s"), (10**3, "kb/s"))
_DAY_MIN = 24 * 60
_EXAMPLE = "give for example 100Mbit, none, or '100Mbit 08:00-18:00, 1Gbit'"


class Span(NamedTuple):
    """A rate, and the hours in which it counts."""

    most_bps: int | None
    """The rate; None: no limit."""
    hours: tuple[int, int] | None = None
    """The minutes of the day at which it begins and ends, the end not included; past midnight where the end
    is before the begin. None: at all hours."""

    def applies(self, minute: int) -> bool:
        """Whether it counts at a minute of the day."""
        if self.hours is None:
            return True
        begin, end = self.hours
        return begin <= minute < end if begin < end else minute >= begin or minute < end

    def in_words(self) -> str:
        """``100Mb/s 08:00-18:00``, as ``Limits.parse`` reads it."""
        rate = "none" if self.most_bps is None else _exact(self.most_bps)
        return rate if self.hours is None else f"{rate} {_clock(self.hours[0])}-{_clock(self.hours[1])}"


class Limits(NamedTuple):
    """What a copy may send, all streams together. The first span that applies counts; if none, no limit."""

    spans: tuple[Span, ...] = ()

    @classmethod
    def parse(cls, text: str, option: str = "{limit}", least_bps: int = LIMIT_BPS_MIN) -> Self:
        """Reads ``RATE``, ``none``, or several with the hours of this host's day: ``RATE HH:MM-HH:MM, RATE``.

        Raises BadArgument, which names ``option``, for what is none or is below ``least_bps``.
        """
        try:
            spans = tuple(_span(part.split(), least_bps) for part in text.split(","))
            if any(span.hours is None for span in spans[:-1]):
                raise HowdahError(
                    ": rates after one without hours never apply; put the rate without hours last"
                )
        except HowdahError as error:
            shown = text if text.strip() else repr(text)
            raise BadArgument(f"{option} {literal(f'{shown}{error}')}".strip()) from None
        return cls(spans)

    def now_bps(self, at: datetime | None = None) -> int | None:
        """The limit at a local time, by default now; None: there is none."""
        at = at or datetime.now()
        minute = at.hour * 60 + at.minute
        return next((span.most_bps for span in self.spans if span.applies(minute)), None)

    def in_words(self) -> str:
        """The limits as they may be written; ``none`` where there is no limit at any hour."""
        return ", ".join(span.in_words() for span in self.spans) or "none"


class Limited(msgspec.Struct, frozen=True, kw_only=True):
    """What limits and pauses did to a copy."""

    limit: str
    """The limits at the end, as ``--limit`` takes them; ``none`` where there were none."""
    most_bps: int | None = None
    """What counted at the end; null: no limit."""
    limited_s: float = 0.0
    """The seconds in which a limit counted while the copy moved and was not paused."""
    held: Literal["held", "slower"] | None = None
    """Whether the limit slowed the copy, or it was slower anyway in those seconds; null without any."""
    paused_s: float = 0.0
    changes: int = 0
    """How often limits were changed, or a pause begun or ended, by somebody."""


def now_in_words(most_bps: int | None, *, paused: bool) -> str:
    """What counts from now on: ``at most 20Mb/s``, ``no limit``, or ``paused; no limit afterwards``."""
    said = "no limit" if most_bps is None else f"at most {_exact(most_bps)}"
    return f"paused; {said} afterwards" if paused else said


def _span(words: list[str], least_bps: int) -> Span:
    if not 1 <= len(words) <= 2:
        raise HowdahError(f" is not a limit; {_EXAMPLE}")
    return Span(_rate(words[0], least_bps), _hours(words[1]) if words[1:] else None)


def _rate(word: str, least_bps: int) -> int | None:
    if word == "none":
        return None
    try:
        rate_bps = parse_rate(word)
    except HowdahError:
        raise HowdahError(f": {word} is not a rate; {_EXAMPLE}") from None
    check_least(rate_bps, f": {word}", least_bps)
    return rate_bps


def check_least(rate_bps: int, shown: str, least_bps: int = LIMIT_BPS_MIN) -> None:
    """Raises HowdahError, which names the rate as ``shown``, where no limit may be so low."""
    if rate_bps < least_bps:
        raise HowdahError(
            f"{shown} is below {_exact(least_bps)}; to stop a copy for a while, use howdah pause"
        )


def _hours(word: str) -> tuple[int, int]:
    found = _HOURS.fullmatch(word)
    begin, end = (0, 0) if found is None else (_minutes(found[1], found[2]), _minutes(found[3], found[4]))
    if found is None or begin == end or end > _DAY_MIN:
        raise HowdahError(f": {word} is not a span of hours; write for example 08:00-18:00")
    return begin, end


def _exact(rate_bps: int) -> str:
    scale, unit = next((each for each in _UNITS if rate_bps >= each[0]), (1, "b/s"))
    return f"{rate_bps / scale:.12g}{unit}"


def _minutes(hours: str, minutes: str) -> int:
    return int(hours) * 60 + int(minutes)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
