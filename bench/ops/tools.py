"""The tools of the bench by name, as the plan and the record call them."""

import re

from bench.ops.gridftp import GridFtp
from bench.ops.howdah import Copy, Pattern
from bench.ops.iperf3 import Iperf3
from bench.ops.nfs import Nfs
from bench.ops.plan import CHANGING, PATTERNS
from bench.ops.tool import Tool
from bench.ops.udt import Udt

_NAMED = re.compile(r"(iperf|gridftp|nfs|cp)(?:-(\d+))?(?:-(cubic|bbr))?")
_WORDS = {
    "udt": "UDT",
    "square-udp": "square UDP",
    "square-rbudp": "square RBUDP",
    "square-tcp": "square CUBIC",
    "square-bbr": "square BBR",
    "bursty-udp-1-2": "UDP, 1 of 2 s",
    "bursty-udp-1-5": "UDP, 1 of 5 s",
    "bursty-udp-1-10": "UDP, 1 of 10 s",
    CHANGING: "one CUBIC stream, one BBR stream, nobody, a minute each",
}


def tool(name: str) -> Tool:
    """As ``iperf``, ``iperf-16-bbr``, ``gridftp-8``, ``nfs-4``, ``cp-cubic``, ``udt``, ``square-tcp``."""
    if name == "udt":
        return Udt()
    if name in (*PATTERNS, "square-bbr", CHANGING):
        return Pattern(name)
    found = _NAMED.fullmatch(name)
    if found is None:
        raise ValueError(f"no tool is called {name}")
    kind, streams, control = found[1], int(found[2]) if found[2] else None, found[3]
    if kind == "cp":
        return Copy(control, streams)
    count = streams or 1
    if kind == "gridftp":
        return GridFtp(count)
    if kind == "nfs":
        return Nfs(count)
    return Iperf3(count, control or "cubic")


def words(name: str | None) -> str:
    """Of a tool by its name, for people."""
    if name is None:
        return "nobody"
    found = _NAMED.fullmatch(name)
    if found is None:
        return _WORDS[name]
    kind, count, control = found[1], int(found[2] or 1), found[3]
    if kind == "cp":
        streams = f" --streams {count}" if found[2] else ""
        return f"cp --cc {control}{streams}" if control else "howdah cp"
    if kind == "nfs":
        return f"NFS, {_many(count, 'client')}"
    if kind == "gridftp":
        return f"GridFTP, {_many(count, 'stream')}"
    streams = f"{(control or 'cubic').upper()} stream"
    return f"one {streams}" if count == 1 else _many(count, streams)


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
