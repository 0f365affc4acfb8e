"""The rows of ``make bench-lsst``, from the runs alone."""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.cc.judge import POSSIBLE_BPS, spoilt
from bench.cc.rate import furthest_ahead_Bps
from bench.cc.tail import PAYLOAD_BYTES, WIRE_BYTES
from bench.lsst.sampler import COARSELY_S, Look
from bench.report import Row, Target

Run = dict[str, Any]

PAYLOAD_PERCENT = 99.6
"""The paper's 117.1 of 117.6 MB/s."""
IMAGES_S = 24.5
UNDER_USED_RTT = 1.5
REPLICATION_PERCENT = 3.0
TAKEOVER_S = 2.0
HELD_PERCENT = 98.0
GOES_PERCENT = 50.0
"""A flow that sends less than half of its share has nearly stopped."""
EXCEEDS_PERCENT = 102.0

_EDGE_S = 3.0
_LAST_BYTES = 20_000
"""What is said beside the payload when all of it has been sent."""
_WINDOW_S = 0.045
_FULL = 0.9
_AROUND_S = 2.0
_SECOND_S, _STEP_S = 1.0, 0.25
_QUARTER_S = 0.25
_NEW_RTT_S = 2.0
"""Until hold has seen that the round trip is longer for good (its base_rtt_window)."""


def rows(runs: Sequence[Run]) -> list[Row]:
    judges = {"figure": _figure, "leader": _leader, "longer": _longer}
    return [row for run in runs if run["part"] in judges for row in judges[run["part"]](run)]


def looks(run: Run, flow: str) -> list[Look]:
    """Of the record: time, share, and bytes sent and acknowledged, in words."""
    return [
        Look(float(t_s), int(share), int(sent), int(acked))
        for t_s, share, sent, acked in (line.split() for line in run["flows"][flow])
    ]


def between(all_looks: Sequence[Look], begin_s: float, end_s: float) -> list[Look]:
    return [each for each in all_looks if begin_s <= each.t_s <= end_s]


def image_flows(run: Run) -> list[str]:
    return [name for name in run["flows"] if name.startswith("images/")]


def others(run: Run) -> list[str]:
    return [name for name in run["flows"] if not name.startswith("images/")]


def last_acked_s(run: Run, flow: str, images: Run) -> float:
    """When the receiver had confirmed the last byte of a host's part."""
    own = between(looks(run, flow), images["asked_s"], images["released_s"])
    return next(each.t_s for each in own if each.acked_bytes >= own[-1].acked_bytes - _LAST_BYTES)


def full_s(run: Run, images: Run) -> float:
    """From when on all images go at their share."""
    return max(_full_s(looks(run, flow), images) for flow in image_flows(run))


def _full_s(all_looks: Sequence[Look], images: Run) -> float:
    least_bps = min(each.share_bps for each in all_looks)
    own = between(all_looks, images["asked_s"], images["released_s"])
    for place, each in enumerate(own):
        before = next((b for b in own[place::-1] if each.t_s - b.t_s >= 0.2), None)
        if before is None or before.share_bps <= least_bps:
            continue
        most_bps = max(each.share_bps, before.share_bps)
        if (each.sent_bytes - before.sent_bytes) * 8 > _FULL * most_bps * (each.t_s - before.t_s):
            return each.t_s
    return own[-1].t_s


def payload_Bps(run: Run, begin_s: float, end_s: float) -> float:
    """Of all flows together, as the receiver confirmed it."""
    total = 0.0
    for name in run["flows"]:
        own = between(looks(run, name), begin_s, end_s)
        total += furthest_ahead_Bps([(round(each.t_s * 1e9), each.acked_bytes) for each in own], _EDGE_S)
    return total


def under_used_s(run: Run, begin_s: float, end_s: float) -> float:
    """The longest span of it in which all together sent less than 90 % of the guarantee, on the wire."""
    times = [each.t_s for each in between(looks(run, next(iter(run["flows"]))), begin_s, end_s)]
    sums = dict.fromkeys(times, 0)
    for name in run["flows"]:
        for each in between(looks(run, name), begin_s, end_s):
            if each.t_s in sums:
                sums[each.t_s] += each.sent_bytes
    longest, since_s, start = 0.0, begin_s, 0
    for t_s in times:
        while t_s - times[start] > _WINDOW_S:
            start += 1
        span_s = t_s - times[start]
        if span_s and (sums[t_s] - sums[times[start]]) * 8 >= _FULL * run["guarantee_bps"] * span_s:
            since_s = t_s
        longest = max(longest, t_s - since_s)
    return longest


def rates(own: Sequence[Look], window_s: float, step_s: float) -> Iterator[tuple[Look, float]]:
    """The end of each window, with the most that the share was in it, and what was sent, on the wire."""
    start, due_s = 0, own[0].t_s + window_s
    for place, each in enumerate(own):
        if each.t_s < due_s:
            continue
        while each.t_s - own[start + 1].t_s >= window_s:
            start += 1
        due_s = each.t_s + step_s
        most_bps = max(look.share_bps for look in own[start : place + 1])
        sent_bps = (each.sent_bytes - own[start].sent_bytes) * 8 / (each.t_s - own[start].t_s)
        yield each._replace(share_bps=most_bps), sent_bps


def _figure(run: Run) -> list[Row]:
    late = spoilt(run)
    found = [row for images in run["images"] for row in _images(run, images, late)]
    (replication,) = (name for name in run["flows"] if name.startswith("replication/"))
    own = between(looks(run, replication), run["begun_s"], run["ended_s"])
    apart = max(abs(rate_bps / look.share_bps - 1) for look, rate_bps in rates(own, _SECOND_S, _STEP_S))
    standby = [(float(at_s), int(count)) for at_s, count in map(str.split, run["standby"])]
    received_Bps = (standby[-1][1] - standby[0][1]) / (standby[-1][0] - standby[0][0])
    return [
        *found,
        Row(
            "replication: furthest from its share in any second, changes included",
            100 * apart,
            "%",
            Target.at_most(REPLICATION_PERCENT, f"≤ {REPLICATION_PERCENT:g}"),
            late,
        ),
        Row("replication: log at the standby, whole time (the paper about 5.8)", received_Bps / 1e6, "MB/s"),
        Row(
            "shares in force together, most at any look, of the guarantee",
            100 * _most_shared(run),
            "%",
            Target.at_most(100),
        ),
    ]


def _most_shared(run: Run) -> float:
    sums: dict[float, int] = {}
    for name in run["flows"]:
        for each in looks(run, name):
            sums[each.t_s] = sums.get(each.t_s, 0) + each.share_bps
    guarantee_bps: int = run["guarantee_bps"]
    return max(sums.values()) / guarantee_bps


def _images(run: Run, images: Run, late: str) -> list[Row]:
    flows, by = image_flows(run), images["by"]
    done_s = {flow: last_acked_s(run, flow, images) for flow in flows}
    background = next(name for name in run["flows"] if name.startswith("background/"))
    shares = between(looks(run, background), images["asked_s"] - 1, images["released_s"] + 3)
    most_bps = max(each.share_bps for each in shares)
    fell_s = next(each.t_s for each in shares if each.share_bps < most_bps)
    rose_s = next(each.t_s for each in shares if each.t_s > fell_s + 1 and each.share_bps == most_bps)
    payload = payload_Bps(run, full_s(run, images), min(done_s.values()) - 0.5)
    in_rtt = UNDER_USED_RTT * run["rtt_s"] * 1e3
    limit = Target.at_most(in_rtt, f"≤ {in_rtt:g}")
    begin_ms = 1e3 * under_used_s(run, fell_s - 0.1, fell_s + _AROUND_S)
    # The first host may be done long before the last: what it leaves is the other's.
    end_ms = 1e3 * under_used_s(run, min(rose_s - _AROUND_S, *done_s.values()), rose_s + 1)
    return [
        Row(
            f"images by {by}: payload of all flows meanwhile, of 117.6 MB/s",
            100 * payload / POSSIBLE_BPS,
            "%",
            Target.at_least(PAYLOAD_PERCENT),
            late,
        ),
        Row(
            f"images by {by}: 2,688 MB from request to last byte acknowledged",
            max(done_s.values()) - images["asked_s"],
            "s",
            Target.at_most(IMAGES_S),
            late,
        ),
        Row(
            f"images by {by}: of that, until they go at their share",
            full_s(run, images) - images["asked_s"],
            "s",
        ),
        Row(f"images by {by}: path under-used when they begin", begin_ms, "ms", limit, late),
        Row(f"images by {by}: path under-used when they end", end_ms, "ms", limit, late),
    ]


def _leader(run: Run) -> list[Row]:
    late = spoilt(run)
    (images,) = run["images"]
    begin_s, end_s = (
        full_s(run, images) + 1,
        min(last_acked_s(run, flow, images) for flow in image_flows(run)) - 0.5,
    )
    seen = [
        100 * rate_bps / look.share_bps
        for name in run["flows"]
        for look, rate_bps in rates(between(looks(run, name), begin_s, end_s), _QUARTER_S, _QUARTER_S)
    ]
    took_s = None if run.get("followed_s") is None else run["followed_s"] - run["killed_s"]
    what = "leader killed while images go, over NATS"
    return [
        Row(f"{what}: until the other leads", took_s, "s", Target.at_most(TAKEOVER_S)),
        Row(
            f"{what}: least of its share that any flow sent, in any quarter of a second",
            min(seen),
            "%",
            Target.at_least(GOES_PERCENT),
            late,
        ),
        Row(f"{what}: most of its share", max(seen), "%", Target.at_most(EXCEEDS_PERCENT), late),
        Row(
            f"{what}: shares in force together, of the guarantee",
            100 * _most_shared(run),
            "%",
            Target.at_most(100),
        ),
    ]


def _longer(run: Run) -> list[Row]:
    (images,) = run["images"]
    change_s = run["changes_s"]
    done_s = min(last_acked_s(run, flow, images) for flow in image_flows(run))
    end_s = done_s - 0.5
    spans = {"before": (full_s(run, images), change_s), "after": (change_s + _NEW_RTT_S, end_s)}
    sent = {
        name: sum(_sent_bps(between(looks(run, flow), *span)) for flow in image_flows(run))
        for name, span in spans.items()
    }
    return [
        Row(
            "round trip from 180 to 360 ms while images go: rate after, of the rate before",
            100 * sent["after"] / sent["before"],
            "%",
            Target.at_least(HELD_PERCENT),
            spoilt(run),
        ),
        Row("the same: longest below 90 % after the change", 1e3 * _below_s(run, change_s, end_s), "ms"),
        Row("the same: of the share", 100 * sent["after"] / _shares_bps(run, change_s + _NEW_RTT_S), "%"),
    ]


def _below_s(run: Run, begin_s: float, end_s: float) -> float:
    """The longest time in which images sent less than 90 % of their share."""
    sums: dict[float, float] = {}
    for name in image_flows(run):
        for look, rate_bps in rates(between(looks(run, name), begin_s, end_s), _QUARTER_S, COARSELY_S):
            sums[look.t_s] = sums.get(look.t_s, 0.0) + rate_bps
    longest, since_s = 0.0, begin_s
    for t_s, rate_bps in sorted(sums.items()):
        if rate_bps > _FULL * _shares_bps(run, begin_s):
            since_s = t_s
        longest = max(longest, t_s - since_s)
    return longest


def _sent_bps(own: Sequence[Look]) -> float:
    return (own[-1].sent_bytes - own[0].sent_bytes) * 8 / (own[-1].t_s - own[0].t_s)


def _shares_bps(run: Run, at_s: float) -> float:
    return sum(between(looks(run, flow), at_s - 1, at_s)[-1].share_bps for flow in image_flows(run))


def payload_of(wire_bps: float) -> float:
    """Bytes of payload a second in full segments."""
    return wire_bps / 8 * PAYLOAD_BYTES / WIRE_BYTES
