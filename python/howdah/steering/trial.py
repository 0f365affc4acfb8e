"""A change of how a transfer sends, on trial: what it was made for, and whether it brought that."""

from typing import NamedTuple

from howdah.steering.policy import Preference
from howdah.steering.shares import Kind
from howdah.steering.tunables import TUNED
from howdah.values.listened import Had
from howdah.values.reason import Reason, Why


class Trial(NamedTuple):
    """A change on trial, and the throughput before it."""

    preference: Preference
    before: Had | None
    lately_bps: float | None = None
    """The rate in the last seconds before; others may have changed meanwhile."""

    def failed(
        self,
        had: Had,
        kind: tuple[Kind, float] | None,
        default_bps: float | None,
        capacity_bps: float | None,
    ) -> Why | None:
        """The reason why the change is not kept; None where it is.

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
        if had.rate_bps < TUNED.trial_keep * min(before_bps, fair_bps):
            reason = Reason.LESS_THAN_SHARE if usual_bps is None else Reason.LESS_THAN_BEFORE
            return reason.because(part=had.rate_bps / before_bps)
        if (
            preference.growth <= TUNED.trial_growth
            or kind is None
            or kind[0] != preference.kind
            or not before
        ):
            return None
        if before.rate_bps <= 0 or self.lately_bps == 0:
            return None
        grown = had.rate_bps / min(before.rate_bps, self.lately_bps or before.rate_bps)
        if grown < 1 + TUNED.trial_brought * min(1.0, preference.growth - 1) and had.rate_bps < fair_bps:
            return Reason.NO_GROWTH.because(part=grown)
        if (
            had.resent_fraction > max(TUNED.trial_resent, TUNED.trial_resent_more * before.resent_fraction)
            and grown < TUNED.trial_resent_for
        ):
            return Reason.RESENT.because(resent=had.resent_fraction, part=grown)
        return None
