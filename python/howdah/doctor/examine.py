"""Examines this host and, over ssh, a far one."""

import os

from howdah import HowdahError
from howdah.doctor.facts import gather
from howdah.doctor.judge import Aim, judge, judge_limits
from howdah.doctor.report import HostReport, Report
from howdah.values.path import ASSUMED_RTT_S


def examine(*, rate_bps: float, rtt_s: float | None, host: str | None, far_howdah: str | None) -> Report:
    """The report for this rate; the round trip is ``rtt_s``, or measured to ``host``, or 100 ms."""
    if rate_bps <= 0 or (rtt_s is not None and rtt_s <= 0):
        raise HowdahError(
            "a rate or round trip of 0 can be judged by nobody; give for example 10Gbit and 100ms"
        )
    far = None
    if host is not None:
        # Only here: the session and ssh are not needed to look at this host.
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
    return Report(aim=aim, aim_source=source, hosts=hosts)
