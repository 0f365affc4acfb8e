"""Backgrounds of a path, the part of it that a choice gets beside each, and what that is worth.

Streams that yield to loss share equally, and so do BBR's. Between both, BBR takes what its own window lets
it, however many the others are: Ware, Mukerjee, Seshan, Sherry, *Modeling BBR's interactions with loss-based
congestion control* (IMC 2019): p = 1/2 - 1/(2X) - 4N/q is left to all others together, with a queue of X
bandwidth × delay, or q packets, and N streams of BBR. Deviations: 4N/q is left out, for q is not known and it
is less than a hundredth where a stream has 400 packets; and p is never less than ``left_beside_bbr``.

Shares are worth our own part against fairness to others, with one knob:

    value = (1 - fairness) × our share + fairness × Jain's index × (1 - harm)

Jain's index is over this transfer, however many streams it has, and each stream of others (Jain, Chiu, Hawe,
DEC-TR-301, 1984). Harm is what others lose beyond what they would lose to one more that takes an equal share
(after Ware, Mukerjee, Seshan, Sherry, *Beyond Jain's fairness index*, HotNets 2019), of whoever loses most.

``fairness`` is the knob: 0, nothing but our own rate; 1, nothing but fairness. From 0.4 on an equal share is
best beside one stream that yields; up to 0.3 the whole path is.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from howdah.steering.tunables import TUNED
from howdah.values.listened import NOBODY

Kind = Literal["nobody", "loss", "bbr", "udp"]
"""The most important kind in a background: who does not yield, else who runs BBR, else who yields to loss."""

_STREAMS = re.compile(r"(?:(\d{1,4}) +)?([a-z][a-z0-9_-]*)")


class Background(NamedTuple):
    """The streams of others on a path."""

    loss: int = 0
    """The streams by controls that yield to loss: CUBIC, Reno."""
    bbr: int = 0
    udp: int = 0
    """The number of senders that do not yield."""

    @property
    def kind(self) -> Kind:
        """The kind that the background is taken for."""
        if self.udp:
            return "udp"
        return "bbr" if self.bbr else "loss" if self.loss else "nobody"

    @property
    def streams(self) -> int:
        """The streams that yield, and so have a share that can be fair."""
        return self.loss + self.bbr


def background(label: str) -> Background:
    """The background of a class, as ``1 bbr, 2 cubic``. Raises ValueError for what is no class."""
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
    """The probability of each class; what is left to one is something never seen, or not known."""

    classes: Mapping[str, float]

    @property
    def known(self) -> float:
        """The probability that it is any known class."""
        return min(1.0, sum(self.classes.values()))

    @property
    def likeliest(self) -> tuple[str, float]:
        """A class and its probability; 0 where there is none."""
        return max(self.classes.items(), key=lambda each: each[1], default=(NOBODY, 0.0))

    def kinds(self) -> dict[Kind, float]:
        """The probability of each kind."""
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


class Choice(NamedTuple):
    """A way to send."""

    congestion_control: str
    streams: int
    pacing_bps: int | None = None
    """The bound of each stream; None: no bound."""

    @property
    def is_bbr(self) -> bool:
        """Whether it sends by BBR's rules."""
        return self.congestion_control.removeprefix("hd_").startswith("bbr")

    def is_paced(self, default: "Choice") -> bool:
        """Whether streams that yield to loss have another bound than by ``default``."""
        return self.pacing_bps not in {None, default.pacing_bps} and not self.is_bbr

    def paced(self, each_bps: float, most_bps: int | None) -> "Choice":
        """The choice with that bound of each stream, or ``most_bps`` if that is less."""
        rounded = round(each_bps)
        return self._replace(pacing_bps=min(rounded, most_bps or rounded))


class Shares(NamedTuple):
    """The parts of a path that each has, 1 in all at most."""

    ours: float
    loss: float
    """The part of each stream of others that yields to loss."""
    bbr: float
    """The part of each stream of others by BBR."""

    def others(self, background: Background) -> list[float]:
        """The part of each stream of the others."""
        return [self.loss] * background.loss + [self.bbr] * background.bbr

    def with_ours(self, ours: float) -> "Shares":
        """The same with our share as measured; the others divide what is left as they did."""
        scale = (1 - ours) / (1 - self.ours) if self.ours < 1 else 1.0
        return Shares(ours, self.loss * scale, self.bbr * scale)


def left_to_loss(queue_bdp: float) -> float:
    """The part of a path that BBR leaves to those that yield to loss, all together."""
    return max(TUNED.left_beside_bbr, 0.5 - 0.5 / queue_bdp if queue_bdp > 0 else 0.0)


def shares(choice: Choice, background: Background, queue_bdp: float, capacity_bps: float | None) -> Shares:
    """The shares at a queue of ``queue_bdp`` bandwidth × delay; ``capacity_bps`` is None if not known."""
    loss = background.loss + (0 if choice.is_bbr else choice.streams)
    bbr = background.bbr + (choice.streams if choice.is_bbr else 0)
    whole = 1.0
    if background.udp:
        whole = TUNED.burst_bbr if bbr else TUNED.burst_loss
    elif not background.streams and not choice.is_bbr:
        whole = _used(choice.streams, queue_bdp)
    to_loss = whole * (left_to_loss(queue_bdp) if loss and bbr else float(loss > 0))
    of_loss = to_loss / loss if loss else 0.0
    of_bbr = (whole - to_loss) / bbr if bbr else 0.0
    found = Shares(choice.streams * (of_bbr if choice.is_bbr else of_loss), of_loss, of_bbr)
    if choice.pacing_bps is not None and capacity_bps:
        most = choice.streams * choice.pacing_bps / capacity_bps
        if most < found.ours:
            return found.with_ours(most)
    return found


def without_us(background: Background, queue_bdp: float) -> Shares:
    """The rate that the others have without us, as a share of the path."""
    return shares(Choice("cubic", 0), background, queue_bdp, None)


def _used(streams: int, queue_bdp: float) -> float:
    """The part of its own path that CUBIC uses: the mean between a cut of one stream and a full queue."""
    after_cut = min(1.0, (1 + queue_bdp) * (1 - (1 - TUNED.cubic_cut) / max(1, streams)))
    return (1 + after_cut) / 2


def jain(rates: Sequence[float]) -> float:
    """Jain's index of rates: 1 when all are equal, 1/n when one has all."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares > 0 else 1.0


def harm(with_us: Sequence[float], without: Sequence[float]) -> float:
    """The most that one of the others loses, as a share of what a fair newcomer would leave it: 0..1."""
    left = len(without) / (len(without) + 1)
    lost = [
        max(0.0, 1 - now / (before * left))
        for now, before in zip(with_us, without, strict=True)
        if before > 0
    ]
    return max(lost, default=0.0)


def value(found: Shares, before: Shares, background: Background, fairness: float) -> float:
    """The value of these shares, where the others had those ``before`` us: 0..1."""
    others = found.others(background)
    fair = jain([found.ours, *others]) * (1 - harm(others, before.others(background))) if others else 1.0
    return (1 - fairness) * found.ours + fairness * fair
