"""Paths whose rate is guaranteed, and whose hosts are all ours: a controller gives every flow its share.

A *policy* (``policy``) says what the path guarantees and what its *classes* of traffic are to have of it.
A *flow* is the traffic of one class from one host to one place. It has a *share*: a rate on the wire
(``allocation.py``).
"""
