"""``howdah cp`` from memory to memory, by its own choice or with a congestion control; ``howdah traffic``."""

import contextlib
import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.ops.tool import TCP_HEADERS_BYTES, UDP_HEADERS_BYTES, Sender, Stage, right
from bench.peers.tool import Command
from howdah.values.record import Record

PROGRAM = str(Path(sys.executable).parent / "howdah")
_SCENARIOS = Path(__file__).parents[2] / "scenarios"


def _environment(stage: Stage, pair: int) -> Mapping[str, str]:
    return {**os.environ, "XDG_DATA_HOME": str(stage.scratch / f"data-{pair}")}


@dataclasses.dataclass(frozen=True)
class Copy:
    congestion_control: str | None = None
    """Null: its own choice."""
    streams: int | None = None
    """Null: the plan's."""
    headers_bytes: int = TCP_HEADERS_BYTES

    def serving(self, stage: Stage, pairs: Sequence[int]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        (pair,) = pairs
        fixed = ["--cc", self.congestion_control] if self.congestion_control else []
        fixed += ["--streams", str(self.streams)] if self.streams else []
        argv = [PROGRAM, "cp", "--json", *fixed, "--memory", f"{round(stage.send_s)}s", f"{right(pair)}:"]
        return [Sender(pair, Command(argv, _environment(stage, pair)))]


@dataclasses.dataclass(frozen=True)
class Pattern:
    """One of scenarios/traffic-NAME.toml."""

    name: str

    @property
    def headers_bytes(self) -> int:
        return UDP_HEADERS_BYTES if "udp" in self.name else TCP_HEADERS_BYTES

    def serving(self, stage: Stage, pairs: Sequence[int]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        (pair,) = pairs
        scenario = str(_SCENARIOS / f"traffic-{self.name}.toml")
        argv = [PROGRAM, "traffic", "--json", scenario, right(pair), "--for", f"{round(stage.send_s)}s"]
        return [Sender(pair, Command(argv, _environment(stage, pair)))]


def said(output: bytes) -> dict[str, Any]:
    """What the bench keeps of a copy's record: the plan, whom it recognised and what became of it."""
    record = msgspec.json.decode(output, type=Record)
    kept: dict[str, Any] = {}
    if record.plan is not None:
        kept["plan"] = {
            key: getattr(record.plan, key) for key in ("congestion_control", "streams", "buffer_bytes")
        }
        kept["why"] = record.plan.why.summary
    if record.listened is not None:
        kept["listened"] = msgspec.to_builtins(record.listened)
    if record.outcome is not None:
        kept |= {
            "congestion_control": record.outcome.congestion_control,
            "streams": len(record.outcome.streams),
            "retransmissions": record.outcome.retransmissions,
            "warnings": record.outcome.warnings,
        }
    return kept
