"""What hosts can and cannot do: ``howdah.examine``."""

import os

from howdah.arguments import check_above_0, typed
from howdah.doctor.facts import gather
from howdah.doctor.judge import Aim, DoctorReport, HostReport, judge, judge_limits, judge_port
from howdah.values.path import ASSUMED_RTT_S


@typed
def examine(
    host: str | None = None,
    *,
    rate_bps: float = 10e9,
    rtt_s: float | None = None,
    far_howdah: str | None = None,
    ports: tuple[int, int] | None = None,
) -> DoctorReport:
    """Judges this host, and over ssh a far one, as ``howdah doctor`` does; ``report.ready`` is the verdict.

    Args:
        host: the far host, as ssh knows it; None: this host alone.
        rate_bps: the rate that transfers are to reach, bits per second.
        rtt_s: the round trip in seconds; by default measured to ``host``, else 100 ms.
        far_howdah: the program at the far host where it is not in its PATH.
        ports: the range of data ports to try there; by default what ``config.toml`` has, else any port.

    Raises:
        HowdahError: for a rate or round trip of 0, and where the far host does not answer.

    >>> report = howdah.examine(rate_bps=10e9, rtt_s=0.1)
    >>> gaps = [finding.what for finding in report.hosts[0].findings if finding.state == "gap"]
    >>> assert report.ready == (not gaps)
    """
    check_above_0("rate_bps", rate_bps)
    check_above_0("rtt_s", rtt_s)
    far = tried = None
    if host is not None:
        # Loaded only here: ssh is not needed to look at this host.
        from howdah.remote.dataport import try_ports  # noqa: PLC0415
        from howdah.remote.endpoints import bare  # noqa: PLC0415

        host = bare(host)
        far, tried = try_ports(host, far_howdah, ports)
    measured_s = far.rtt_s if far else None
    source = "given" if rtt_s else f"measured to {host}" if measured_s else "assumed"
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
    if far is not None and tried is not None and host is not None:
        findings = [*judge_limits(far.limits, aim), judge_port(tried)]
        hosts.append(HostReport(host=host, limits=far.limits, findings=findings))
    return DoctorReport(aim=aim, aim_source=source, hosts=hosts)
