"""Files checked against lists of digests, here or at a far host, as ``howdah verify`` and ``cp --verify`` do.

``lists`` finds and writes lists, ``ends`` starts what reads the files, ``check`` asks it and listens, and
``call`` is the call of a program.
"""
