"""Who else is on a path, as a choice needs it, and how sure that is."""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["nobody", "loss", "bbr", "udp"]
"""What matters most: who does not yield, else who runs BBR, else who yields to loss."""

NOBODY = "nobody"
_STREAMS = re.compile(r"(?:(\d{1,4}) +)?([a-z][a-z0-9_-]*)")


class Background(NamedTuple):
    """Streams of others."""

    loss: int = 0
    """By congestion controls that yield to loss: CUBIC, Reno."""
    bbr: int = 0
    udp: int = 0
    """Senders that do not yield."""

    @property
    def kind(self) -> Kind:
        """What it is taken for."""
        if self.udp:
            return "udp"
        return "bbr" if self.bbr else "loss" if self.loss else "nobody"

    @property
    def streams(self) -> int:
        """That yield, and so have a share that can be fair."""
        return self.loss + self.bbr


def background(label: str) -> Background:
    """Of a class, as ``1 bbr, 2 cubic``. Raises ValueError for what is no class."""
    found = {"loss": 0, "bbr": 0, "udp": 0}
    for part in [] if label == NOBODY else label.split(","):
        match = _STREAMS.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{label[:40]!r} says not who is there")
        name = match[2].removeprefix("hd_")
        kind = name if name in {"bbr", "udp"} else "udp" if name == "rbudp" else "loss"
        found[kind] += int(match[1] or 1)
    return Background(**found)


class Belief(NamedTuple):
    """How likely each class is; what is left to one is something never seen, or not known."""

    classes: Mapping[str, float]

    @property
    def known(self) -> float:
        """Probability that it is any class at all."""
        return min(1.0, sum(self.classes.values()))

    @property
    def likeliest(self) -> tuple[str, float]:
        """A class and its probability; 0 where there is none."""
        return max(self.classes.items(), key=lambda each: each[1], default=(NOBODY, 0.0))

    def kinds(self) -> dict[Kind, float]:
        """Probability of each kind."""
        found: dict[Kind, float] = {}
        for label, probability in self.classes.items():
            kind = background(label).kind
            found[kind] = found.get(kind, 0.0) + probability
        return found

    def without(self, label: str) -> "Belief":
        """The same where it cannot be this class; not known where nothing else was likely."""
        left = {each: probability for each, probability in self.classes.items() if each != label}
        whole = sum(left.values())
        return Belief(
            {each: self.known * probability / whole for each, probability in left.items()} if whole else {}
        )

    def mixed(self, verdict: "Belief", weight: float) -> "Belief":
        """This one with a new verdict, which counts ``weight`` of one."""
        labels = {**self.classes, **verdict.classes}
        return Belief(
            {
                label: (1 - weight) * self.classes.get(label, 0.0) + weight * verdict.classes.get(label, 0.0)
                for label in labels
            }
        )


NOT_KNOWN = Belief({})
