"""A statement of the papers as a rule over what was measured: it agrees, it differs, or nobody can tell.

Late runs do not count, and a rule that lacks its cells says which. A rule never looks at who asks: the
page and the bench judge by the same ones.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from howdah.report.cells import Cell
from howdah.report.material import Material

StatementVerdict = Literal["agrees", "differs", "cannot tell"]

_STANDARD_ERRORS = 2.0

HPDC, NOTE = "HPDC 2017", "HPSC 2015"
"""The two papers: Rao et al., TCP Throughput Profiles Using Measurements Over Dedicated Connections, and
Rao et al., Sustained Wide-Area TCP Memory Transfers Over Dedicated Connections."""


class Finding(NamedTuple):
    """The finding of a rule."""

    verdict: StatementVerdict
    numbers: str
    """The measured numbers in words; for ``cannot tell``, what is missing."""
    where: Sequence[Cell] = ()
    """The cells that speak against the statement, the plainest first."""


Rule = Callable[[Material], Finding]


class Statement(NamedTuple):
    """A statement of a paper and how it is judged."""

    key: str
    says: str
    source: str
    rule: str
    """The rule by which it agrees, in words."""
    judge: Rule


class JudgedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement and what became of it, as the page, the bench and ``--json`` show it."""

    key: str
    says: str
    source: str
    rule: str
    verdict: StatementVerdict
    numbers: str
    why: list[str] = []
    """The cells where it differs and what limits them."""


def statement(key: str, says: str, source: str, rule: str) -> Callable[[Rule], Statement]:
    """Makes the statement of the rule that it stands above; the arguments are ``Statement``'s fields."""
    return lambda judge: Statement(key, says, source, rule, judge)


def missing(what: str) -> Finding:
    """A finding that nothing can be said; ``what`` was needed."""
    return Finding("cannot tell", f"needs {what}")


def decided(agrees: bool, numbers: str, where: Sequence[Cell] = ()) -> Finding:
    """A finding that is one or the other."""
    return Finding("agrees" if agrees else "differs", numbers, () if agrees else where)


def compared(
    near: Sequence[float], far: Sequence[float], *, far_is_larger: bool, numbers: str, where: Sequence[Cell]
) -> Finding:
    """Agrees or differs where the means are apart by two standard errors of their difference."""
    if min(len(near), len(far)) < 2:
        return missing(f"two runs on both sides; {numbers}")
    difference = float(np.mean(far) - np.mean(near))
    error = math.sqrt(np.var(near, ddof=1) / len(near) + np.var(far, ddof=1) / len(far))
    if abs(difference) <= _STANDARD_ERRORS * error:
        return missing(f"more runs, the difference is within {_STANDARD_ERRORS:g} standard errors: {numbers}")
    return decided((difference > 0) == far_is_larger, numbers, where)
