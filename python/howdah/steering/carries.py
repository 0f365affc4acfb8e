"""What a path carries, as it is known by now, and what part of it would be ours. Pure."""

from howdah.steering.background import Belief, background
from howdah.steering.measured import Look, Peak
from howdah.steering.policy import sure_kind
from howdah.steering.share import Choice


class Carries:
    """Of one path."""

    def __init__(self) -> None:
        self._peak = Peak()
        self._sharers = 2
        """This transfer, and as many streams as were told when the path was measured."""
        self.gauged_bps: float | None = None
        """Measured beside others (``gauge``)."""
        self.alone = False
        """Nobody else filled it (``alone``): what had arrived is what it carries."""

    @property
    def known(self) -> bool:
        """Whether it is no mere lower bound."""
        return self.gauged_bps is not None or self.alone

    @property
    def rate_bps(self) -> float | None:
        """At least."""
        return max(self._peak.rate_bps or 0.0, self.gauged_bps or 0.0) or None

    @property
    def share_bps(self) -> float:
        """An equal share of it."""
        return (self.rate_bps or 0.0) / self._sharers

    def add(self, look: Look) -> None:
        """Takes what has arrived by the next look."""
        acked_s, acked = look.acked or (look.t_s, look.bytes_done)
        self._peak.add(look._replace(t_s=acked_s, bytes_done=acked))

    def gauged(self, rate_bps: float, belief: Belief) -> None:
        """It has been measured beside those."""
        if self.gauged_bps is None:
            kind = sure_kind(belief)
            told = background(belief.likeliest[0]) if kind and kind[0] == "loss" else None
            self._sharers = 1 + (told.streams if told else 1)
        self.gauged_bps = rate_bps

    def shared_by(self, plan: Choice) -> Choice:
        """The streams of that plan, held to an equal share."""
        return plan.paced(self.share_bps / plan.streams, plan.pacing_bps)
