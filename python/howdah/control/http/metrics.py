"""The status in Prometheus' text format, version 0.0.4.

Written by hand: a collector of prometheus-client would be as long as this, and its registry is made for a
process that counts, not for one that tells of others. Tests read it with that library's parser.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from howdah.control.status import Status

Samples = Iterable[tuple[Mapping[str, str], float | None]]
"""Labels with a value; what is not known has no sample."""

_STATUS = {
    "guarantee_bits_per_second": ("guarantee_bps", "What the network promises."),
    "trusted_bits_per_second": ("trusted_bps", "The part of the guarantee that is given away."),
    "free_bits_per_second": ("free_bps", "The part of that which no flow may have."),
    "leads": ("leads", "1 if this controller leads."),
    "settled": ("settled", "1 if all orders are in force."),
    "epoch": ("epoch", "The number of the leader's term."),
}
_HOST = {
    "heard_seconds": ("heard_s", "Since the last message of its agent."),
    "lease_left_seconds": ("lease_left_s", "Until its lease runs out."),
    "drained": ("drained", "1 if it has only its minimums."),
}
_FLOW = {
    "share_bits_per_second": ("share_bps", "In force, on the wire."),
    "target_bits_per_second": ("target_bps", "What it is to have, on the wire."),
    "minimum_bits_per_second": ("minimum_bps", "What it falls back to, on the wire."),
    "sent_bits_per_second": ("sent_bps", "Really sent, on the wire."),
    "acked_bits_per_second": ("acked_bps", "Payload that has arrived."),
    "connections": ("connections", "TCP connections that are open."),
}


def exposition(status: Status, watchers: int) -> str:
    """The whole answer; ``watchers`` is how many follow the status over HTTP."""
    return "".join(_texts(status, watchers))


def _texts(status: Status, watchers: int) -> Iterator[str]:
    names = {"policy": status.policy, "controller": status.controller}
    yield _text("howdah_control_info", "Whose status this is.", [(names, 1)])
    for name, (field, says) in _STATUS.items():
        yield _text(f"howdah_control_{name}", says, [({}, getattr(status, field))])
    yield _text("howdah_control_watchers", "Who follow the status over HTTP.", [({}, watchers)])
    counts = Counter(each.traffic_class for each in status.asked)
    classes = dict.fromkeys(flow.traffic_class for flow in status.flows)
    samples = [({"class": name}, counts[name]) for name in classes]
    yield _text("howdah_control_asked", "How many ask for a class.", samples)
    hosts = [({"host": each.name}, each) for each in status.hosts]
    for name, (field, says) in _HOST.items():
        yield _text(f"howdah_host_{name}", says, [(labels, getattr(host, field)) for labels, host in hosts])
    flows = [
        ({"flow": each.flow, "class": each.traffic_class, "host": each.host}, each) for each in status.flows
    ]
    for name, (field, says) in _FLOW.items():
        yield _text(f"howdah_flow_{name}", says, [(labels, getattr(flow, field)) for labels, flow in flows])


def _text(name: str, says: str, samples: Samples) -> str:
    """The text of one metric; all are gauges."""
    lines = [f"# HELP {name} {says}", f"# TYPE {name} gauge"]
    for labels, value in samples:
        if value is not None:
            pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"{name}{{{pairs}}} {float(value)!r}" if pairs else f"{name} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
