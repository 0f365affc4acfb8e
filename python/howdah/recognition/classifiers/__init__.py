"""The classifiers by name: ours, then the paper's. A new one is a file of this folder and a row here.

Each is loaded only when it is asked for, so that their names are at hand at once.
"""

import importlib
from typing import TYPE_CHECKING, cast

from howdah import HowdahError

if TYPE_CHECKING:
    from howdah.recognition.classifier import Classifier

CLASSIFIERS = {
    "trees": "trees.Trees",
    "logistic": "logistic.Logistic",
    "kernels": "kernels.Kernels",
    "1-nn": "paper.NearestNeighbour",
    "mlp": "paper.Perceptron",
    "svm": "paper.SupportVectors",
    "gnb": "paper.NaiveBayes",
}
"""The module and the class of each."""


def classifier(name: str) -> "type[Classifier]":
    """The classifier of this name. Raises HowdahError for a name that is not known."""
    if name not in CLASSIFIERS:
        raise HowdahError(f"no classifier is called {name!r}; there are {', '.join(CLASSIFIERS)}")
    module, _, kind = CLASSIFIERS[name].partition(".")
    return cast("type[Classifier]", getattr(importlib.import_module(f"{__name__}.{module}"), kind))
