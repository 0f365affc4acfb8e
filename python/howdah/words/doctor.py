"""The findings of doctor for people."""

import textwrap

from howdah._native import format_bytes, format_rate
from howdah.doctor.judge import DoctorReport, HostFinding

CONFIGURATION = "/etc/sysctl.d/90-howdah.conf"
_MARKS = {"good": "ok  ", "gap": "GAP ", "note": "note"}
_COLUMNS = 80


def in_words(report: DoctorReport) -> str:
    """The report for a person, at 80 columns."""
    aim = report.aim
    rtt = f"{aim.rtt_s * 1e3:.4g} ms"
    source = (
        f"{report.aim_source}; --rtt gives another" if report.aim_source == "assumed" else report.aim_source
    )
    lines = [
        f"Judged for {format_rate(aim.rate_bps)} at {rtt} ({source}): "
        f"{format_bytes(aim.bdp_bytes)} in flight."
    ]
    for host in report.hosts:
        lines += ["", f"{host.host}, kernel {host.limits.kernel}", *_findings(host.findings)]
        lines += mending(host.findings)
    return "\n".join(lines)


def mending(findings: list[HostFinding]) -> list[str]:
    """The exact lines to run as root; empty when there is nothing to mend."""
    open_ = [finding for finding in findings if finding.state != "good"]
    settings = {key: value for finding in open_ for key, value in finding.sysctls.items()}
    commands = [command for finding in open_ for command in finding.commands]
    lines = []
    if commands or settings:
        lines += ["", "As root, now:"]
        lines += [f"  {command}" for command in commands]
        lines += [f"  sysctl -w {key}={_quoted(value)}" for key, value in settings.items()]
    if settings:
        lines += ["", f"And in {CONFIGURATION}, to last:"]
        lines += [f"  {key} = {value}" for key, value in settings.items()]
    return lines


def _findings(findings: list[HostFinding]) -> list[str]:
    width = max(len(finding.what) for finding in findings)
    lines = []
    for finding in findings:
        text = finding.found if finding.cost is None else f"{finding.found}: {finding.cost}"
        head = f"  {_MARKS[finding.state]}  {finding.what:{width}}  "
        lines += textwrap.wrap(text, _COLUMNS, initial_indent=head, subsequent_indent=" " * len(head))
    return lines


def _quoted(value: str) -> str:
    return f"'{value}'" if " " in value else value
