"""A change on trial: whether it gave what it was made for. Pure."""

from typing import NamedTuple

from howdah.steering.background import Kind
from howdah.steering.measured import Had
from howdah.steering.policy import Preference

HELD = 0.6
"""Of what there was before, or of an equal share: with less it is given up."""
_RESENT, _RESENT_MORE, _RESENT_FOR = 0.1, 4.0, 1.25
"""Of all sent, that was sent again; times what was before; times as much must come of it."""
_BROUGHT = 0.2
"""Of the growth expected, so much at least."""
_MORE = 1.1
"""Times as much is a growth expected."""


class Trial(NamedTuple):
    """What was changed, and what there was before."""

    preference: Preference
    before: Had | None
    lately_bps: float | None = None
    """In the last seconds of that; others may have changed."""

    def failed(
        self, had: Had, kind: tuple[Kind, float] | None, default_bps: float | None, capacity_bps: float | None
    ) -> str | None:
        """Why it is not kept, where that is so.

        ``kind`` is who is known to be there now, ``default_bps`` what the fair default gave when it was in
        use last, ``capacity_bps`` what the path carries at least.
        """
        before, preference = self.before, self.preference
        usual_bps = default_bps or (before.rate_bps if before else None)
        # An equal share is less only where others are known to be there; after few there is nothing else.
        beside = kind is not None and kind[0] != "nobody"
        equal_bps = preference.fair_share * (capacity_bps or usual_bps or 0.0)
        fair_bps = equal_bps if beside or usual_bps is None else usual_bps
        before_bps = fair_bps if usual_bps is None else usual_bps
        if had.rate_bps < HELD * min(before_bps, fair_bps):
            what = "an equal share" if usual_bps is None else "what there was before"
            return f"it gave {had.rate_bps / before_bps:.0%} of {what}"
        if preference.growth <= _MORE or kind is None or kind[0] != preference.kind or not before:
            return None
        if before.rate_bps <= 0 or self.lately_bps == 0:
            return None
        grown = had.rate_bps / min(before.rate_bps, self.lately_bps or before.rate_bps)
        if grown < 1 + _BROUGHT * min(1.0, preference.growth - 1) and had.rate_bps < fair_bps:
            return f"it gave {grown:.0%} of what there was before, and was to give more"
        if had.resent > max(_RESENT, _RESENT_MORE * before.resent) and grown < _RESENT_FOR:
            return f"{had.resent:.1%} had to be sent again, for {grown:.0%} of what there was before"
        return None
