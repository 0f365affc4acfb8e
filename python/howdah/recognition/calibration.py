"""Calibration: of what is said with probability p, a share p is so.

Temperature scaling (Guo, Pleiss, Sun and Weinberger, ICML 2017): probabilities to the power of 1 / T, T by
the least log loss on windows of runs the classifier had not seen. One number, so it hardly overfits and never
changes which class is first. As if one more window had been heard that was of any class (Platt's targets,
1999): where all windows are right, few allow less confidence than many.
"""

import numpy as np
from numpy.typing import NDArray

from howdah.recognition.contract import Codes
from howdah.recognition.logistic import softmax
from howdah.recognition.recording import Floats

BINS = 15
COOLEST, HOTTEST = 0.05, 20.0
_LEAST = 1e-6


def cooled(probabilities: Floats, temperature: float) -> Floats:
    """Shape (n, classes), as given; above 1 less sure, below 1 surer."""
    return softmax(np.log(np.maximum(probabilities, _LEAST)) / temperature)


def temperature(probabilities: Floats, codes: Codes) -> float:
    """The one of least log loss, from ``COOLEST`` to ``HOTTEST``; 1 for no windows."""
    if not len(codes):
        return 1.0
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    windows, classes = probabilities.shape
    wanted = (windows * np.eye(classes)[codes] + 1 / classes) / (windows + 1)

    def loss(log_temperature: float) -> float:
        likely = cooled(probabilities, float(np.exp(log_temperature)))
        return float(-np.mean(np.sum(wanted * np.log(np.maximum(likely, 1e-300)), axis=1)))

    found = minimize_scalar(loss, bounds=(np.log(COOLEST), np.log(HOTTEST)), method="bounded")
    return float(np.exp(found.x))


def cross_fitted(probabilities: Floats, codes: Codes, fold: NDArray[np.intp]) -> Floats:
    """Each fold cooled by the temperature of all others, so that how well it is calibrated can be told."""
    found = probabilities.copy()
    for number in np.unique(fold):
        inside = fold == number
        found[inside] = cooled(probabilities[inside], temperature(probabilities[~inside], codes[~inside]))
    return found


def expected_calibration_error(probabilities: Floats, codes: Codes) -> float:
    """Mean distance of confidence and accuracy over ``BINS`` equal bins of confidence, by windows in them."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == codes
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    away = np.bincount(place, confidence - right, minlength=BINS)
    return float(np.abs(away).sum() / len(codes))
