"""What ``howdah doctor`` found on one or two hosts, as a document."""

import msgspec

from howdah import __version__
from howdah.doctor.facts import Facts
from howdah.doctor.judge import Aim, Finding
from howdah.values.record import HostLimits

SCHEMA = 1


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """One host."""

    host: str
    limits: HostLimits
    facts: Facts | None = None
    """Null for a far host, of which only the limits are known."""
    findings: list[Finding]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What ``howdah doctor --json`` prints."""

    schema: int = SCHEMA
    version: str = __version__
    aim: Aim
    aim_source: str
    """Where the round trip comes from."""
    hosts: list[HostReport]

    @property
    def ready(self) -> bool:
        """No host has a gap."""
        return all(finding.state != "gap" for host in self.hosts for finding in host.findings)
