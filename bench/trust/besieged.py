"""Copies with a thousand strangers a second at the data port, each beside a copy that nobody disturbs.

Half of the strangers come from the near host, whose address the far end cannot tell from its client's; the
others are programs of the far host itself. They come from when the far end listens until the copy is over.
"""

import contextlib
import dataclasses
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import msgspec

from bench import memory
from bench.carrying import output, ready
from bench.parts import Run
from bench.peers import run, work
from bench.peers.howdah import Howdah
from bench.peers.tool import Stage
from bench.trust import cases
from howdah import lab
from howdah.lab import Lab
from howdah.lab.session import Process

PART = "strangers"
PAIRS = 5
RATE_HZ = 1_000
_ASKED_HZ = 1_020
"""A little more, because those who come last do not arrive."""
HOSTS = ("near", "far")
JUDGED = cases.Path(1_000_000_000, 20.0)
FAST = cases.Path(10_000_000_000, 1.0)
"""Here strangers, both ends and the emulator share all that the machine has."""
SIZES_BYTES = {JUDGED: 2**30, FAST: 4 * 2**30}
_ENDS_S = 20.0


def measure(sizes_bytes: dict[cases.Path, int], pairs: int) -> Iterator[Run]:
    """Pairs of copies, path after path. Needs root."""
    most = max(sizes_bytes.values())
    with memory.warm(), work.scratch(2 * most + 2**28, 2**30) as scratch:
        for path, size_bytes in sizes_bytes.items():
            file = work.one_file(scratch / work.LARGE / "file", size_bytes)
            about = {"path": path.name, "size_bytes": size_bytes}
            with lab.started(path.link, sshd=True) as wan:
                stage = Stage(wan, scratch, 0)
                _copy(stage, work.one_file(scratch / work.LARGE / "first", 2**20), path, "start")
                for pair in range(pairs):
                    # Neither is always the first of a pair.
                    for besieged in (pair % 2 == 1, pair % 2 == 0):
                        counts: list[dict[str, float]] = []
                        with strangers(wan, pair, counts) if besieged else contextlib.nullcontext():
                            done = _copy(stage, file, path, "round")
                        told = {"pair": pair, "besieged": besieged, "strangers": counts}
                        yield done | about | told | {"part": PART}
                stats = msgspec.to_builtins(wan.stats())
                yield about | {"part": PART, "tool": "link", "stats": stats}


def _copy(stage: Stage, file: work.Work, path: cases.Path, purpose: run.Purpose) -> Run:
    # With a kept far end there would be more than one port, and a copy would not begin with its own.
    return dataclasses.asdict(
        run.copy(Howdah(keeps_login=False), stage, file, run.Turn(path.rtt_ms, purpose))
    )


@contextlib.contextmanager
def strangers(wan: Lab, seed: int, counts: list[dict[str, float]]) -> Iterator[None]:
    """Has strangers come to the port that the far host listens on next; at the end ``counts`` has theirs."""
    rate_hz = _ASKED_HZ / len(HOSTS)
    with contextlib.ExitStack() as stack:
        crowds = [
            stack.enter_context(_program(wan, host, "come", wan.far_address, rate_hz, seed)) for host in HOSTS
        ]
        finder = stack.enter_context(_program(wan, "far", "port"))
        told = threading.Thread(target=_tell, args=(finder, crowds))
        told.start()
        try:
            yield
        finally:
            finder.kill()
            told.join()
        counts += [json.loads(crowd.communicate(timeout=_ENDS_S)[0]) for crowd in crowds]


def _tell(finder: Process, crowds: Sequence[Process]) -> None:
    port = output(finder).readline()
    for crowd in crowds:
        if crowd.stdin is not None:
            crowd.stdin.write(port)
            crowd.stdin.flush()


def _program(
    wan: Lab, host: str, *arguments: object
) -> contextlib.AbstractContextManager["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "bench.trust.strangers", *map(str, arguments)]
    return ready(wan, host, argv, stdin=subprocess.PIPE)
