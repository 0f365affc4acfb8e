"""Examines this host and, over ssh, a far one; what was found is a document."""

import os

import msgspec

from howdah import HowdahError, __version__
from howdah.doctor.facts import Facts, gather
from howdah.doctor.judge import Aim, HostFinding, judge, judge_limits
from howdah.values.path import ASSUMED_RTT_S
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


def examine(
    *, rate_bps: float, rtt_s: float | None, host: str | None, far_howdah: str | None
) -> DoctorReport:
    """The report for this rate; the round trip is ``rtt_s``, or measured to ``host``, or 100 ms."""
    if rate_bps <= 0 or (rtt_s is not None and rtt_s <= 0):
        raise HowdahError(
            "a rate or round trip of 0 can be judged by nobody; give for example 10Gbit and 100ms"
        )
    far = None
    if host is not None:
        # Loaded only here: ssh is not needed to look at this host.
        from howdah.remote.far import greet  # noqa: PLC0415

        far = greet(host, far_howdah)
    measured_s = far.rtt_s if far else None
    source = "given" if rtt_s else f"measured to {host}" if measured_s else "assumed; --rtt gives another"
    aim = Aim(rate_bps=rate_bps, rtt_s=rtt_s or measured_s or ASSUMED_RTT_S)
    facts = gather()
    hosts = [
        HostReport(
            host=f"this host, {os.uname().nodename}",
            limits=facts.limits,
            facts=facts,
            findings=judge(facts, aim),
        )
    ]
    if far is not None and host is not None:
        hosts.append(HostReport(host=host, limits=far.limits, findings=judge_limits(far.limits, aim)))
    return DoctorReport(aim=aim, aim_source=source, hosts=hosts)
