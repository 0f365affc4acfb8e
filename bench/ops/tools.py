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
WORDS = {
    "iperf": "one CUBIC stream",
    "iperf-bbr": "one BBR stream",
    "gridftp-8": "GridFTP, 8 streams",
    "gridftp-16": "GridFTP, 16 streams",
    "udt": "UDT",
    "cp": "howdah cp",
    "cp-cubic": "cp --cc cubic",
    "cp-bbr": "cp --cc bbr",
    "cp-1-cubic": "cp --cc cubic --streams 1",
    "cp-1-bbr": "cp --cc bbr --streams 1",
    CHANGING: "one CUBIC stream, one BBR stream, nobody, a minute each",
}
"""For people, where the name does not say it."""


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
    return "nobody" if name is None else WORDS.get(name, name)
