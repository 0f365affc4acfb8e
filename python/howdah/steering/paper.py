"""The rule of Anvari, Huard, Lu, *Optimization through protocol selection* (Computers 2021, 10, 76):
beside any BBR send by BBR, else by CUBIC. Streams stay as they are."""

from howdah.steering.background import Belief, background
from howdah.steering.policy import SURE, Preference, Situation
from howdah.steering.share import Choice


class Paper:
    """Its policy."""

    holds = False

    def __call__(self, belief: Belief, now: Situation) -> Preference | None:
        """Of the two sides, the likelier; None when neither is likely enough."""
        sides: dict[bool, dict[str, float]] = {True: {}, False: {}}
        for label, probability in belief.classes.items():
            sides[background(label).bbr > 0][label] = probability
        bbr, others = sum(sides[True].values()), sum(sides[False].values())
        heard = bbr > others
        if max(bbr, others) < SURE:
            return None
        choice = now.default
        if heard and "bbr" in now.controls:
            choice = Choice("bbr", choice.streams, choice.pacing_bps)
        seen = background(Belief(sides[heard]).likeliest[0])
        gain = 1.0 if choice != now.current else 0.0
        return Preference(choice, seen.kind, max(bbr, others), gain, 1.0, 1 / (seen.streams + 1))
