"""The experiment as scenarios/lsst-figure2.toml describes it."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from howdah import lab, tomlfile
from howdah.control.policy import Policy, policyfile
from howdah.lab.topology import Topology
from howdah.tomlfile import Duration, Rate, Ratio, Size
from howdah.values.link import Change, LinkSpec

FILE = Path(__file__).parents[2] / "scenarios" / "lsst-figure2.toml"
BUFFER_BYTES = 65536
"""Of nuttcp."""
_SEE = "see: scenarios/lsst-figure2.toml"


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    rate: Rate
    rtt: Duration
    loss: Ratio


class _Replication(msgspec.Struct, forbid_unknown_fields=True):
    host: str


class _Background(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    file: Size


class _Images(msgspec.Struct, forbid_unknown_fields=True):
    hosts: list[str]
    buffers: int


class _Timeline(msgspec.Struct, forbid_unknown_fields=True):
    before: float
    between: float


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    policy: str
    receiver: str
    link: _Link
    replication: _Replication
    background: _Background
    images: _Images
    timeline: _Timeline


class Scenario(NamedTuple):
    """Who sends what to whom, over which link, and when."""

    policy_file: Path
    policy: Policy
    receiver: str
    link: LinkSpec
    replication: str
    """The host."""
    background: str
    background_file_bytes: int
    images: tuple[str, ...]
    buffers: int
    """That each of them sends."""
    before_s: float
    between_s: float

    @property
    def topology(self) -> Topology:
        """The senders on the left of a switch, the receiver behind the link."""
        return lab.dumbbell(sorted({*self.images, self.replication, self.background}), [self.receiver])

    @property
    def image_bytes(self) -> int:
        """Of each host's part."""
        return self.buffers * BUFFER_BYTES

    @property
    def rtt_s(self) -> float:
        """Of the link."""
        return sum(each.delay_ns for each in self.link.directions().values()) / 1e9

    def with_rtt(self, rtt_s: float, at_s: float) -> "Scenario":
        """The same, but the round trip becomes another so long after the link was started."""
        change = Change(at_ns=round(at_s * 1e9), delay_ns=round(rtt_s * 1e9 / 2))
        changed = {
            name: msgspec.structs.replace(each, changes=(change,))
            for name, each in self.link.directions().items()
        }
        return self._replace(link=msgspec.structs.replace(self.link, **changed))


def load(file: Path = FILE) -> Scenario:
    """Raises HowdahError saying the file, the key and what to do."""
    text = tomlfile.load(file, _Text, _SEE)
    policy_file = file.parent / text.policy
    link = lab.symmetric(int(text.link.rate), int(text.link.rtt), loss=float(text.link.loss))
    return Scenario(
        policy_file=policy_file,
        policy=policyfile.load(policy_file),
        receiver=text.receiver,
        link=link,
        replication=text.replication.host,
        background=text.background.host,
        background_file_bytes=int(text.background.file),
        images=tuple(text.images.hosts),
        buffers=text.images.buffers,
        before_s=text.timeline.before,
        between_s=text.timeline.between,
    )
