"""Facts → findings: what each gap costs at a rate and round trip, and the lines that mend it. Pure.

A *gap* limits a transfer to less than the rate; a *note* costs something else or only some transfers. So are
the data ports of a far host judged. All findings are one document, the DoctorReport.

References: sysctls, Documentation/networking/ip-sysctl.rst; window scaling and timestamps, RFC 7323;
SACK, RFC 2018; CUBIC's time back to its last window, RFC 9438 §4.2 (K = ∛(W (1 − β) / C)).
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from howdah import __version__
from howdah._native import format_bytes, format_duration, format_rate
from howdah.bounds import ports_in_words
from howdah.decide import Path, shared
from howdah.doctor.facts import Facts
from howdah.remote.dataport import NOT_KNOWN, Tried
from howdah.values import sizes
from howdah.values.record import HostLimits

_MSS_BYTES = 1448
_CUBIC_BETA, _CUBIC_C = 0.7, 0.4
_WINDOW_UNSCALED_BYTES = 65535
_BUFFER_MAX_BYTES = 2**31 - 4096
_PAGE_BYTES = 4096
_SEQUENCE_BYTES = 2**32

State = Literal["good", "gap", "note"]


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """The rate and round trip that a host is judged for."""

    rate_bps: float
    rtt_s: float

    @property
    def bdp_bytes(self) -> int:
        """The bytes in flight at this rate."""
        return math.ceil(self.rate_bps * self.rtt_s / 8)


class HostFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    state: State
    found: str
    cost: str | None = None
    """The cost at the aim; null: none."""
    sysctls: dict[str, str] = {}
    """The settings that mend it."""
    commands: list[str] = []
    """The lines to run as root that mend it otherwise."""


def judge(facts: Facts, aim: Aim) -> list[HostFinding]:
    """All findings of this host."""
    return [
        *judge_limits(facts.limits, aim),
        _ssh(facts),
        *_policy(facts),
        _aes(facts),
        _bpf(facts),
        _lab(facts),
        _clock(facts),
    ]


def judge_limits(host: HostLimits, aim: Aim) -> list[HostFinding]:
    """The findings of a host of which only the limits are known, such as a far one."""
    return [
        _control(host),
        _buffers(host, aim),
        _memory(host, aim),
        _metrics(host, aim),
        _idle(host, aim),
        *_switches(host, aim),
    ]


def _control(host: HostLimits) -> HostFinding:
    what, available = "congestion control", host.congestion_controls_available
    found = f"{' '.join(available)}; default {host.congestion_control_default}"
    if "cubic" in host.congestion_controls_usable:
        if "bbr" in available:
            return _good(what, found)
        cost = "no bbr, which is good on paths with random loss"
        return _note(what, found, cost, commands=["modprobe tcp_bbr"])
    if "cubic" in available:
        cost = "users may not choose cubic, so the default is used instead"
        allowed = " ".join([*host.congestion_controls_allowed, "cubic"])
        return _note(what, found, cost, {"net.ipv4.tcp_allowed_congestion_control": allowed})
    cost = "no cubic: the default is used, which may grow its window more slowly"
    return _note(what, found, cost, commands=["modprobe tcp_cubic"])


def _buffers(host: HostLimits, aim: Aim) -> HostFinding:
    """Judges both buffers as a plan between two hosts like this one would use them."""
    window = sizes.windows(Path(sender=host, receiver=host, rtt_s=aim.rtt_s))
    streams = shared.choose_streams(aim.rtt_s, window, None).streams
    one_bps, all_bps = (sizes.window_rate_bps(n, max(window), aim.rtt_s) for n in (1, streams))
    send_bytes, receive_bytes = host.tcp_wmem_max_bytes, host.tcp_rmem_max_bytes
    found = f"send {format_bytes(send_bytes)}, receive {format_bytes(receive_bytes)} by autotuning"
    if window.explicit_bytes > window.autotuned_bytes:
        found += f"; {format_bytes(window.explicit_bytes)} if set"
    if one_bps >= aim.rate_bps:
        return _good("buffers", found)
    cost = (
        f"one stream carries at most {format_rate(one_bps)} of {format_rate(aim.rate_bps)}, "
        f"the {streams} of a plan {format_rate(all_bps)}"
    )
    send = _power(aim.bdp_bytes * sizes.HEADROOM)
    receive = _power(aim.bdp_bytes * sizes.HEADROOM / sizes.RECEIVE_SHARE)
    sysctls = {
        "net.core.rmem_max": str(max(receive, host.rmem_max_bytes)),
        "net.core.wmem_max": str(max(send, host.wmem_max_bytes)),
        "net.ipv4.tcp_rmem": f"4096 131072 {max(receive, host.tcp_rmem_max_bytes)}",
        "net.ipv4.tcp_wmem": f"4096 16384 {max(send, host.tcp_wmem_max_bytes)}",
    }
    return HostFinding("buffers", _gap_if(all_bps < aim.rate_bps), found, cost, sysctls)


def _memory(host: HostLimits, aim: Aim) -> HostFinding:
    if host.tcp_mem_pages is None:
        return _good("TCP memory", "not known in this network namespace")
    _, pressure, high = host.tcp_mem_pages
    needed = math.ceil(aim.bdp_bytes * sizes.HEADROOM)
    found = f"{format_bytes(high * _PAGE_BYTES)} for all connections"
    if pressure * _PAGE_BYTES >= needed:
        return _good("TCP memory", found)
    pages = -(-needed // _PAGE_BYTES)
    mended = (
        max(old, new) for old, new in zip(host.tcp_mem_pages, (pages, 2 * pages, 3 * pages), strict=True)
    )
    reach_bps = high * _PAGE_BYTES * 8 / sizes.HEADROOM / aim.rtt_s
    cost = f"windows of all streams together carry at most {format_rate(reach_bps)}"
    sysctls = {"net.ipv4.tcp_mem": " ".join(map(str, mended))}
    return HostFinding("TCP memory", _gap_if(reach_bps < aim.rate_bps), found, cost, sysctls)


def _metrics(host: HostLimits, aim: Aim) -> HostFinding:
    if host.no_metrics_save:
        return _good("remembered metrics", "not kept between connections")
    segments = aim.bdp_bytes / _MSS_BYTES
    back_s = (segments * (1 - _CUBIC_BETA) / _CUBIC_C) ** (1 / 3)
    return _note(
        "remembered metrics",
        "a connection begins with the threshold of the last one to that host",
        f"after a lossy run one cubic stream may take {format_duration(back_s)} back to the full rate",
        {"net.ipv4.tcp_no_metrics_save": "1"},
    )


def _idle(host: HostLimits, aim: Aim) -> HostFinding:
    if not host.slow_start_after_idle:
        return _good("idle connections", "keep their window")
    ramp_s = sizes.ramp_round_trips(1, aim.rtt_s) * aim.rtt_s
    cost = f"up to {format_duration(ramp_s)} after each pause, such as a slow disk"
    sysctls = {"net.ipv4.tcp_slow_start_after_idle": "0"}
    return _note("idle connections", "begin slow start again after a pause", cost, sysctls)


def _switches(host: HostLimits, aim: Aim) -> Iterator[HostFinding]:
    """Judges what every kernel has on until somebody switches it off."""
    streams = shared.STREAMS_FOR_WINDOW_MAX
    unscaled_bps = sizes.window_rate_bps(streams, _WINDOW_UNSCALED_BYTES, aim.rtt_s)
    unscaled = _gap_if(unscaled_bps < aim.rate_bps)
    carried = f"64 KiB: {streams} streams carry {format_rate(unscaled_bps)}"
    wrap = format_duration(_SEQUENCE_BYTES * 8 / aim.rate_bps)
    wrapping = f"sequence numbers wrap in {wrap}, and round trips are measured less exactly"
    one_by_one = "each lost segment takes a round trip, instead of one for all lost together"
    switches: list[tuple[str, bool | None, State, str, str]] = [
        ("window scaling", host.window_scaling, unscaled, f"windows end at {carried}", "window_scaling"),
        ("timestamps", host.timestamps, "note", wrapping, "timestamps"),
        ("selective acknowledgment", host.sack, "gap", one_by_one, "sack"),
        (
            "receive autotuning",
            host.receive_autotuning,
            unscaled,
            f"windows stay at {carried}",
            "moderate_rcvbuf",
        ),
    ]
    for what, on, state, cost, setting in switches:
        if on is False:
            yield HostFinding(what, state, "off", cost, {f"net.ipv4.tcp_{setting}": "1"})
        else:
            yield _good(what, _known(on, "on"))


def _ssh(facts: Facts) -> HostFinding:
    if facts.ssh_client:
        return _good("ssh", facts.ssh_client)
    cost = "no far end can be started from here"
    return HostFinding("ssh", "gap", "no ssh", cost, commands=["apt-get install openssh-client"])


def _policy(facts: Facts) -> Iterator[HostFinding]:
    """Shows each rule in force beside the file that sets it; the site's is not this user's to mend."""
    what = "policy"
    if facts.policy_refused is not None:
        yield HostFinding(what, "gap", facts.policy_refused, "no command that needs the policy works")
    elif not facts.policy:
        yield _good(what, "none: nothing is forbidden")
    for rule, path in facts.policy.items():
        yield _good(what, f"{_SIZE.sub(_in_units, rule)} ({path})")


_SIZE = re.compile(r'(?<=")(\d+)B(?="$)')
_UNITS = {
    **{f"{prefix}B": 1000**power for power, prefix in enumerate(("", "k", "M", "G", "T"))},
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
}


def _in_units(found: re.Match[str]) -> str:
    """The size in the unit that makes it shortest and changes nothing."""
    size = int(found[1])
    exact = (f"{size // unit}{name}" for name, unit in _UNITS.items() if size % unit == 0)
    return min(exact, key=len)


def _aes(facts: Facts) -> HostFinding:
    if facts.aes_instructions:
        return _good("encryption", "the processor has AES instructions")
    cost = "encrypting takes tens of times the processor; on a fibre you own, use --plaintext"
    return _note("encryption", "the processor has no AES instructions", cost)


def _bpf(facts: Facts) -> HostFinding:
    if facts.programs_refused is None:
        return _good("BPF congestion control", "can be loaded")
    cost = "only the kernel's own congestion controls"
    return _note("BPF congestion control", facts.programs_refused, cost)


def _lab(facts: Facts) -> HostFinding:
    if facts.namespaces_refused_by:
        found, cost = "this user may not make namespaces", "howdah lab needs root here"
        return _note("labs", found, cost, facts.namespaces_refused_by)
    if not facts.tun:
        commands = ["modprobe tun", "chmod 666 /dev/net/tun"]
        return _note(
            "labs", "/dev/net/tun cannot be opened", "howdah lab does not work here", commands=commands
        )
    return _good("labs", "namespaces and TUN devices can be made")


def _clock(facts: Facts) -> HostFinding:
    source = facts.clock_source or "unknown source"
    if facts.clock_source in {"hpet", "acpi_pm", "jiffies"}:
        cost = "reading the clock takes about a microsecond: paced sending and labs become late"
        files = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        return _note("clock", source, cost, commands=[f"echo tsc >{files}"])
    if facts.clock_synchronised is False:
        cost = "records made on two hosts do not sort by time"
        return _note("clock", f"{source}, not synchronised", cost, commands=["timedatectl set-ntp true"])
    return _good("clock", f"{source}, {_known(facts.clock_synchronised, 'synchronised')}")


def _good(what: str, found: str) -> HostFinding:
    return HostFinding(what, "good", found)


def _note(
    what: str, found: str, cost: str, sysctls: dict[str, str] | None = None, commands: Sequence[str] = ()
) -> HostFinding:
    return HostFinding(what, "note", found, cost, sysctls or {}, list(commands))


def _gap_if(below: bool) -> State:
    return "gap" if below else "note"


def _known(value: bool | None, word: str) -> str:
    return "not known" if value is None else word


def _power(size_bytes: float) -> int:
    """The next power of two, within what the kernel takes."""
    return min(_BUFFER_MAX_BYTES, 1 << math.ceil(math.log2(max(_PAGE_BYTES, size_bytes))))


WHAT = "data port"
RANGE = (50000, 50999)
"""The range to ask for where there is none yet."""


def judge_port(tried: Tried) -> HostFinding:
    """The finding. Where a firewall lets in some ports of a range and others not, each is named."""
    answering = ", ".join(map(str, tried.open))
    which = "its kernel chose it" if tried.ports is None else f"of {ports_in_words(tried.ports)}"
    other, shut, beside = tried.other, "", ""
    if other is not None:
        shut = "; ".join(f"{port}: {why}" for port, why in other.closed.items())
        beside = f"; {other.address} does not ({shut})" if shut else f"; so does {other.address}"
    if not tried.closed:
        return HostFinding(WHAT, "good", f"open: {tried.far} answers at {answering}, {which}{beside}")
    far = f"[{tried.far}]" if ":" in tried.far else tried.far
    found = "closed: " + "; ".join(f"{far}:{port}: {why}" for port, why in tried.closed.items())
    if answering:
        found += f"; {answering} answers"
    ports = ports_in_words(tried.ports or RANGE)
    ask = (
        "ask the administrator of its firewall to let in "
        f"TCP from {tried.near or 'here'} to {tried.far}, ports {ports}"
    )
    if NOT_KNOWN in tried.closed.values():
        ask = "have ssh connect from here to an address of that host (HostName in ~/.ssh/config)"
    elif tried.ports is None:
        ask += f", and copy with --ports {ports}"
    state: State = "gap"
    if other is not None and not tried.closed.keys() & other.closed.keys():
        state, found = "note", f"{found}, but {other.address} answers, so copies go there"
        cost = f"each copy first tries what is closed, for 0.3 s; {ask}"
    elif tried.from_there:
        return HostFinding(
            WHAT, "good", f"{found}, but {tried.far} connects to this host, so copies go straight"
        )
    else:
        found += f"; {other.address} does not answer either ({shut})" if other is not None else ""
        cost = f"copies go through the ssh connection, which is slower; {ask}"
        if not tried.through_ssh:
            cost = f"no copy reaches it, and its sshd forwards no data; {ask}, or for AllowTcpForwarding yes"
    if tried.near is None:
        return HostFinding(WHAT, state, found, cost)
    cost += "; the line below lets in this host alone: give the network of your near hosts there instead"
    return HostFinding(WHAT, state, found, cost, commands=[_rule(tried.near, ports)])


def _rule(near: str, ports: str) -> str:
    """The line for root that lets in the near address alone."""
    family = "ip6" if ":" in near else "ip"
    return (
        f"nft insert rule inet filter input {family} saddr {near.partition('%')[0]} tcp dport {ports} accept"
    )


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
