"""What ``howdah doctor`` found of this host and of a far one, as a document."""

import msgspec

from howdah import __version__
from howdah.doctor.facts import Facts
from howdah.doctor.judge import Aim, HostFinding
from howdah.values.record import HostLimits

SCHEMA = 1


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """One host."""

    host: str
    limits: HostLimits
    facts: Facts | None = None
    """The facts; null for a far host, of which only the limits are known."""
    findings: list[HostFinding]


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``howdah doctor --json`` prints."""

    schema: int = SCHEMA
    version: str = __version__
    aim: Aim
    aim_source: str
    """The source of the round trip."""
    hosts: list[HostReport]

    @property
    def ready(self) -> bool:
        """Whether no host has a gap."""
        return all(finding.state != "gap" for host in self.hosts for finding in host.findings)
