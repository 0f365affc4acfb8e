"""A plan for a path whose rate is guaranteed: the kernel holds the share, buffers have to carry it.

Nothing competes and nothing is probed, so congestion control is left to the rule of the host's agent. Streams
divide the share between them, and a loss takes nothing away.
"""

import math

from howdah._native import format_bytes, format_rate
from howdah.arguments import BadArgument
from howdah.text import count
from howdah.values import sizes
from howdah.values.path import ASSUMED_RTT_S, MOST_IT_CAN_BECOME, Path, Share, round_trip_in_words
from howdah.values.plan import Alternative, Evidence, Plan, Why

STREAMS = 4
"""The copy's own ssh connection has an equal part while a word of it is on its way, a round trip every 5 s:
half beside one stream, a fifth beside four. Beside many each is so slow that the kernel sends few segments
at a time, which takes processors (tcp_tso_autosize)."""
WINDOWS = 4
"""Buffers, in bandwidth × delay: a segment that is lost twice is there two round trips later, while all that
follows it waits; and as much again, so that the rate stands when the round trip becomes twice as long."""


def decide(path: Path) -> Plan:
    """The plan for all that the share can become. Raises HowdahError without a share."""
    if path.share is None:
        raise BadArgument("{path} guaranteed needs a class of the policy; give it, as {traffic_class} images")
    rtt_s = path.rtt_s or ASSUMED_RTT_S
    streams = path.streams or sizes.streams_of(STREAMS, path.bytes_total)
    window = sizes.windows(path)
    wanted = max(sizes.BUFFER_MIN_BYTES, math.ceil(WINDOWS * path.share.most_bps / 8 * rtt_s / streams))
    explicit = window.explicit_bytes >= min(wanted, window.autotuned_bytes)
    buffer_bytes = min(wanted, window.explicit_bytes) if explicit else None
    return Plan(
        path=path.kind,
        congestion_control=None,
        streams=streams,
        buffer_bytes=buffer_bytes,
        block_bytes=sizes.choose_block(streams, path.bytes_total),
        encrypt=path.encrypt,
        why=_why(path, path.share, rtt_s, streams, buffer_bytes or window.autotuned_bytes),
    )


def _why(path: Path, share: Share, rtt_s: float, streams: int, window_bytes: int) -> Why:
    most = format_rate(share.most_bps)
    carried_bps = sizes.window_rate_bps(streams, window_bytes, rtt_s)
    carries = f"Windows of {format_bytes(window_bytes)} carry {format_rate(carried_bps)}"
    if carried_bps < share.most_bps:
        carries += "; howdah doctor says what raises that"
    return Why(
        summary=[
            round_trip_in_words(path),
            f"The kernel holds {share.flow} to its share, {_rate(share)} now and at most {most}.",
            f"{count(streams, 'stream')} divide it, so that ssh, one more connection, takes little."
            if streams > 1
            else "One stream carries it, and ssh, one more connection, may take half for a while.",
            f"{carries}.",
            "No rate is predicted: the copy gets its share, which may change while it runs.",
        ],
        evidence=[
            Evidence(name="round trip", value=path.rtt_s, unit="s", source=path.rtt_source),
            Evidence(
                name=f"share of {share.flow}",
                value=share.rate_bps,
                unit="b/s",
                source=f"policy {share.policy}",
            ),
            Evidence(
                name=MOST_IT_CAN_BECOME, value=share.most_bps, unit="b/s", source=f"policy {share.policy}"
            ),
            Evidence(name="windows carry at most", value=carried_bps, unit="b/s", source="computed"),
        ],
        alternatives=[
            Alternative(
                what="a congestion control of its own",
                why_not="it would exceed the share, and the rest is promised to others",
            )
        ],
    )


def _rate(share: Share) -> str:
    return "not known" if share.rate_bps is None else format_rate(share.rate_bps)
