"""Terms: the minimum, maximum, weight and priority of a class, as written, as a change, and in force.

All are of the class as a whole; its flows have equal parts of them. Rates are on the wire, in b/s.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_rate, parse_fraction, parse_rate

FLOW_LEAST_BPS = 8_000
"""The least rate that ``hd_hold`` can hold."""
WEIGHT_MAX = 10_000
"""As of the weights of cgroups; only their ratios count."""
PRIORITY_MAX = 100

Weight = Annotated[int, msgspec.Meta(ge=1, le=WEIGHT_MAX)]
Priority = Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)]


class TermsText(msgspec.Struct, forbid_unknown_fields=True):
    """Terms as a person writes them; a rate is a percentage of what is given away, or has its unit."""

    fixed: str | None = None
    minimum: str | None = None
    maximum: str | None = None
    weight: Weight | None = None
    priority: Priority | None = None


class Change(msgspec.Struct, frozen=True):
    """Terms, each null where it stays as it is."""

    minimum_bps: int | None = None
    maximum_bps: int | None = None
    weight: int | None = None
    priority: int | None = None


class Terms(msgspec.Struct, frozen=True):
    """The terms of a class in force."""

    minimum_bps: int
    maximum_bps: int | None = None
    """Null: none."""
    weight: int = 1
    priority: int = 0

    def changed(self, changes: Iterable[Change]) -> "Terms":
        """With all of these in force: of several values of a term the least, whatever their order."""
        given: dict[str, list[int]] = {}
        for change in changes:
            for term in Change.__struct_fields__:
                if (number := getattr(change, term)) is not None:
                    given.setdefault(term, []).append(number)
        least = {term: min(numbers) for term, numbers in given.items()}
        return msgspec.structs.replace(self, **least) if least else self


def read(text: TermsText, flows: int, trusted_bps: int, where: str) -> Change:
    """The terms of a class of ``flows`` flows, of ``trusted_bps`` in all.

    Raises HowdahError for terms that contradict each other, a rate above ``trusted_bps``, or one that leaves
    a flow less than FLOW_LEAST_BPS.
    """
    if text.fixed is not None and (text.minimum is not None or text.maximum is not None):
        raise HowdahError(f"{where}: fixed is minimum and maximum in one; give fixed, or give those")

    def rate_bps(term: str) -> int | None:
        written: str | None = getattr(text, term)
        return None if written is None else _rate_bps(written, flows, trusted_bps, f"{where}: {term}")

    fixed_bps = rate_bps("fixed")
    return Change(
        minimum_bps=rate_bps("minimum") if fixed_bps is None else fixed_bps,
        maximum_bps=rate_bps("maximum") if fixed_bps is None else fixed_bps,
        weight=text.weight,
        priority=text.priority,
    )


def fraction(text: str, where: str) -> Fraction:
    """The decimal written as ``5%`` or ``0.05``, to 12 digits: a float is near it. Raises HowdahError."""
    return Fraction(tomlfile.value(parse_fraction, text, where)).limit_denominator(10**12)


def _rate_bps(text: str, flows: int, trusted_bps: int, where: str) -> int:
    if "%" in text:
        rate_bps = int(fraction(text, where) * trusted_bps)
    else:
        rate_bps = tomlfile.value(parse_rate, text, where)
    if rate_bps > trusted_bps:
        raise HowdahError(f"{where} {text}: only {format_rate(trusted_bps)} are there to give away")
    if rate_bps // flows < FLOW_LEAST_BPS:
        raise HowdahError(
            f"{where} {text} is {format_rate(rate_bps // flows)} for each flow of the class; "
            f"give at least {format_rate(flows * FLOW_LEAST_BPS)}"
        )
    return rate_bps
