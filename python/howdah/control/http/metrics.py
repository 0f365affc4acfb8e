"""The status in Prometheus' text format, version 0.0.4.

Written by hand: a collector of prometheus-client would be as long as this, and its registry is made for a
process that counts, not for one that tells of others. Tests read it with that library's parser.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from howdah.control.status import FlowStatus, HostStatus, Status

Labels = Mapping[str, str]


class Metric(NamedTuple):
    """All are gauges; what is not known has no sample."""

    name: str
    says: str
    samples: list[tuple[Labels, float | None]]


def exposition(status: Status, watchers: int) -> str:
    """The whole answer; ``watchers`` is how many follow the status over HTTP."""
    return "".join(_text(each) for each in _metrics(status, watchers))


def _metrics(status: Status, watchers: int) -> Iterator[Metric]:
    names = {"policy": status.policy, "controller": status.controller}
    yield Metric("howdah_control_info", "Whose status this is.", [(names, 1)])
    yield _single(
        "howdah_control_guarantee_bits_per_second", "What the network promises.", status.guarantee_bps
    )
    yield _single("howdah_control_trusted_bits_per_second", "What of it is given away.", status.trusted_bps)
    yield _single("howdah_control_free_bits_per_second", "What of that nobody can have.", status.free_bps)
    yield _single("howdah_control_leads", "1 where this controller leads.", status.leads)
    yield _single("howdah_control_settled", "1 where all that is ordered is in force.", status.settled)
    yield _single("howdah_control_epoch", "Of the leader's term.", status.epoch)
    yield _single("howdah_control_watchers", "Who follow the status over HTTP.", watchers)
    yield Metric(
        "howdah_control_asked",
        "How many ask for a class.",
        [
            ({"class": name}, sum(each.traffic_class == name for each in status.asked))
            for name in dict.fromkeys(flow.traffic_class for flow in status.flows)
        ],
    )
    yield from _of_hosts(status.hosts)
    yield from _of_flows(status.flows)


def _single(name: str, says: str, value: float | None) -> Metric:
    return Metric(name, says, [({}, value)])


def _of_hosts(hosts: list[HostStatus]) -> Iterator[Metric]:
    labels = [{"host": each.name} for each in hosts]

    def metric(name: str, says: str, values: list[float | None]) -> Metric:
        return Metric(f"howdah_host_{name}", says, list(zip(labels, values, strict=True)))

    yield metric("heard_seconds", "Since its agent was last heard of.", [each.heard_s for each in hosts])
    yield metric("lease_left_seconds", "Until its lease runs out.", [each.lease_left_s for each in hosts])
    yield metric("drained", "1 where it is left with its minimums.", [each.drained for each in hosts])


def _of_flows(flows: list[FlowStatus]) -> Iterator[Metric]:
    labels = [{"flow": each.flow, "class": each.traffic_class, "host": each.host} for each in flows]

    def metric(name: str, says: str, values: list[int | None]) -> Metric:
        return Metric(f"howdah_flow_{name}", says, list(zip(labels, values, strict=True)))

    rate = "bits_per_second"
    yield metric(f"share_{rate}", "In force, on the wire.", [each.share_bps for each in flows])
    yield metric(f"target_{rate}", "What it is to have, on the wire.", [each.target_bps for each in flows])
    yield metric(
        f"minimum_{rate}", "What it falls back to, on the wire.", [each.minimum_bps for each in flows]
    )
    yield metric(f"sent_{rate}", "Really sent, on the wire.", [each.sent_bps for each in flows])
    yield metric(f"acked_{rate}", "Payload that has arrived.", [each.acked_bps for each in flows])
    yield metric("connections", "TCP connections that are open.", [each.connections for each in flows])


def _text(metric: Metric) -> str:
    lines = [f"# HELP {metric.name} {metric.says}", f"# TYPE {metric.name} gauge"]
    for labels, value in metric.samples:
        if value is not None:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(
                f"{metric.name}{{{pairs}}} {float(value)!r}" if pairs else f"{metric.name} {float(value)!r}"
            )
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
