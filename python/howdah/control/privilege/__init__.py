"""Which process has which privilege: a helper that does BPF and nothing else, and one without any.

``helper.py`` is the program of the first, ``remote.py`` its other end in the second, ``protocol.py`` all that
they say to each other, and ``drop.py`` what the second gives up before it talks to a network.
"""
