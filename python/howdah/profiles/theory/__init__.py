"""Models of throughput over RTT: what theory says of a dedicated path, and of one never measured.

``predict`` is what others use; docs/models.md has the formulas.
"""

from howdah.profiles.theory.controls import has_model
from howdah.profiles.theory.prediction import (
    UNMEASURED,
    Calibration,
    ModelPrediction,
    PathParameters,
    calibrate,
    predict,
    predict_steady,
)

__all__ = [
    "UNMEASURED",
    "Calibration",
    "ModelPrediction",
    "PathParameters",
    "calibrate",
    "has_model",
    "predict",
    "predict_steady",
]
