"""Data sets: recordings made in labs, so that who was there is known.

``plan`` says what to record, ``run`` makes one recording in a dumbbell, ``recorder`` several at once, and
``streams`` are the streams of a lab's hosts.
"""
