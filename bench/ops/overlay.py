"""The paper's two test beds, as scenarios/ops-overlay1.toml and ops-overlay2.toml describe them."""

from pathlib import Path
from typing import NamedTuple

from howdah.lab import labfile
from howdah.lab.topology import Topology
from howdah.values.link import LinkSpec

_SCENARIOS = Path(__file__).parents[2] / "scenarios"
PAYLOAD_OF_WIRE = 1448 / 1538
"""Of full TCP segments with time stamps, on Ethernet."""


class Overlay(NamedTuple):
    link: LinkSpec
    topology: Topology

    @property
    def rate_bps(self) -> int:
        """Of the bottleneck, on the wire."""
        return self.link.near_to_far.rate_bps or 0

    @property
    def rtt_s(self) -> float:
        return sum(each.delay_ns for each in self.link.directions().values()) / 1e9

    @property
    def bdp_bytes(self) -> int:
        return round(self.rate_bps * self.rtt_s / 8)

    @property
    def queue_bytes(self) -> int:
        return self.link.near_to_far.queue_bytes or self.bdp_bytes


def load(number: int) -> Overlay:
    """Raises HowdahError saying the file, the key and what to do."""
    file = _SCENARIOS / f"ops-overlay{number}.toml"
    return Overlay(*labfile.build(labfile.LabOptions(), file))
