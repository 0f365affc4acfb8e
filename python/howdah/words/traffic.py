"""A run of traffic in a few lines."""

from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah._native import format_bytes, format_duration, format_rate
from howdah.text import count
from howdah.traffic.account import LoadAccount, Traffic
from howdah.values.record import Record


def summary(record: Record, file: Path | None) -> str:
    """What each load offered, sent and lost, and where the record is."""
    lines = told(record)
    if "lateness" in record.flags:
        lines.append("warning: this machine was too slow for the link; the rates are not the path's")
    if file is not None:
        lines.append(f"Record: howdah archive show {record.id}")
    return "\n".join(lines)


def told(record: Record) -> list[str]:
    """The same of a record alone, in lines; none when nothing was begun. Raises HowdahError."""
    if record.traffic is None:
        return []
    try:
        traffic = msgspec.convert(record.traffic, Traffic)
    except msgspec.ValidationError as error:
        raise HowdahError(f"{record.id} has traffic that this version does not know: {error}") from None
    width = max(len(load.name) for load in traffic.loads)
    head = f"{traffic.pattern.name} to {record.host}, {format_duration(traffic.elapsed_s)}"
    return [
        head,
        *(f"  {load.name.ljust(width)}  {_load(load, traffic.elapsed_s)}" for load in traffic.loads),
    ]


def _load(load: LoadAccount, elapsed_s: float) -> str:
    parts = []
    if load.offered_bytes is not None and load.sent_bytes is not None:
        parts += [f"offered {format_bytes(load.offered_bytes)}", f"sent {format_bytes(load.sent_bytes)}"]
    rate = f" ({format_rate(load.received_bytes * 8 / elapsed_s)})" if elapsed_s > 0 else ""
    parts.append(f"received {format_bytes(load.received_bytes)}{rate}")
    if load.source is not None:
        parts += _datagrams(load)
    else:
        parts.append(count(load.retransmissions, "retransmission"))
        if load.congestion_control is not None:
            parts.append(load.congestion_control)
    if load.kind == "rbudp":
        whole = sum(blast.whole for blast in load.blasts)
        parts.append(f"{whole:,} of {count(len(load.blasts), 'object')} whole, bit for bit")
    return ", ".join(parts)


def _datagrams(load: LoadAccount) -> list[str]:
    if load.source is None or load.sink is None or load.lost is None:
        return ["the far end could not tell what was lost"]
    share = f" ({load.lost / load.source.sent:.2%})" if load.source.sent else ""
    parts = [f"lost {load.lost:,} of {count(load.source.sent, 'datagram')}{share}"]
    for number, words in (
        (load.sink.reordered, "reordered"),
        (load.sink.doubled, "doubled"),
        (load.sink.overflowed, "of the lost dropped by the far host itself"),
    ):
        if number:
            parts.append(f"{number:,} {words}")
    return parts
