"""Data sets: recordings made in labs, so that who was there is known.

``plan`` says what to record, ``planfile`` reads one, ``run`` makes one recording in a dumbbell, ``recorder``
several at once, ``command`` is the command.
"""
