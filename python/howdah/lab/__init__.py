"""Emulated WANs: hosts and the link between them, over real Linux TCP, on one machine.

with lab.started(lab.symmetric(10_000_000_000, 100_000_000), sshd=True) as wan:
    wan.run("near", ["iperf3", "-c", wan.far_address])

with lab.started(lab.symmetric(10**9, 180_000_000), lab.dumbbell(4, ["arch"]), sshd=True) as star:
    star.run("left2", ["ssh", "arch", "true"])
"""

from howdah.lab.session import Lab, account_here, started
from howdah.lab.topology import PAIR, Topology, dumbbell
from howdah.values.link import Burst, Change, Direction, LinkSpec, LinkStats, symmetric

__all__ = [
    "PAIR",
    "Burst",
    "Change",
    "Direction",
    "Lab",
    "LinkSpec",
    "LinkStats",
    "Topology",
    "account_here",
    "dumbbell",
    "started",
    "symmetric",
]
