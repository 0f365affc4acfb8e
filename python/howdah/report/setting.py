"""What was measured where: the first table of the page, in the place of HPDC 2017 Figure 2 and Table 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from howdah.report.cells import buffer_words, in_ms, milliseconds, name
from howdah.report.material import Material
from howdah.text import count
from howdah.values.record import Record

Fact = tuple[str, str, str]
"""What, ours, the paper's; "" where it has none."""


def facts(material: Material, record: Record) -> list[Fact]:
    """The set-up, from the runs that count and the environment of ``record``, the newest of them."""
    runs = material.all
    shortest, longest, middle = np.min(runs.elapsed_s), np.max(runs.elapsed_s), np.median(runs.elapsed_s)
    buffers = sorted({each.buffer_bytes for each in material.cells.rates}, key=lambda size: size or np.inf)
    return [
        ("path", material.path, "10GigE, 10 Gb/s, and SONET OC-192, 9.6 Gb/s, emulated in hardware"),
        ("hosts", _hosts(record), "four hosts of 32 cores, Linux 2.6 and 3.10"),
        (
            "congestion control",
            _controls(material),
            "CUBIC, H-TCP, Scalable; in 2015 also Reno and HighSpeed",
        ),
        ("streams", ", ".join(str(each) for each in _distinct(runs.streams)), "1 to 10"),
        ("buffer of a stream", ", ".join(map(buffer_words, buffers)), "244 KB, 256 MB, 1 GB"),
        (
            "RTT",
            ", ".join(map(in_ms, _distinct(runs.rtt_s))) + " ms",
            "0.4, 11.8, 22.6, 45.6, 91.6, 183, 366 ms",
        ),
        (
            "length of a run",
            f"{shortest:.3g} to {longest:.3g} s, the median {middle:.3g} s",
            "about 1, 20, 50, 100 GB; traces of 100 s",
        ),
        ("runs that count", f"{len(runs):,}, from {_day(runs.id[0])} to {_day(runs.id[-1])}", "10 of a cell"),
        ("runs left out", _left_out(material), ""),
        ("howdah", record.version, "iperf and tcpprobe"),
    ]


def _hosts(record: Record) -> str:
    near = record.environment.near
    where = (
        "one machine, both ends and the link's emulator on it" if record.environment.link else "the near one"
    )
    return f"{where}: {count(near.cpus, 'CPU')}, Linux {near.kernel}"


def _controls(material: Material) -> str:
    found = []
    for control in _distinct(material.all.congestion_control):
        programs = material.all.where(congestion_control=str(control)).program
        source = "howdah's BPF program" if programs.all() else "the kernel's"
        found.append(f"{name(str(control))} ({'both' if programs.any() and not programs.all() else source})")
    return ", ".join(found)


def _left_out(material: Material) -> str:
    parts = [
        f"{each.late} of {count(each.runs, 'run')} at {milliseconds(rtt_s)}"
        for rtt_s, each in material.late.items()
        if each.late
    ]
    late = f"late, that is spoilt by this machine: {', '.join(parts)}" if parts else "none was late"
    files = material.not_memory
    return f"{late}; {count(files, 'run')} of files" if files else late


def _day(run: str) -> str:
    return f"{run[:4]}-{run[4:6]}-{run[6:8]}"


def _distinct(column: NDArray[Any]) -> list[Any]:
    return list(np.unique(column).tolist())
