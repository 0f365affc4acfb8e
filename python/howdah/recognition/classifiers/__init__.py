"""The classifiers by name: ours, then the paper's. A new one is a file of this folder and a row here."""

from howdah import HowdahError
from howdah.recognition.classifier import Classifier
from howdah.recognition.classifiers.kernels import Kernels
from howdah.recognition.classifiers.logistic import Logistic
from howdah.recognition.classifiers.paper import NaiveBayes, NearestNeighbour, Perceptron, SupportVectors
from howdah.recognition.classifiers.trees import Trees

CLASSIFIERS: dict[str, type[Classifier]] = {
    each.name: each
    for each in (
        Trees,
        Logistic,
        Kernels,
        NearestNeighbour,
        Perceptron,
        SupportVectors,
        NaiveBayes,
    )
}


def classifier(name: str) -> type[Classifier]:
    """The classifier of this name. Raises HowdahError for a name that is not known."""
    if name not in CLASSIFIERS:
        raise HowdahError(f"no classifier is called {name!r}; there are {', '.join(CLASSIFIERS)}")
    return CLASSIFIERS[name]
