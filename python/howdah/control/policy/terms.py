"""Terms: the minimum, maximum, weight and priority of a class, as written, as a change, and in force.

All are of the class as a whole; its flows have equal parts of them. Rates are on the wire, in b/s.

All that there is to a term is in this file: a field of ``TermsText`` (how it is written, checked and
described), one of ``Change`` and of ``Terms``, its lines in ``read`` and ``check``, and its part in ``claim``
by which shares are allocated. The policy file, orders, the HTTP API and its description take it from here.
CONTRIBUTING.md has the steps.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, NamedTuple, get_type_hints

import msgspec
from msgspec import Meta

from howdah import HowdahError, tomlfile
from howdah._native import format_rate
from howdah.bounds import HELD_LEAST_BPS, PRIORITY, WEIGHT
from howdah.tomlfile import Rate, Ratio


class TermsText(msgspec.Struct, forbid_unknown_fields=True):
    """Terms as a person writes them; a rate is a percentage of what is given away, or has its unit."""

    fixed: Annotated[str | None, Meta(description="its minimum and maximum in one")] = None
    minimum: Annotated[str | None, Meta(description="the rate that it always has")] = None
    maximum: Annotated[str | None, Meta(description="the rate that it gets at most")] = None
    weight: Annotated[
        Annotated[int, Meta(ge=WEIGHT.least, le=WEIGHT.most)] | None,
        Meta(description=f"its part beside classes of the same priority, {WEIGHT}"),
    ] = None
    priority: Annotated[
        Annotated[int, Meta(ge=PRIORITY.least, le=PRIORITY.most)] | None,
        Meta(description=f"higher ones are filled first, {PRIORITY}"),
    ] = None


TERMS: dict[str, str] = {
    name: hint.__metadata__[0].description
    for name, hint in get_type_hints(TermsText, include_extras=True).items()
}
"""Each term that can be written, with its meaning: what messages, options and descriptions are made from."""


class Claim(NamedTuple):
    """The range of each of some equal flows; in whole numbers, so that sums are exact."""

    flows: list[str]
    minimum_bps: int
    maximum_bps: int
    weight: int
    priority: int


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
    """The most that it gets; null: there is no limit."""
    weight: int = 1
    priority: int = 0

    def changed(self, changes: Iterable[Change]) -> "Terms":
        """The terms with all of these in force: of several values the least, whatever their order."""
        given: dict[str, list[int]] = {}
        for change in changes:
            for term in Change.__struct_fields__:
                if (number := getattr(change, term)) is not None:
                    given.setdefault(term, []).append(number)
        least = {term: min(numbers) for term, numbers in given.items()}
        return msgspec.structs.replace(self, **least) if least else self

    def check(self, where: str, when: str) -> None:
        """Raises HowdahError for terms that cannot be kept together; ``when`` is added to the message."""
        if self.maximum_bps is not None and self.minimum_bps > self.maximum_bps:
            raise HowdahError(
                f"{where}: its minimum{when}, {format_rate(self.minimum_bps)}, is above its maximum, "
                f"{format_rate(self.maximum_bps)}; give a minimum there too"
            )

    def claim(self, flows: list[str], trusted_bps: int, unit: int) -> Claim:
        """The claim of these flows, which are all of a class; ``unit`` is a multiple of their number."""
        count = len(flows)
        maximum_bps = trusted_bps if self.maximum_bps is None else self.maximum_bps // count
        return Claim(
            flows, self.minimum_bps // count, maximum_bps, self.weight * unit // count, self.priority
        )


def read(text: TermsText, flows: int, trusted_bps: int, where: str) -> Change:
    """The terms of a class of ``flows`` flows, of ``trusted_bps`` in all.

    Raises HowdahError for terms that contradict each other, a rate above ``trusted_bps``, or one that leaves
    a flow less than HELD_LEAST_BPS.
    """
    if text.fixed is not None and (text.minimum is not None or text.maximum is not None):
        raise HowdahError(f"{where}: fixed is minimum and maximum in one; give fixed, or give these two")

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


def exact(ratio: Ratio) -> Fraction:
    """The decimal that was written, to 12 digits; a float is only near it."""
    return Fraction(ratio).limit_denominator(10**12)


def _rate_bps(text: str, flows: int, trusted_bps: int, where: str) -> int:
    if "%" in text:
        rate_bps = int(exact(tomlfile.value(Ratio, text, where)) * trusted_bps)
    else:
        rate_bps = int(tomlfile.value(Rate, text, where))
    if rate_bps > trusted_bps:
        raise HowdahError(f"{where} {text}: there is only {format_rate(trusted_bps)} to give away")
    if rate_bps // flows < HELD_LEAST_BPS:
        raise HowdahError(
            f"{where} {text} is {format_rate(rate_bps // flows)} for each flow of the class; "
            f"give at least {format_rate(flows * HELD_LEAST_BPS)}"
        )
    return rate_bps
