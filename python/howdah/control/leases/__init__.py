"""Leases: how a controller and its agents keep a guarantee from being promised twice. Nothing here does I/O.

Messages and times are arguments and results, so all of it runs in virtual time (``bench/leases``).
"""
