"""Facts → findings: what each gap costs at a rate and round trip, and the lines that mend it. Pure.

A *gap* holds a transfer below the rate; a *note* costs something else or only some transfers.

References: sysctls, Documentation/networking/ip-sysctl.rst; window scaling and timestamps, RFC 7323;
SACK, RFC 2018; CUBIC's time back to its last window, RFC 9438 §4.2 (K = ∛(W (1 − β) / C)).
"""

import math
from typing import Literal

import msgspec

from howdah._native import format_bytes, format_duration, format_rate
from howdah.decide import Path, shared
from howdah.doctor.facts import Facts
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
    """What the host is judged for."""

    rate_bps: float
    rtt_s: float

    @property
    def bdp_bytes(self) -> int:
        """What is in flight at this rate."""
        return math.ceil(self.rate_bps * self.rtt_s / 8)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at."""

    what: str
    state: State
    found: str
    cost: str | None = None
    """What it costs at the aim; null when nothing."""
    sysctls: dict[str, str] = {}
    """Settings that mend it."""
    commands: list[str] = []
    """Lines to run as root that mend it otherwise."""


def judge(facts: Facts, aim: Aim) -> list[Finding]:
    """All findings of this host."""
    return [
        *judge_limits(facts.limits, aim),
        *_switches(facts, aim),
        _ssh(facts),
        _aes(facts),
        _bpf(facts),
        _lab(facts),
        _clock(facts),
    ]


def judge_limits(host: HostLimits, aim: Aim) -> list[Finding]:
    """What can be said of a host from its limits alone, such as a far one."""
    return [
        _control(host),
        _buffers(host, aim),
        _memory(host, aim),
        _metrics(host, aim),
        _idle(host, aim),
    ]


def _control(host: HostLimits) -> Finding:
    what, available = "congestion control", host.congestion_controls_available
    found = f"{' '.join(available)}; default {host.congestion_control_default}"
    sysctls: dict[str, str] = {}
    commands: list[str] = []
    if "cubic" in host.congestion_controls_usable:
        if "bbr" in available:
            return Finding(what=what, state="good", found=found)
        cost, commands = "no bbr: paths with random loss cannot be given it", ["modprobe tcp_bbr"]
    elif "cubic" in available:
        cost = "cubic is not allowed to users, the default is taken instead"
        allowed = " ".join([*host.congestion_controls_allowed, "cubic"])
        sysctls = {"net.ipv4.tcp_allowed_congestion_control": allowed}
    else:
        cost = "no cubic: the default is taken, which may grow its window more slowly"
        commands = ["modprobe tcp_cubic"]
    return Finding(what=what, state="note", found=found, cost=cost, sysctls=sysctls, commands=commands)


def _buffers(host: HostLimits, aim: Aim) -> Finding:
    """Both buffers as a sender and a receiver like this one would meet; the plan itself is asked."""
    path = Path(sender=host, receiver=host, rtt_s=aim.rtt_s)
    window = sizes.windows(path)
    choice = shared.choose_streams(aim.rtt_s, window, None)
    most_bytes = max(window)
    one_bps = sizes.window_rate_bps(1, most_bytes, aim.rtt_s)
    all_bps = sizes.window_rate_bps(choice.streams, most_bytes, aim.rtt_s)
    send_bytes, receive_bytes = host.tcp_wmem_max_bytes, host.tcp_rmem_max_bytes
    found = f"send {format_bytes(send_bytes)}, receive {format_bytes(receive_bytes)} by autotuning"
    if window.explicit_bytes > window.autotuned_bytes:
        found += f"; {format_bytes(window.explicit_bytes)} when asked for"
    if one_bps >= aim.rate_bps:
        return Finding(what="buffers", state="good", found=found)
    cost = (
        f"one stream carries at most {format_rate(one_bps)} of {format_rate(aim.rate_bps)}, "
        f"the {choice.streams} of a plan {format_rate(all_bps)}"
    )
    send = _power(aim.bdp_bytes * sizes.HEADROOM)
    receive = _power(aim.bdp_bytes * sizes.HEADROOM / sizes.RECEIVE_SHARE)
    return Finding(
        what="buffers",
        state="gap" if all_bps < aim.rate_bps else "note",
        found=found,
        cost=cost,
        sysctls={
            "net.core.rmem_max": str(max(receive, host.rmem_max_bytes)),
            "net.core.wmem_max": str(max(send, host.wmem_max_bytes)),
            "net.ipv4.tcp_rmem": f"4096 131072 {max(receive, host.tcp_rmem_max_bytes)}",
            "net.ipv4.tcp_wmem": f"4096 16384 {max(send, host.tcp_wmem_max_bytes)}",
        },
    )


def _memory(host: HostLimits, aim: Aim) -> Finding:
    if host.tcp_mem_pages is None:
        return Finding(what="TCP memory", state="good", found="not known in this network namespace")
    _, pressure, high = host.tcp_mem_pages
    needed = math.ceil(aim.bdp_bytes * sizes.HEADROOM)
    found = f"{format_bytes(high * _PAGE_BYTES)} for all connections"
    if pressure * _PAGE_BYTES >= needed:
        return Finding(what="TCP memory", state="good", found=found)
    pages = -(-needed // _PAGE_BYTES)
    mended = (
        max(old, new) for old, new in zip(host.tcp_mem_pages, (pages, 2 * pages, 3 * pages), strict=True)
    )
    reach_bps = high * _PAGE_BYTES * 8 / sizes.HEADROOM / aim.rtt_s
    return Finding(
        what="TCP memory",
        state="gap" if reach_bps < aim.rate_bps else "note",
        found=found,
        cost=f"windows of all streams together carry at most {format_rate(reach_bps)}",
        sysctls={"net.ipv4.tcp_mem": " ".join(map(str, mended))},
    )


def _metrics(host: HostLimits, aim: Aim) -> Finding:
    if host.no_metrics_save:
        return Finding(what="remembered metrics", state="good", found="not kept between connections")
    segments = aim.bdp_bytes / _MSS_BYTES
    back_s = (segments * (1 - _CUBIC_BETA) / _CUBIC_C) ** (1 / 3)
    return Finding(
        what="remembered metrics",
        state="note",
        found="a connection begins with the threshold the last one to that host ended with",
        cost=f"after a lossy run one cubic stream may take {format_duration(back_s)} back to the full rate",
        sysctls={"net.ipv4.tcp_no_metrics_save": "1"},
    )


def _idle(host: HostLimits, aim: Aim) -> Finding:
    if not host.slow_start_after_idle:
        return Finding(what="idle connections", state="good", found="keep their window")
    ramp_s = sizes.ramp_round_trips(1, aim.rtt_s) * aim.rtt_s
    return Finding(
        what="idle connections",
        state="note",
        found="begin slow start again after a pause",
        cost=f"up to {format_duration(ramp_s)} after each pause, such as a slow disk",
        sysctls={"net.ipv4.tcp_slow_start_after_idle": "0"},
    )


def _switches(facts: Facts, aim: Aim) -> list[Finding]:
    """What every kernel has on until somebody switches it off."""
    streams = shared.STREAMS_FOR_WINDOW_MAX
    unscaled_bps = sizes.window_rate_bps(streams, _WINDOW_UNSCALED_BYTES, aim.rtt_s)
    unscaled: State = "gap" if unscaled_bps < aim.rate_bps else "note"
    carried = f"64 KiB: {streams} streams carry {format_rate(unscaled_bps)}"
    wrap = format_duration(_SEQUENCE_BYTES * 8 / aim.rate_bps)

    def switch(what: str, on: bool | None, state: State, cost: str, setting: str) -> Finding:
        if on is not False:
            return Finding(what=what, state="good", found=_known(on, "on"))
        return Finding(what=what, state=state, found="off", cost=cost, sysctls={f"net.ipv4.{setting}": "1"})

    return [
        switch(
            "window scaling",
            facts.window_scaling,
            unscaled,
            f"windows end at {carried}",
            "tcp_window_scaling",
        ),
        switch(
            "timestamps",
            facts.timestamps,
            "note",
            f"sequence numbers wrap in {wrap}, round trips are measured worse",
            "tcp_timestamps",
        ),
        switch(
            "selective acknowledgment",
            facts.sack,
            "gap",
            "one round trip for each segment lost, where it would be one for all lost together",
            "tcp_sack",
        ),
        switch(
            "receive autotuning",
            facts.receive_autotuning,
            unscaled,
            f"windows stay at {carried}",
            "tcp_moderate_rcvbuf",
        ),
    ]


def _ssh(facts: Facts) -> Finding:
    if facts.ssh_client:
        return Finding(what="ssh", state="good", found=facts.ssh_client)
    return Finding(
        what="ssh",
        state="gap",
        found="no ssh",
        cost="no far end can be started from here",
        commands=["apt-get install openssh-client"],
    )


def _aes(facts: Facts) -> Finding:
    if facts.aes_instructions:
        return Finding(what="encryption", state="good", found="the processor has AES instructions")
    return Finding(
        what="encryption",
        state="note",
        found="the processor has no AES instructions",
        cost="encrypting takes tens of times the processor; on a fibre you own, use --plaintext",
    )


def _bpf(facts: Facts) -> Finding:
    what = "BPF congestion control"
    if facts.programs_refused is not None:
        return Finding(
            what=what,
            state="note",
            found=facts.programs_refused,
            cost="only the kernel's own congestion controls",
        )
    return Finding(what=what, state="good", found="can be loaded")


def _lab(facts: Facts) -> Finding:
    if facts.namespaces_refused_by:
        return Finding(
            what="labs",
            state="note",
            found="this user may not make namespaces",
            cost="howdah lab needs root here",
            sysctls=facts.namespaces_refused_by,
        )
    if not facts.tun:
        return Finding(
            what="labs",
            state="note",
            found="/dev/net/tun cannot be opened",
            cost="howdah lab does not work here",
            commands=["modprobe tun", "chmod 666 /dev/net/tun"],
        )
    return Finding(what="labs", state="good", found="namespaces and TUN devices can be made")


def _clock(facts: Facts) -> Finding:
    source = facts.clock_source or "unknown source"
    if facts.clock_source in {"hpet", "acpi_pm", "jiffies"}:
        return Finding(
            what="clock",
            state="note",
            found=source,
            cost="each look at the clock takes about a microsecond: paced sending and labs become late",
            commands=["echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource"],
        )
    if facts.clock_synchronised is False:
        return Finding(
            what="clock",
            state="note",
            found=f"{source}, not synchronised",
            cost="records made on two hosts do not sort by time",
            commands=["timedatectl set-ntp true"],
        )
    return Finding(
        what="clock", state="good", found=f"{source}, {_known(facts.clock_synchronised, 'synchronised')}"
    )


def _known(value: bool | None, word: str) -> str:
    return "not known" if value is None else word


def _power(size_bytes: float) -> int:
    """The next power of two, within what the kernel takes."""
    return min(_BUFFER_MAX_BYTES, 1 << math.ceil(math.log2(max(_PAGE_BYTES, size_bytes))))
