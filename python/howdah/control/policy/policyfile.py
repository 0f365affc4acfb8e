"""A policy as a person writes it, in TOML.

The paper's own experiment, for example::

    name = "lsst"
    guarantee = "1Gbit"            # what the network promises, on the wire
    trust = "99%"                  # how much of that to give away; default 100%
    lease = "2s"                   # a share above its minimum outlives its controller by at most this
    alone = "minimum"              # or "ordinary": congestion control of a host whose lease has run out

    [class.replication]
    fixed = "5%"                   # of what is given away; or a rate, as "50Mbit"

    [[class.replication.member]]
    host = "base22"                # as its agent is called
    to = "20.20.20.100/32"
    ports = "5432"                 # of either end; absent: all

    [class.background]
    minimum = "1%"                 # always; least and default: 8 kb/s a flow
    maximum = "95%"                # absent: none
    weight = 1                     # beside others of its priority: 1 to 10,000; default 1

    [[class.background.member]]
    host = "base23"
    to = "20.20.20.100/32"

    [class.images]
    priority = 1                   # higher first: 0 to 100; default 0
    active = "asked"               # more than its minimum only while asked for; default "always"
    idle = "lent"                  # others have its share while it has nothing to send; default "kept"

    [class.images.others.background]
    maximum = "1%"                 # meanwhile: fixed, minimum, maximum, weight or priority

    [[class.images.member]]
    host = "base20"
    to = "20.20.20.100/32"

    [[class.images.member]]
    host = "base21"
    to = "20.20.20.100/32"

References: D. M. Freemon, Optimizing throughput on guaranteed-bandwidth WAN networks for the Large Synoptic
Survey Telescope (LSST), 2013: the classes §IV.B, trust §V.I.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from howdah import HowdahError, tomlfile
from howdah._native import format_rate
from howdah.bounds import HELD_LEAST_BPS
from howdah.control.policy import SEE, Alone, Flow, Policy, TrafficClass, members, terms
from howdah.control.policy.members import MemberText
from howdah.control.policy.terms import Terms, TermsText
from howdah.tomlfile import Duration, Rate, Ratio, Tables

GUARANTEE_BPS_MAX = 1_000_000_000_000
"""The most that ``hd_hold`` can hold; one flow may have all."""
LEASE_S_MIN, LEASE_S_MAX = 0.2, 600.0
"""The limits of a lease. Below, a few late messages end one; above, nobody would wait for the end."""
OTHERS_MAX = 8
"""Classes that may change what others get: every mode is checked, and these make 256."""


class _ClassTable(TermsText, forbid_unknown_fields=True):
    active: Literal["always", "asked"] = "always"
    idle: Literal["kept", "lent"] = "kept"
    others: Tables[TermsText] = msgspec.field(default_factory=Tables)
    member: list[MemberText] = msgspec.field(default_factory=list)


class _PolicyTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    guarantee: Rate
    classes: Tables[_ClassTable] = msgspec.field(name="class")
    trust: Ratio | None = None
    lease: Duration = Duration(2_000_000_000)
    alone: Alone = "minimum"


_Texts = Mapping[str, _ClassTable]


def load(file: Path) -> Policy:
    """The policy in ``file``. Raises HowdahError saying the file, the table, the key and what to do."""
    return loads(tomlfile.read(file, SEE), str(file))


def loads(text: str, where: str) -> Policy:
    """A policy from TOML, as ``load``."""
    given = tomlfile.loads(text, where, _PolicyTable, SEE)
    guarantee_bps = _guarantee_bps(given.guarantee, f"{where}: guarantee")
    trusted_bps = _trusted_bps(given.trust, guarantee_bps, f"{where}: trust")
    texts = dict(sorted(given.classes.items()))
    _check_classes(texts, where)
    policy = Policy(
        name=tomlfile.name(given.name, f"{where}: name"),
        guarantee_bps=guarantee_bps,
        trusted_bps=trusted_bps,
        lease_s=given.lease.seconds_within(LEASE_S_MIN, LEASE_S_MAX, f"{where}: lease"),
        alone=given.alone,
        classes=tuple(_class(name, texts, trusted_bps, where) for name in texts),
    )
    placed = [
        (f"class.{each.name}: member {number}", flow.member)
        for each in policy.classes
        for number, flow in enumerate(each.flows, start=1)
    ]
    members.check_apart(placed, where)
    return policy.checked(where)


def _guarantee_bps(rate: Rate, where: str) -> int:
    if not HELD_LEAST_BPS <= rate <= GUARANTEE_BPS_MAX:
        least, most = format_rate(HELD_LEAST_BPS), format_rate(GUARANTEE_BPS_MAX)
        raise HowdahError(f"{where} {rate} is not within {least} to {most}")
    return int(rate)


def _trusted_bps(trust: Ratio | None, guarantee_bps: int, where: str) -> int:
    trusted_bps = guarantee_bps if trust is None else int(terms.exact(trust) * guarantee_bps)
    if trusted_bps < HELD_LEAST_BPS:
        least = format_rate(HELD_LEAST_BPS)
        raise HowdahError(f'{where} {trust} leaves less than {least} to give away; give for example "99%"')
    return trusted_bps


def _check_classes(texts: _Texts, where: str) -> None:
    """Raises HowdahError naming a class whose name will not do or that has no member, or too many others."""
    for name, text in texts.items():
        members.name(name, f"{where}: class")
        if not text.member:
            raise HowdahError(f"{where}: class.{name}: no member; add a table [[class.{name}.member]]")
    if not texts:
        raise HowdahError(f"{where}: no class; add a table [class.NAME]; {SEE}")
    changing = [name for name, text in texts.items() if text.others]
    if len(changing) > OTHERS_MAX:
        raise HowdahError(
            f"{where}: {len(changing)} classes have a table others; at most {OTHERS_MAX} may have one: "
            f"{', '.join(changing)}"
        )


def _class(name: str, texts: _Texts, trusted_bps: int, where: str) -> TrafficClass:
    text, here = texts[name], f"{where}: class.{name}"
    asked = text.active == "asked"
    if asked and text.fixed is not None:
        raise HowdahError(
            f'{here}: fixed applies always, and active = "asked" does not; give a minimum instead'
        )
    if text.idle == "lent" and text.fixed is not None:
        raise HowdahError(f'{here}: fixed applies always, and idle = "lent" does not; give a minimum instead')
    if text.others and not asked:
        raise HowdahError(
            f'{here}: the table others applies only while the class is asked for; add active = "asked"'
        )
    flows = tuple(_flows(name, text.member, here))
    least = Terms(minimum_bps=len(flows) * HELD_LEAST_BPS)
    others = {}
    for other, table in sorted(text.others.items()):
        if other == name or other not in texts:
            known = ", ".join(each for each in texts if each != name) or "none"
            raise HowdahError(f"{here}.others.{other}: this is not one of the other classes: {known}")
        others[other] = terms.read(table, len(texts[other].member), trusted_bps, f"{here}.others.{other}")
    return TrafficClass(
        name=name,
        terms=least.changed([terms.read(text, len(flows), trusted_bps, here)]),
        flows=flows,
        asked=asked,
        lent=text.idle == "lent",
        others=others,
    )


def _flows(name: str, texts: list[MemberText], here: str) -> Iterator[Flow]:
    read = [members.read(text, f"{here}: member {number}") for number, text in enumerate(texts, start=1)]
    hosts = [member.agent for member in read]
    for index, member in enumerate(read, start=1):
        number = f"/{hosts[:index].count(member.agent)}" if hosts.count(member.agent) > 1 else ""
        yield Flow(f"{name}/{member.agent}{number}", member)
