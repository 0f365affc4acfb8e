"""What part of a path a way to send should get beside others, before it has been measured.

Streams that yield to loss share equally, and so do BBR's. Between both, BBR takes what its own window lets
it, however many the others are: Ware, Mukerjee, Seshan, Sherry, *Modeling BBR's interactions with loss-based
congestion control* (IMC 2019): p = 1/2 - 1/(2X) - 4N/q is left to all others together, with a queue of X
bandwidth × delay, or q packets, and N streams of BBR. Deviations: 4N/q is left out, for q is not known and it
is less than a hundredth where a stream has 400 packets; and p is never less than ``LEAST``.
"""

from typing import NamedTuple

from howdah.steering.background import Background

LEAST = 0.06
"""Of a path is left to those that yield to loss beside BBR, however short the queue is."""
_CUT = 0.7
"""CUBIC goes on with so much of its window (RFC 9438, section 4.6)."""
_BURST_LOSS, _BURST_BBR = 0.5, 0.8
"""Of what senders that do not yield leave free, what streams of each kind get of it."""


class Choice(NamedTuple):
    """A way to send."""

    congestion_control: str
    streams: int
    pacing_bps: int | None = None
    """Of each stream; None: no bound."""

    @property
    def is_bbr(self) -> bool:
        """Whether it sends by BBR's rules."""
        return self.congestion_control.removeprefix("hd_").startswith("bbr")

    def is_held(self, default: "Choice") -> bool:
        """Whether streams that yield to loss have another bound than by ``default``."""
        return self.pacing_bps not in {None, default.pacing_bps} and not self.is_bbr

    def paced(self, each_bps: float, most_bps: int | None) -> "Choice":
        """With that bound of each stream, ``most_bps`` if that is less."""
        rounded = round(each_bps)
        return self._replace(pacing_bps=min(rounded, most_bps or rounded))


class Shares(NamedTuple):
    """Parts of a path, of 1 in all at most."""

    ours: float
    loss: float
    """Of each stream of others that yields to loss,"""
    bbr: float
    """and of each of BBR."""

    def others(self, background: Background) -> list[float]:
        """One of each stream that yields."""
        return [self.loss] * background.loss + [self.bbr] * background.bbr

    def with_ours(self, ours: float) -> "Shares":
        """The same with our share as measured; the others divide what is left as they did."""
        scale = (1 - ours) / (1 - self.ours) if self.ours < 1 else 1.0
        return Shares(ours, self.loss * scale, self.bbr * scale)


def left_to_loss(queue_bdp: float) -> float:
    """The part of a path that BBR leaves to those that yield to loss, all together."""
    return max(LEAST, 0.5 - 0.5 / queue_bdp if queue_bdp > 0 else 0.0)


def shares(choice: Choice, background: Background, queue_bdp: float, capacity_bps: float | None) -> Shares:
    """With a queue of ``queue_bdp`` bandwidth × delay, and a path of ``capacity_bps`` if that is known."""
    loss = background.loss + (0 if choice.is_bbr else choice.streams)
    bbr = background.bbr + (choice.streams if choice.is_bbr else 0)
    whole = 1.0
    if background.udp:
        whole = _BURST_BBR if bbr else _BURST_LOSS
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


def alone(background: Background, queue_bdp: float) -> Shares:
    """What the others have without us."""
    return shares(Choice("cubic", 0), background, queue_bdp, None)


def _used(streams: int, queue_bdp: float) -> float:
    """Of a path of its own what CUBIC uses: the mean between a cut of one stream and a full queue."""
    after_cut = min(1.0, (1 + queue_bdp) * (1 - (1 - _CUT) / max(1, streams)))
    return (1 + after_cut) / 2
