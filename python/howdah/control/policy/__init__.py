"""A policy: what a path guarantees, and what each class of traffic is to have of it.

A class that is *asked for* may change the terms of others meanwhile. Each set of such classes is a *mode*;
every mode is checked before a policy is used.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Literal

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_rate
from howdah.control.policy import terms
from howdah.control.policy.members import Member
from howdah.control.policy.terms import Change, Terms, TermsText

SEE = "see: docs/control.md"

Alone = Literal["minimum", "ordinary"]


class Flow(msgspec.Struct, frozen=True):
    """One member of a class, which has a share."""

    id: str
    """CLASS/AGENT, or CLASS/AGENT/N for the Nth member of the class on a host that has several."""
    member: Member


class TrafficClass(msgspec.Struct, frozen=True):
    """A purpose of traffic, with its terms and its flows."""

    name: str
    terms: Terms
    flows: tuple[Flow, ...]
    asked: bool = False
    """Whether it has more than its minimum only while somebody asks for it."""
    lent: bool = False
    """Whether others have its share while it has nothing to send."""
    others: dict[str, Change] = {}
    """The changes to other classes while it is asked for, by class."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A whole policy. ``policyfile`` reads one from TOML; ``checked`` refuses one that cannot be kept."""

    name: str
    guarantee_bps: int
    trusted_bps: int
    """The part of the guarantee that is given away."""
    lease_s: float
    alone: Alone
    """The behaviour of a host whose lease has run out."""
    classes: tuple[TrafficClass, ...]
    """The classes, sorted by name."""

    @property
    def flows(self) -> list[Flow]:
        """The flows of all classes."""
        return [flow for each in self.classes for flow in each.flows]

    @property
    def lent(self) -> frozenset[str]:
        """The flows whose shares others have while they have nothing to send."""
        return frozenset(flow.id for each in self.classes if each.lent for flow in each.flows)

    @property
    def digest(self) -> str:
        """Differs where the policy says something else; however its file is written."""
        return sha256(msgspec.json.encode(self, order="sorted")).hexdigest()

    def terms(self, asked: Collection[str]) -> list[Terms]:
        """The terms of each class while the classes ``asked`` are asked for."""
        asking = [each.others for each in self.classes if each.name in asked]
        return [
            each.terms.changed(others[each.name] for others in asking if each.name in others)
            for each in self.classes
        ]

    def safe_bps(self) -> dict[str, int]:
        """The share that each flow falls back to: its minimum in the mode where that is least."""
        least_bps = {each.name: each.terms.minimum_bps for each in self.classes}
        for each in self.classes:
            for name, change in each.others.items():
                if change.minimum_bps is not None:
                    least_bps[name] = min(least_bps[name], change.minimum_bps)
        return {
            flow.id: least_bps[each.name] // len(each.flows) for each in self.classes for flow in each.flows
        }

    def check_requestable(self, name: str) -> None:
        """Raises HowdahError unless ``name`` is a class that is asked for."""
        if not self._find(name).asked:
            names = ", ".join(each.name for each in self.classes if each.asked) or "none"
            raise HowdahError(
                f"class {name} of {self.name} is always active; these can be asked for: {names}"
            )

    def check_member(self, name: str, host: str) -> None:
        """Raises HowdahError unless the class has a flow of that host."""
        hosts = sorted({flow.member.agent for flow in self._find(name).flows})
        if host not in hosts:
            raise HowdahError(f"class {name} of {self.name} has no host {host}; it has {', '.join(hosts)}")

    def changed(self, given: Mapping[str, Mapping[str, str | int]]) -> "Policy":
        """The policy with other terms for some classes, by class and key, written as in the file.

        Raises HowdahError for terms that are wrong by themselves, and those that cannot be kept together.
        """
        classes = {each.name: each for each in self.classes}
        for name, table in given.items():
            each, where = self._find(name), f"{self.name}: class.{name}"
            text = tomlfile.convert(dict(table), TermsText, where, SEE)
            change = terms.read(text, len(each.flows), self.trusted_bps, where)
            classes[name] = msgspec.structs.replace(each, terms=each.terms.changed([change]))
        return msgspec.structs.replace(self, classes=tuple(classes.values())).checked(self.name)

    def checked(self, where: str) -> "Policy":
        """The policy itself. Raises HowdahError if its terms cannot be kept in some mode, or are too much."""
        for mode in self._modes():
            while_asked = f" while {' and '.join(mode)} are asked for" if mode else ""
            in_force = self.terms(mode)
            for each, its in zip(self.classes, in_force, strict=True):
                its.check(f"{where}: class.{each.name}", while_asked)
            self._check_sum(in_force, where, while_asked)
        return self

    def _check_sum(self, in_force: Sequence[Terms], where: str, while_asked: str) -> None:
        minimums = {each.name: its.minimum_bps for each, its in zip(self.classes, in_force, strict=True)}
        above_bps = sum(minimums.values()) - self.trusted_bps
        if above_bps > 0:
            most = max(minimums, key=lambda name: minimums[name])
            raise HowdahError(
                f"{where}: all minimums{while_asked} are together {format_rate(above_bps)} more than the "
                f"{format_rate(self.trusted_bps)} there is to give away; lower some: the largest is that of "
                f"class.{most}, {format_rate(minimums[most])}"
            )

    def _find(self, name: str) -> TrafficClass:
        for each in self.classes:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.classes)
        raise HowdahError(f"{self.name} has no class {name}; it has {names}")

    def _modes(self) -> Iterator[tuple[str, ...]]:
        names = [each.name for each in self.classes if each.others]
        return itertools.chain.from_iterable(
            itertools.combinations(names, size) for size in range(len(names) + 1)
        )
