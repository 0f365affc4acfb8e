"""CPU of our programs beside the kernel's cubic, at 10 Gb/s × 20 ms, memory to memory.

One connection sends all the time and takes each control in turn, round after round, so that controls are
compared within seconds of each other, on the same memory and at the same window: the send buffer keeps the
path full and its queue from overflowing. Counted is everything the machine did: both hosts, in system calls,
interrupts and timers, and the emulator, which costs each control the same.

Hold paces, which cubic does not of itself; so both are also compared on a connection that is always paced.
"""

from typing import Any

import msgspec

from bench.cc.held import PORT, end, listening, loaded, open_window, said
from bench.cc.tail import PAYLOAD_BYTES, WIRE_BYTES
from howdah import lab
from howdah._native import CC_PROGRAMS
from howdah.cc import programs

RATE_BPS = 10_000_000_000
RTT_NS = 20_000_000
OURS = {f"hd_{name}": name for name in CC_PROGRAMS if name != "resume"}
"""Resume is the kernel's control after some round trips."""
KERNELS = "cubic"
SERIES = {"plain": (KERNELS, *OURS), "paced": (KERNELS, "hd_hold")}
"""The controls that take turns; ``paced``: every one of them at the link's rate."""
Run = dict[str, Any]


def measure(series: str) -> Run:
    link = lab.symmetric(RATE_BPS, RTT_NS)
    paced_Bps = RATE_BPS // 8 * PAYLOAD_BYTES // WIRE_BYTES if series == "paced" else 0
    with loaded(*OURS.values()):
        programs.set_target(RATE_BPS, None, None)
        with lab.started(link) as wan:
            open_window(wan)
            with listening(wan, "receive", PORT):
                argv = end("turns", wan.far_address, PORT, paced_Bps, *SERIES[series])
                turns = said(wan, argv, timeout_s=600)
            stats = wan.stats()
    return {
        "part": "cpu",
        "series": series,
        "turns": turns,
        "link": msgspec.to_builtins(link),
        "stats": msgspec.to_builtins(stats),
    }
