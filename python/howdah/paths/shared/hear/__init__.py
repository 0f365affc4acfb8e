"""Listening during a transfer: ``ears`` bring round trips, ``hearing`` keeps the last of them and asks a
``recogniser`` who is there."""
