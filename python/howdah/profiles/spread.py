"""How far the mean of a profile may be off at each RTT, and means as other runs would have given them.

The variance at an RTT is shrunk towards that of all RTTs together, taken as relative to the mean,
which counts for ``PRIOR_RUNS`` runs: the variance of a few runs alone is too rough for a weight
(the moderated variance of Smyth 2004, with the prior's weight given instead of estimated).
"""

import numpy as np

from howdah import HowdahError
from howdah.profiles.profile import Floats, Profile

PRIOR_RUNS = 4
DRAWS = 1000
INTERVAL = 0.9
"""What of the bootstrap an interval holds, in the middle."""
_LEAST = 1e-6
"""Standard error as a share of the fastest mean, below which runs count as alike: rounding is in there."""
_LEAST_BPS = 1.0


def standard_errors(profile: Profile) -> Floats:
    """The standard error of the mean at each RTT, in b/s, shape (n,).

    Raises HowdahError when no RTT has two runs.
    """
    freedom = profile.runs - 1
    if not freedom.any():
        raise HowdahError(
            "every RTT has one run, which says nothing of how runs vary; measure each at least twice"
        )
    means = profile.mean_bps
    variances = np.where(freedom > 0, profile.sd_bps, 0.0) ** 2
    positive = means > 0
    relative = np.divide(variances, means**2, out=np.zeros_like(means), where=positive)
    pooled = np.sum((freedom * relative)[positive]) / max(np.sum(freedom[positive]), 1)
    shrunk = (PRIOR_RUNS * pooled * means**2 + freedom * variances) / (PRIOR_RUNS + freedom)
    least = max(_LEAST * float(means.max()), _LEAST_BPS)
    return np.asarray(np.maximum(np.sqrt(shrunk / profile.runs), least))


def bootstrap(profile: Profile, draws: int, generator: np.random.Generator) -> Floats:
    """Means of runs drawn again with replacement at each RTT, shape (draws, n).

    Deviations are stretched by √(k / (k − 1)), which mends that k runs drawn again vary too little;
    an RTT with one run is given the standard error that ``standard_errors`` finds for it.
    """
    errors = standard_errors(profile)
    columns = []
    for rates, mean, error in zip(profile.rates_bps, profile.mean_bps, errors, strict=True):
        k = len(rates)
        if k == 1:
            columns.append(mean + error * generator.standard_normal(draws))
        else:
            drawn = rates[generator.integers(k, size=(draws, k))].mean(axis=1)
            columns.append(mean + (drawn - mean) * np.sqrt(k / (k - 1)))
    return np.stack(columns, axis=1)
