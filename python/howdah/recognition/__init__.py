"""Recognition: who else is on a path, by its round trips, and how sure that is.

A ``recording`` is cut into ``windows``; ``classifiers`` judge their ``features``; a ``model`` is what
training leaves. All of that is pure: arrays in, probabilities out. Above it, ``files`` reads and writes
recordings and models, ``training`` makes a model and says what it is worth, and ``recognise`` judges the end
of a series by the models that come with howdah.
"""
