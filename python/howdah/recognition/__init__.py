"""Recognition: from a series of RTTs to who else is on the path, how sure that is, or that it is something
new.

``recording`` is what comes in, ``windows`` what is judged, ``contract`` what every classifier is, ``model``
what is kept and asked, ``train`` how it is made. Pure: no network, no kernel, no clock.
"""
