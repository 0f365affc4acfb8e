"""Emulated WANs: two hosts and the link between them, over real Linux TCP, on one machine.

with lab.started(lab.symmetric(10_000_000_000, 100_000_000), sshd=True) as wan:
    wan.run("near", ["iperf3", "-c", wan.far_address])
"""

from howdah.lab.link import Burst, Change, Direction, LinkSpec, LinkStats, symmetric
from howdah.lab.session import Lab, started, stats_here

__all__ = [
    "Burst",
    "Change",
    "Direction",
    "Lab",
    "LinkSpec",
    "LinkStats",
    "started",
    "stats_here",
    "symmetric",
]
