"""Models of throughput over RTT: what theory says of a dedicated path, and of one never measured.

``predict`` is what others use; docs/models.md has the formulas.
"""

from howdah.profiles.models.calibration import UNMEASURED, Calibration, calibrate
from howdah.profiles.models.predict import Configuration, PathParameters, Prediction, predict, predict_steady

__all__ = [
    "UNMEASURED",
    "Calibration",
    "Configuration",
    "PathParameters",
    "Prediction",
    "calibrate",
    "predict",
    "predict_steady",
]
