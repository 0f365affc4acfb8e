"""All classifiers by name: ours, then the paper's."""

from howdah import HowdahError
from howdah.recognition.contract import Classifier
from howdah.recognition.kernels import Kernels
from howdah.recognition.logistic import Logistic
from howdah.recognition.paper import NaiveBayes, NearestNeighbour, Perceptron, SupportVectors
from howdah.recognition.trees import Trees

CLASSIFIERS: dict[str, type[Classifier]] = {
    each.name: each
    for each in (Trees, Logistic, Kernels, NearestNeighbour, Perceptron, SupportVectors, NaiveBayes)
}
DEFAULT = Trees.name


def classifier(name: str) -> type[Classifier]:
    """By its name. Raises HowdahError for one that is not known."""
    if name not in CLASSIFIERS:
        raise HowdahError(f"no classifier is called {name!r}; there are {', '.join(CLASSIFIERS)}")
    return CLASSIFIERS[name]
