"""The text on a lab: its link and hosts in one line, and the counts of its link in tables."""

from collections.abc import Callable
from typing import Any

from rich.table import Table

from howdah._native import format_bytes, format_duration, format_rate
from howdah.lab.topology import Topology
from howdah.text import count
from howdah.values.link import CableDrops, Direction, LinkSpec, LinkStats


def in_short(link: LinkSpec, topology: Topology) -> str:
    """The lab in one line, as ``10 Gb/s, 100 ms round trip, 4 hosts to 1``."""
    ways = link.near_to_far, link.far_to_near
    said = [_rate(ways[0])]
    if ways[0].rate_bps != ways[1].rate_bps:
        said[0] += f" there, {_rate(ways[1])} back"
    said.append(f"{format_duration(sum(way.delay_ns for way in ways) / 1e9)} round trip")
    if any(way.loss or way.burst for way in ways):
        said.append("lossy")
    if any(way.changes for way in ways):
        said.append("changing")
    if topology.lan:
        said.append(f"{count(len(topology.left), 'host')} to {len(topology.right)}")
    return ", ".join(said)


def _rate(direction: Direction) -> str:
    return "unshaped" if direction.rate_bps is None else format_rate(direction.rate_bps)


def tables(stats: LinkStats) -> list[Table]:
    """The tables of the link's counts, and of what cables of hosts dropped if any did."""
    dropping = {name: drops for name, drops in (stats.cables or {}).items() if drops != CableDrops(0, 0)}
    return [_link(stats), *([_cables(dropping)] if dropping else [])]


def _cables(dropping: dict[str, CableDrops]) -> Table:
    table = Table("packets dropped", "at its router's port", "by the machine", box=None, pad_edge=False)
    for name, drops in dropping.items():
        table.add_row(name, f"{drops.queue:,}", f"{drops.machine:,}")
    return table


def _link(stats: LinkStats) -> Table:
    table = Table("", "near to far", "far to near", box=None, pad_edge=False, title_justify="left")
    ways = stats.directions["near_to_far"], stats.directions["far_to_near"]
    elapsed_s = stats.elapsed_ns / 1e9

    def row(name: str, shown: Callable[[Any], str]) -> None:
        table.add_row(name, *(shown(way) for way in ways))

    row("on the wire", lambda way: format_bytes(way.wire_bytes))
    row("mean rate", lambda way: format_rate(way.wire_bytes * 8 / elapsed_s) if elapsed_s else "")
    row("segments", lambda way: f"{way.segments:,}")
    for cause in ("queue", "loss", "burst", "outage", "machine"):
        if any(getattr(way.dropped, cause) for way in ways):
            row(f"dropped: {cause}", lambda way, cause=cause: f"{getattr(way.dropped, cause):,}")  # type: ignore[misc]
    row("deepest queue", lambda way: format_bytes(way.queue_bytes_max))
    row("longest in queue", lambda way: format_duration(way.queue_delay_max_ns / 1e9))
    late = stats.lateness
    if late.p50_ns is not None and late.p99_ns is not None:
        table.add_row(
            "released late by",
            f"{format_duration(late.p50_ns / 1e9)} median",
            f"{format_duration(late.p99_ns / 1e9)} for 1 in 100",
        )
    return table
