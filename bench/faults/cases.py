"""The cases of ``make bench-faults``, by seed: what is copied, what goes wrong, and when."""

import random
from typing import Literal, NamedTuple, get_args

Fault = Literal[
    "near killed",
    "near interrupted",
    "far killed",
    "far terminated",
    "both killed",
    "login killed",
    "server of the session killed",
    "server restarted",
    "near stopped for a while",
    "far stopped for a while",
    "connections reset",
    "bit flipped on the wire",
    "link down",
    "round trip of seconds",
    "heavy loss",
    "disk full",
    "file system crashes",
    "source grows",
    "source overwritten in place",
    "source shortened",
    "source removed",
    "source replaced",
    "target removed",
    "disk flips a bit before it is read again",
    "disk flips a bit before a check",
    "a flush fails",
    "flushes fail for a while",
    "a write fails",
    "writes fail for a while",
    "a close fails",
    "closes fail for a while",
    "a rename or link fails",
    "renames and links fail for a while",
    "a new folder fails",
    "new folders fail for a while",
    "an attribute fails",
    "attributes fail for a while",
    "a read of the source fails",
    "reads of the source fail for a while",
]
"""What goes wrong. A login is the ssh process of the copy, a server the sshd of the far host."""
Moment = Literal[
    "start",
    "first quarter",
    "half",
    "last tenth",
    "end",
    "written",
    "other names",
    "attributes of folders",
    "removal",
]
"""When: by time after ssh was started, by the bytes that have crossed the link, when all is flushed, or in
the middle of a step after the last byte: files get their other names, folders get what is kept of them, and
what the source has not is removed."""
Shape = Literal["one file", "tree", "tree over an older one", "kept", "mirror", "kept mirror"]
"""What is copied. All of a kept one is kept (``-aHAXS``); of a mirror what the source has not is removed
(``--delete``). The last three go over an older tree."""

Failure = Literal["flushes", "writes", "closes", "names", "folders", "attributes", "reads"]
"""What a disk can be told to fail with EIO, in the words of ``crates/failing``."""


class Failing(NamedTuple):
    """What a disk fails: the next time alone, or whenever it comes in a while."""

    what: Failure
    once: bool


LINK_FAULTS: tuple[Fault, ...] = ("link down", "round trip of seconds", "heavy loss")
SOURCE_FAULTS: tuple[Fault, ...] = (
    "source grows",
    "source overwritten in place",
    "source shortened",
    "source removed",
    "source replaced",
)
LIES: tuple[Fault, ...] = ("disk flips a bit before it is read again", "disk flips a bit before a check")
"""Faults of a disk that loses what it has confirmed: they come when all is written."""
DISK_FAULTS: tuple[Fault, ...] = ("file system crashes", *LIES)
"""Faults for which the target lies on a disk of its own, and not in memory."""
FAILING: dict[Fault, Failing] = {
    "a flush fails": Failing("flushes", once=True),
    "flushes fail for a while": Failing("flushes", once=False),
    "a write fails": Failing("writes", once=True),
    "writes fail for a while": Failing("writes", once=False),
    "a close fails": Failing("closes", once=True),
    "closes fail for a while": Failing("closes", once=False),
    "a rename or link fails": Failing("names", once=True),
    "renames and links fail for a while": Failing("names", once=False),
    "a new folder fails": Failing("folders", once=True),
    "new folders fail for a while": Failing("folders", once=False),
    "an attribute fails": Failing("attributes", once=True),
    "attributes fail for a while": Failing("attributes", once=False),
    "a read of the source fails": Failing("reads", once=True),
    "reads of the source fail for a while": Failing("reads", once=False),
}
"""Faults of a disk that fails with EIO: reads of the source's, all others of the target's."""
LATE_FAULTS: tuple[Fault, ...] = (
    "near killed",
    "near interrupted",
    "far killed",
    "far terminated",
    "both killed",
    "login killed",
    "server of the session killed",
    "server restarted",
    "near stopped for a while",
    "far stopped for a while",
    "connections reset",
    "file system crashes",
    "target removed",
)
"""Faults that can come when no byte is on its way any more."""
FAULTS: tuple[Fault, ...] = get_args(Fault)
MOMENTS: tuple[Moment, ...] = ("start", "first quarter", "half", "last tenth", "end")
"""The moments of a copy that runs."""
LATE_MOMENTS: dict[Moment, tuple[Shape, ...]] = {
    "other names": ("kept", "kept mirror"),
    "attributes of folders": ("kept", "kept mirror"),
    "removal": ("mirror", "kept mirror"),
}
"""The moments after its last byte, and the shapes that have them."""
LATE_FAILURES: dict[Moment, tuple[Failure, ...]] = {
    "other names": ("flushes", "names", "attributes"),
    "attributes of folders": ("flushes", "attributes"),
    "removal": ("flushes", "attributes"),
}
"""What a disk can fail after the last byte, as a copy does nothing else by then."""
KINDS: tuple[tuple[Fault, Moment], ...] = (
    *((fault, moment) for moment in MOMENTS for fault in FAULTS if fault not in (*LIES, *FAILING)),
    *((fault, "written") for fault in LIES),
    *((fault, moment) for moment in LATE_MOMENTS for fault in LATE_FAULTS),
    *((fault, moment) for moment in MOMENTS for fault in FAILING),
    *(
        (fault, moment)
        for moment, failures in LATE_FAILURES.items()
        for fault, failing in FAILING.items()
        if failing.what in failures
    ),
)
"""The kinds of point in a transfer: a fault and a moment."""
SHAPES: tuple[Shape, ...] = get_args(Shape)
_DRAWN_SHAPES = (*SHAPES, "one file", "tree", "tree over an older one")
"""The cheap ones come twice as often."""
TREES: tuple[Shape, ...] = tuple(shape for shape in SHAPES if shape != "one file")
"""The shapes that have folders."""
KEPT: tuple[Shape, ...] = ("kept", "kept mirror")
MIRRORS: tuple[Shape, ...] = ("mirror", "kept mirror")
OVER_OLDER: tuple[Shape, ...] = ("tree over an older one", *KEPT, "mirror")
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
    """How long an outage, a stop, a round trip of seconds, a failing disk or the lack of a server lasts."""
    place: float
    """The place of a bit that is flipped on the wire, as a part of what it is searched in; for a step after
    the last byte, the part of it that is done when the fault comes."""

    @property
    def kind(self) -> tuple[Fault, Moment]:
        """The kind of point in a transfer: the fault and the moment."""
        return self.fault, self.moment


def case(seed: int) -> Case:
    """The case of a seed: all kinds in turn, the rest drawn."""
    drawn = random.Random(seed)  # noqa: S311, no secret
    fault, moment = KINDS[seed % len(KINDS)]
    makes_folders = fault in FAILING and FAILING[fault].what == "folders"
    return Case(
        seed=seed,
        fault=fault,
        moment=moment,
        shape=drawn.choice(LATE_MOMENTS.get(moment, TREES if makes_folders else _DRAWN_SHAPES)),
        # Whatever reads again at the near end cannot be held up there until a bit is flipped.
        push=drawn.random() < 0.5 or fault == "disk flips a bit before it is read again",
        encrypt=drawn.random() < 0.8,
        # After the last byte a copy does not run for long.
        after_s=drawn.uniform(0.0, 0.03 if moment == "end" else 0.3),
        lasts_s=drawn.uniform(0.5, 4.0),
        place=drawn.random(),
    )
