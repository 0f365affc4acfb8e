"""Where a profile is concave and where convex, as far as the measurements show it.

At each inner RTT the curvature is the second derivative of the parabola through the means there and at
its two neighbours (second divided difference on the uneven grid); its sign is sure when the central
``INTERVAL`` of the bootstrap does not hold 0. No shape of the whole profile is assumed.
"""

from typing import NamedTuple

import numpy as np

from howdah.profiles.profile import Floats, Profile
from howdah.profiles.shapes import Shape
from howdah.profiles.spread import DRAWS, INTERVAL, bootstrap


class Region(NamedTuple):
    """Neighbouring RTTs between which the profile surely bends one way."""

    shape: Shape
    from_s: float
    to_s: float


class Curvature(NamedTuple):
    """At the inner RTTs of n; arrays of shape (n − 2,), in b/s per s²."""

    grid_s: Floats
    """The n RTTs."""
    value: Floats
    low: Floats
    high: Floats
    concave_share: Floats
    """Of bootstrap draws that bend down."""

    def regions(self) -> list[Region]:
        """Each from the RTT before the first bend of one kind to the RTT after the last."""
        found: list[Region] = []
        before = Shape.STRAIGHT
        for at, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            shape = Shape.CONCAVE if high < 0 else Shape.CONVEX if low > 0 else Shape.STRAIGHT
            if shape is not Shape.STRAIGHT:
                start = found.pop().from_s if shape is before else float(self.grid_s[at])
                found.append(Region(shape, start, float(self.grid_s[at + 2])))
            before = shape
        return found


def curvature(profile: Profile, *, draws: int = DRAWS, seed: int = 0) -> Curvature:
    """The curvature of a profile; of fewer than three RTTs it has none.

    Raises HowdahError when no RTT has two runs.
    """
    drawn = second_differences(profile.rtt_s, bootstrap(profile, draws, np.random.default_rng(seed)))
    low, high = np.quantile(drawn, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2], axis=0)
    return Curvature(
        grid_s=profile.rtt_s,
        value=second_differences(profile.rtt_s, profile.mean_bps),
        low=low,
        high=high,
        concave_share=np.mean(drawn < 0, axis=0),
    )


def second_differences(rtt_s: Floats, means_bps: Floats) -> Floats:
    """Second derivatives of the parabolas through three neighbours, shape (…, n − 2), of means (…, n)."""
    slopes = np.diff(means_bps) / np.diff(rtt_s)
    return 2 * np.diff(slopes) / (rtt_s[2:] - rtt_s[:-2])
