"""A plan for a path shared with unknown others, from the round trip and what both ends' kernels allow.

Nothing is known here of the capacity or of who else is on the path, so the plan must not be wrong for
any: CUBIC, which is what most others run, enough window for the fastest path we are built for, and
more streams where the round trip is long.

Reference: CUBIC, RFC 9438. What windows and buffers can be is ``howdah.values.sizes``.
"""

import math
from typing import NamedTuple

from howdah._native import format_bytes, format_duration, format_rate
from howdah.text import count
from howdah.values.path import ASSUMED_RTT_S, Path, round_trip_in_words
from howdah.values.plan import Alternative, Evidence, Plan, Why
from howdah.values.sizes import (
    BUFFER_MIN_BYTES,
    HEADROOM,
    INITIAL_WINDOW_BYTES,
    TARGET_RATE_BPS,
    Windows,
    choose_block,
    ramp_round_trips,
    streams_of,
    window_rate_bps,
    windows,
)

STREAMS_BY_RTT = ((0.002, 2), (0.050, 8), (math.inf, 16))
"""(round trip up to, streams). Each doubling saves one round trip of slow start, and a loss then halves a
smaller part of the whole. Copies of 2 GiB at 10 Gb/s, medians of four: at 20 ms 4, 8 and 16 within 2 %; at
100 ms 16 are 7 % faster than 8; at 183 ms 32 are 10 % faster than 16. But each stream is a share taken from
others, and public 10 G measurements with loss gain up to 16 only (Tierney et al., INDIS 2021)."""

STREAMS_FOR_WINDOW_MAX = 32
"""The most streams taken only to get round small buffer limits: each is a share taken from others."""


class StreamCount(NamedTuple):
    """How many streams, and the buffers they need."""

    streams: int
    buffer_bytes: int | None
    window_bytes: int
    """The window of each stream."""


def decide(path: Path) -> Plan:
    """A plan of CUBIC where the sender may use it, streams for the round trip, buffers for 10 Gb/s."""
    rtt_s = path.rtt_s or ASSUMED_RTT_S
    choice = choose_streams(rtt_s, windows(path), path.bytes_total, path.streams)
    control, control_why = choose_control(path)
    return Plan(
        path=path.kind,
        congestion_control=control,
        streams=choice.streams,
        buffer_bytes=choice.buffer_bytes,
        block_bytes=choose_block(choice.streams, path.bytes_total),
        encrypt=path.encrypt,
        why=_why(path, rtt_s, choice, control, control_why),
    )


def choose_streams(
    rtt_s: float, window: Windows, bytes_total: int | None, given: int | None = None
) -> StreamCount:
    """Chooses as few streams as slow start needs; more only where buffers give each too small a window.

    A small copy is all slow start, so it has as many streams as there are blocks, up to what a large one has.
    Where their number is given, only the buffers are chosen.
    """
    ramp = next(streams for limit_s, streams in STREAMS_BY_RTT if rtt_s <= limit_s)
    ramp = given or streams_of(ramp, bytes_total)
    needed = math.ceil(HEADROOM * TARGET_RATE_BPS / 8 * rtt_s)
    each = max(BUFFER_MIN_BYTES, -(-needed // ramp))
    if window.explicit_bytes >= each:
        return StreamCount(ramp, each, each)
    if bytes_total is not None:
        needed = min(needed, max(bytes_total, INITIAL_WINDOW_BYTES))
    each = -(-needed // ramp)
    if window.autotuned_bytes >= each:
        return StreamCount(ramp, None, window.autotuned_bytes)
    if window.explicit_bytes > window.autotuned_bytes:
        buffer_bytes = min(window.explicit_bytes, each)
        return StreamCount(given or _streams_for(needed, buffer_bytes, ramp), buffer_bytes, buffer_bytes)
    streams = given or _streams_for(needed, window.autotuned_bytes, ramp)
    return StreamCount(streams, None, window.autotuned_bytes)


def choose_control(path: Path) -> tuple[str | None, str]:
    """The congestion control of the sender's kernel to ask for, and a sentence saying why."""
    sender = path.sender
    if "cubic" in sender.congestion_controls_usable:
        return "cubic", "cubic, because others share this path and most of them run cubic."
    return None, (
        f"{sender.congestion_control_default}, the sender's default, because its kernel does not allow cubic."
    )


def _streams_for(needed_bytes: int, window_bytes: int, ramp: int) -> int:
    return max(ramp, min(STREAMS_FOR_WINDOW_MAX, -(-needed_bytes // window_bytes)))


def _why(path: Path, rtt_s: float, choice: StreamCount, control: str | None, control_why: str) -> Why:
    limit_bps = window_rate_bps(choice.streams, choice.window_bytes, rtt_s)
    ramp_s = format_duration(ramp_round_trips(choice.streams, rtt_s) * rtt_s)
    one_s = format_duration(ramp_round_trips(1, rtt_s) * rtt_s)
    beside_one = f", one stream {one_s}" if choice.streams > 1 else ""
    summary = [
        round_trip_in_words(path),
        control_why,
        f"{count(choice.streams, 'stream')}: slow start then needs {ramp_s} to reach 10 Gb/s{beside_one}.",
        _buffers_in_words(choice, limit_bps),
        f"{_unknown(path)} not known, so no rate is predicted.",
    ]
    return Why(
        summary=[sentence[:1].upper() + sentence[1:] for sentence in summary],
        evidence=_evidence(path, rtt_s, limit_bps),
        alternatives=_alternatives(path, rtt_s, choice, control),
    )


def _unknown(path: Path) -> str:
    remembered = path.memory is not None and path.memory.same_route
    return "The competing traffic is" if remembered else "The capacity and the competing traffic are"


def _buffers_in_words(choice: StreamCount, limit_bps: float) -> str:
    window = format_bytes(choice.window_bytes)
    how = (
        f"autotuned buffers reach {window} a stream"
        if choice.buffer_bytes is None
        else f"buffers of {window} are set, so that windows are as large as the path needs and no larger"
    )
    if limit_bps >= TARGET_RATE_BPS:
        return f"{how}, enough for {format_rate(limit_bps)}."
    return (
        f"{how}, which limits this transfer to {format_rate(limit_bps)}; howdah doctor says what raises that."
    )


def _evidence(path: Path, rtt_s: float, limit_bps: float) -> list[Evidence]:
    sender, receiver = path.sender, path.receiver
    return [
        Evidence(name="round trip", value=path.rtt_s, unit="s", source=path.rtt_source),
        Evidence(name="10 Gb/s × round trip", value=TARGET_RATE_BPS / 8 * rtt_s, unit="B", source="computed"),
        Evidence(
            name="send autotuning ends", value=sender.tcp_wmem_max_bytes, unit="B", source="sender tcp_wmem"
        ),
        Evidence(
            name="receive autotuning ends",
            value=receiver.tcp_rmem_max_bytes,
            unit="B",
            source="receiver tcp_rmem",
        ),
        Evidence(
            name="most send buffer",
            value=sender.wmem_max_bytes,
            unit="B",
            source=_limit(sender.privileged, "sender wmem_max"),
        ),
        Evidence(
            name="most receive buffer",
            value=receiver.rmem_max_bytes,
            unit="B",
            source=_limit(receiver.privileged, "receiver rmem_max"),
        ),
        Evidence(
            name="congestion controls",
            value=" ".join(sender.congestion_controls_available),
            source="sender kernel " + sender.kernel,
        ),
        Evidence(name="windows carry at most", value=limit_bps, unit="b/s", source="computed"),
    ]


def _limit(privileged: bool, source: str) -> str:
    return f"{source}, not binding with CAP_NET_ADMIN" if privileged else source


def _alternatives(path: Path, rtt_s: float, choice: StreamCount, control: str | None) -> list[Alternative]:
    lost = []
    window = windows(path)
    if path.streams is not None:
        own = choose_streams(rtt_s, window, path.bytes_total).streams
        if own != path.streams:
            lost.append(
                Alternative(
                    what=count(own, "stream"), why_not="chosen by the plan, but another number was given"
                )
            )
    if choice.streams > 1:
        one = choose_streams(rtt_s, window, path.bytes_total, 1)
        one_bps = window_rate_bps(1, one.window_bytes, rtt_s)
        held = f"its window carries at most {format_rate(one_bps)}, and " if one_bps < TARGET_RATE_BPS else ""
        lost.append(Alternative(what="one stream", why_not=f"{held}each loss halves all of its rate"))
    if choice.buffer_bytes is None:
        explicit, autotuned = format_bytes(window.explicit_bytes), format_bytes(choice.window_bytes)
        lost.append(
            Alternative(
                what="explicit buffers",
                why_not=f"they end at {explicit} here, where autotuning gives {autotuned}",
            )
        )
    else:
        autotuned_bps = window_rate_bps(choice.streams, window.autotuned_bytes, rtt_s)
        lost.append(
            Alternative(
                what="autotuned buffers",
                why_not=f"they end at {format_bytes(window.autotuned_bytes)} a stream, "
                f"{format_rate(autotuned_bps)} in all"
                if autotuned_bps < TARGET_RATE_BPS
                else "with a slow reader they grow until memory ends, and beyond what the path can hold",
            )
        )
    if control == "cubic" and "bbr" in path.sender.congestion_controls_available:
        lost.append(
            Alternative(
                what="bbr",
                why_not="fair only beside bbr, and what the others run is not known",
            )
        )
    return lost
