"""Policies for tests: the paper's, and random ones, both through the reader of policy files."""

from typing import NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

from howdah import HowdahError
from howdah.control.policy import Policy
from howdah.control.policy.policyfile import loads

POLICY = """
name = "lsst"
guarantee = "1Gbit"
trust = "99%"
lease = "1500ms"
alone = "ordinary"

[class.replication]
fixed = "50Mbit"
[[class.replication.member]]
host = "base22"
to = "20.20.20.100/32"
ports = "5432"

[class.background]
minimum = "1%"
weight = 3
[[class.background.member]]
host = "base23"
to = "20.20.20.100"

[class.images]
priority = 1
active = "asked"
[class.images.others.background]
maximum = "1%"
[[class.images.member]]
host = "base20"
to = "20.20.20.100/32"
[[class.images.member]]
host = "base21"
to = "20.20.20.100/32"
"""

PRIORITIES = 3


class Tables(NamedTuple):
    """A random policy as its file: the keys on top, and tables in any order."""

    top: str
    tables: list[str]

    def policy(self) -> Policy:
        return loads("\n".join([self.top, *self.tables]), "p.toml")


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    """Two to five classes of one to four flows, with every term, some asked for and changing others."""
    names = [f"c{number}" for number in range(draw(st.integers(2, 5)))]
    found = []
    for name in names:
        asked = draw(st.booleans())
        own = draw(_terms(fixed=not asked)) + (['active = "asked"'] if asked else [])
        found.append("\n".join([f"[class.{name}]", *own]))
        for host in range(draw(st.integers(1, 4))):
            found.append(f'[[class.{name}.member]]\nhost = "{name}h{host}"\nto = "10.0.0.1"')
        if asked:
            changing = [other for other in names if other != name and not draw(st.booleans())]
            for other in changing:
                found.append("\n".join([f"[class.{name}.others.{other}]", *draw(_terms())]))
    # Odd rates, so that nothing comes out even.
    guarantee_bps = draw(st.integers(10**7, 10**11))
    return Tables(f'name = "random"\nguarantee = "{guarantee_bps}bit"', found)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Random ones that can be kept."""
    try:
        return draw(tables()).policy()
    except HowdahError as error:
        assert "all minimums" in str(error) or "above its maximum" in str(error)
        assume(False)
        raise


@st.composite
def _terms(draw: st.DrawFn, *, fixed: bool = True) -> list[str]:
    """Lines of a class or of a change; percentages with a digit behind the point."""
    lines = []
    if fixed and draw(st.integers(0, 3)) == 3:
        lines.append(f'fixed = "{_percent(draw(st.integers(5, 150)))}"')
    else:
        if draw(st.booleans()):
            lines.append(f'minimum = "{_percent(draw(st.integers(5, 200)))}"')
        if draw(st.booleans()):
            lines.append(f'maximum = "{_percent(draw(st.integers(100, 1000)))}"')
    if draw(st.booleans()):
        lines.append(f"weight = {draw(st.integers(1, 9))}")
    lines.append(f"priority = {draw(st.integers(0, PRIORITIES - 1))}")
    return lines


def _percent(thousandths: int) -> str:
    return f"{thousandths // 10}.{thousandths % 10}%"
