"""A file in memory, encrypted, compared by digests and durable, as fast as two cores carry it.

Beside it xrdcp with TLS, and iperf3 in the clear without any file: with the copy's streams, and with one.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec

from bench import memory
from bench.parts import Run
from bench.peers import iperf3, run, work
from bench.peers.howdah import Howdah
from bench.peers.tool import Stage, Tool
from bench.peers.xrootd import Xrootd
from bench.trust import cases
from howdah import lab

PART = "encrypted"
SIZE_BYTES = 4 * 2**30
ROUNDS = 5
PATH = cases.Path(None, 1.0)
OURS, OTHER = Howdah(), Xrootd(encrypted=True)


def measure(size_bytes: int, rounds: int) -> Iterator[Run]:
    """Rounds in which each takes its turn. Needs root; raises RuntimeError where a server does not start."""
    tools: list[Tool] = [OURS, OTHER]
    about = {"part": PART, "path": PATH.name, "size_bytes": size_bytes}
    with memory.warm(), work.scratch(2 * size_bytes + 2**28, 2**30) as scratch:
        file = work.one_file(scratch / work.LARGE / "file", size_bytes)
        first = work.one_file(scratch / work.LARGE / "first", 2**20)
        with lab.started(PATH.link, sshd=True) as wan, contextlib.ExitStack() as servers:
            stage = Stage(wan, scratch, 0)
            for tool in tools:
                servers.enter_context(tool.serving(stage))
            servers.enter_context(iperf3.serving(stage))
            for tool in tools:
                # The login is kept from here on, and every program's pages are in memory.
                run.copy(tool, stage, first, run.Turn(PATH.rtt_ms, "start"))
            for number in range(rounds):
                for done in _round(tools, stage, file):
                    yield dataclasses.asdict(done) | about | _told(done, number)
            yield about | {"tool": "link", "stats": msgspec.to_builtins(wan.stats())}


def _round(tools: list[Tool], stage: Stage, file: work.Work) -> Iterator[run.Run]:
    turn = run.Turn(PATH.rtt_ms, "round")
    plan: dict[str, Any] = {"streams": 1}
    for tool in tools:
        done = run.copy(tool, stage, file, turn)
        plan |= done.facts.get("plan") or {}
        yield done
    for streams in sorted({1, plan["streams"]}):
        yield run.ceiling(stage, file.bytes, plan | {"streams": streams}, turn)


def _told(done: run.Run, number: int) -> Run:
    return {"round": number, "streams": done.facts.get("streams") if done.tool == iperf3.NAME else None}
