import numpy as np

from howdah.profiles.profile import profile
from howdah.profiles.transition.shapes import LeftOutErrors, compare_regressions


def test_the_better_regression_is_the_one_that_knows_what_it_was_not_shown() -> None:
    rtts = np.array([0.4, 11.8, 22.6, 45.6, 91.6, 183, 366]) / 1e3
    generator = np.random.default_rng(6)

    def errors(means: np.ndarray) -> LeftOutErrors:
        rates = 1e10 * np.tile(means, 10) * (1 + 0.01 * generator.normal(size=70))
        return compare_regressions(profile(np.tile(rtts, 10), rates), capacity_bps=1e10)

    found = errors(1 / (1 + np.exp((rtts - 0.0916) / 0.03)))
    assert found.best == "sigmoids"
    assert found.clear
    assert errors(0.9 - 0.2 * rtts / 0.366).best != "sigmoids"


def test_too_few_rtts_are_not_compared() -> None:
    few = profile(np.repeat([0.01, 0.02], 3), [9e9, 8.9e9, 9.1e9, 7e9, 7.2e9, 6.9e9])
    assert compare_regressions(few).best is None
