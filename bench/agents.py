"""Fifty agents over NATS, each a process in a network namespace of its own: ``make bench-agents``.

Shares are real: they lie in this kernel under ``hd_hold``, and are looked at from outside while ten of the
hosts send all they may, an order comes again and again, and the controller that leads is killed. At the end
everything must be as it was before.
"""

import argparse
import itertools
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.fleet import GUARANTEE_BPS, LEASE_S, PORTS, Fleet, Kernel, Look, Member, awaited, fleet
from bench.report import Row, Target, publish
from howdah.cc import programs
from howdah.cc.shares import Share, now_ns

AGENTS, SENDERS, ORDERS = 50, 10, 11
ORDER_MS = 70
"""50 ms and one round trip."""
SPAN_S = 4.0
LOOKS_PER_S, LOOKS_PER_S_AT_ORDERS = 10, 50
WINDOW_S = 0.5
"""Over which what a flow sends is compared with its share."""
SETTLE_S = 0.25
"""After a change: packets are counted with the ACK after them, which a busy machine has late."""
PACKET_BYTES = 1538


def run(count: int, senders: int, orders: int) -> dict[str, Any]:
    """All of it, once."""
    with fleet(count) as up:
        found: dict[str, Any] = {"agents": count, "started_s": up.started_s, "settled_s": up.settled_s}
        found["memory_bytes"] = sum(map(memory_bytes, up.agents))
        found |= at_rest(up)
        sending = up.hosts[:: count // senders][:senders]
        up.send(sending)
        with Kernel(LOOKS_PER_S) as kernel:
            time.sleep(SPAN_S)
            kernel.per_s = LOOKS_PER_S_AT_ORDERS
            begin_s, before_s = time.monotonic(), sum(map(cpu_s, up.agents))
            given_ns = [*up.order(orders), time.monotonic_ns() + 10**9]
            time.sleep(1)
            rest_s = found["agents_cpu"] * (time.monotonic() - begin_s)
            found["order_cpu_s"] = (sum(map(cpu_s, up.agents)) - before_s - rest_s) / orders
            kernel.per_s = LOOKS_PER_S
            found["orders_s"] = [in_force_after_s(kernel, *each) for each in itertools.pairwise(given_ns)]
            found |= killed(up, kernel, sending)
        found["most"] = max(look.sum_bps for look in kernel.looks) / GUARANTEE_BPS
        found["above"] = sent(kernel.looks, sending)[1] - 1
        found["looks"] = len(kernel.looks)
        found["codes"] = up.stop_agents()
        status = programs.status()
        held = [each for each in status.connections if each.hold and not each.listens]
        found["left"] = len(status.rules) + len(status.shares) + len(held)
    return found


def at_rest(up: Fleet) -> dict[str, float]:
    """Shares of a core while nothing changes."""
    spent = {"leader_cpu": [up.leader.member], "agents_cpu": up.agents}
    begin_s, before = time.monotonic(), {name: sum(map(cpu_s, each)) for name, each in spent.items()}
    time.sleep(SPAN_S)
    span_s = time.monotonic() - begin_s
    return {name: (sum(map(cpu_s, each)) - before[name]) / span_s for name, each in spent.items()}


def killed(up: Fleet, kernel: Kernel, senders: list[str]) -> dict[str, Any]:
    """Kills who leads; how long until another does, and what shares do meanwhile."""
    leader = up.leader
    (follower,) = (each for each in up.controllers if each is not leader)
    before, begin_ns, last_until_ns = kernel.look(), time.monotonic_ns(), now_ns() + round(LEASE_S * 1e9)
    leader.member.process.send_signal(signal.SIGKILL)
    awaited(lambda: follower.says_it_leads, "second leader")
    led_ns = time.monotonic_ns()

    def renewed() -> bool:
        # No lease that the dead one gave lasts longer.
        return all(share.until_ns > last_until_ns for share in kernel.look().shares.values())

    awaited(renewed, "lease of the second leader on every host")
    renewed_ns = time.monotonic_ns()
    time.sleep(2 * WINDOW_S)
    looks = kernel.between(begin_ns, time.monotonic_ns())
    least_bps = {flow: min(look.in_force_bps[flow] for look in looks) for flow in before.shares}
    return {
        "led_s": (led_ns - begin_ns) / 1e9,
        "renewed_s": (renewed_ns - begin_ns) / 1e9,
        "lowered": sum(least_bps[flow] < before.in_force_bps[flow] for flow in least_bps),
        "least": sent(looks, senders)[0],
    }


def in_force_after_s(kernel: Kernel, begin_ns: int, end_ns: int) -> float:
    """From an order until every share is what it is before the next."""
    looks = kernel.between(begin_ns, end_ns)
    last = looks[-1].in_force_bps
    other_ns = max([begin_ns, *(look.at_ns for look in looks if look.in_force_bps != last)])
    return (next(look.at_ns for look in looks if look.at_ns > other_ns) - begin_ns) / 1e9


def sent(looks: list[Look], senders: list[str]) -> tuple[float, float]:
    """The least and the most of its share that one of their flows sent in some window, two packets aside."""
    parts = [
        part
        for flow in (f"{name}/{host}" for name in PORTS for host in senders)
        for part in _parts([(look.at_ns, look.shares[flow]) for look in looks])
    ]
    return min(least for least, _ in parts), max(most for _, most in parts)


def _parts(looks: list[tuple[int, Share]]) -> Iterator[tuple[float, float]]:
    """Of its share, what one flow sent at least and at most in each window in which that does not change."""
    changed_ns = looks[0][0]
    for (_, before), (begin_ns, first), place in zip(looks, looks[1:], itertools.count(1), strict=False):
        if first.in_force_bps != before.in_force_bps:
            changed_ns = begin_ns
        window = [look for look in looks[place:] if look[0] - begin_ns <= WINDOW_S * 1e9]
        if window[-1] is looks[-1]:
            return
        same = all(share.in_force_bps == first.in_force_bps for _, share in window)
        if same and begin_ns - changed_ns >= SETTLE_S * 1e9:
            end_ns, last = window[-1]
            may_bytes = first.in_force_bps * (end_ns - begin_ns) / 8e9
            sent_bytes, aside_bytes = last.sent_bytes - first.sent_bytes, 2 * PACKET_BYTES
            yield (sent_bytes + aside_bytes) / may_bytes, (sent_bytes - aside_bytes) / may_bytes


def cpu_s(member: Member) -> float:
    """Spent so far."""
    fields = Path(f"/proc/{member.process.inner_pid()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(member: Member) -> int:
    """Its own, and its part of what it shares with others."""
    lines = Path(f"/proc/{member.process.inner_pid()}/smaps_rollup").read_text().splitlines()
    (kibibytes,) = (line.split()[1] for line in lines if line.startswith("Pss:"))
    return int(kibibytes) * 1024


def rows(found: Mapping[str, Any]) -> list[Row]:
    """Of one run."""
    order_ms = statistics.median(found["orders_s"]) * 1e3
    return [
        Row("agents, each in a namespace of its own", found["agents"], "", Target.at_least(AGENTS)),
        Row("from their start until all are connected", found["started_s"], "s"),
        Row("from their start until every flow has its share", found["settled_s"], "s"),
        Row("memory of all agents", found["memory_bytes"] / 1e6, "MB"),
        Row("a core's share at rest, all agents", found["agents_cpu"] * 100, "%"),
        Row("the same, the controller", found["leader_cpu"] * 100, "%", Target.at_most(50)),
        Row("an order in force on every host, median", order_ms, "ms", Target.at_most(ORDER_MS)),
        Row("CPU of all agents for it", found["order_cpu_s"] * 1e3, "ms"),
        Row("sum of shares at most, of the guarantee", found["most"] * 100, "%", Target.at_most(100)),
        Row("a flow above its share at most, in 0.5 s", found["above"] * 100, "%", Target.at_most(5)),
        Row("controller killed: another leads after", found["led_s"], "s", Target.at_most(2)),
        Row("every lease renewed after", found["renewed_s"], "s"),
        Row("shares that fell meanwhile", found["lowered"], "", Target.at_most(0, "0")),
        Row("a flow's part of its share then, at least", found["least"] * 100, "%", Target.at_least(90)),
        Row("rules, shares and held connections left", found["left"], "", Target.at_most(0, "0")),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.agents", description=__doc__)
    parser.add_argument("--agents", type=int, default=AGENTS, help="default: %(default)s")
    parser.add_argument("--no-keep", dest="keep", action="store_false", help="leave bench/results as it is")
    options = parser.parse_args()
    found = run(options.agents, min(SENDERS, options.agents), ORDERS)
    return 0 if publish("agents", rows(found), [found], keep=options.keep) else 1


if __name__ == "__main__":
    sys.exit(main())
