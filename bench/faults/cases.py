"""The cases of ``make bench-faults``, by seed: what is copied, what goes wrong, and when."""

import random
from typing import Literal, NamedTuple, get_args

Fault = Literal[
    "near killed",
    "near interrupted",
    "far killed",
    "far terminated",
    "login killed",
    "server restarted",
    "near stopped for a while",
    "far stopped for a while",
    "connections reset",
    "link down",
    "round trip of seconds",
    "heavy loss",
    "disk full",
    "source grows",
    "source overwritten in place",
    "source shortened",
    "source removed",
    "source replaced",
    "target removed",
]
"""What goes wrong. A login is the ssh process of the copy, a server the sshd of the far host."""
Moment = Literal["start", "first quarter", "half", "last tenth", "end"]
"""When: by time after the command, or by the bytes that have crossed the link."""
Shape = Literal["one file", "tree", "tree over an older one"]

LINK_FAULTS: tuple[Fault, ...] = ("link down", "round trip of seconds", "heavy loss")
SOURCE_FAULTS: tuple[Fault, ...] = (
    "source grows",
    "source overwritten in place",
    "source shortened",
    "source removed",
    "source replaced",
)
FAULTS: tuple[Fault, ...] = get_args(Fault)
MOMENTS: tuple[Moment, ...] = get_args(Moment)
SHAPES: tuple[Shape, ...] = get_args(Shape)
PARTS: dict[Moment, float] = {"first quarter": 0.25, "half": 0.5, "last tenth": 0.9, "end": 1.0}
"""The part of the bytes after which a moment comes."""


class Case(NamedTuple):
    """One copy and what goes wrong with it."""

    seed: int
    fault: Fault
    moment: Moment
    shape: Shape
    push: bool
    encrypt: bool
    after_s: float
    """Waited after the moment, so that no two cases fail at the same instruction."""
    lasts_s: float
    """How long an outage, a stop or a round trip of seconds lasts."""

    @property
    def kind(self) -> tuple[str, str]:
        """The kind of point in a transfer: the fault and the moment."""
        return self.fault, self.moment


def case(seed: int) -> Case:
    """The case of a seed: all kinds in turn, the rest drawn."""
    drawn = random.Random(seed)  # noqa: S311, no secret
    return Case(
        seed=seed,
        fault=FAULTS[seed % len(FAULTS)],
        moment=MOMENTS[seed // len(FAULTS) % len(MOMENTS)],
        shape=drawn.choice(SHAPES),
        push=drawn.random() < 0.5,
        encrypt=drawn.random() < 0.8,
        after_s=drawn.uniform(0.0, 0.3),
        lasts_s=drawn.uniform(0.5, 4.0),
    )
