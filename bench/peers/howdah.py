"""howdah cp, encrypted, with its defaults: the ssh login of the copy before is used again while it is kept.

The cold one logs in anew each time, as the first copy to a host does.
"""

import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench.peers.tool import Command, Stage
from howdah.values.record import Record

PROGRAM = Path(sys.executable).parent / "howdah"


@dataclasses.dataclass(frozen=True)
class Howdah:
    keeps_login: bool = True
    encrypted: bool = True

    @property
    def name(self) -> str:
        return "howdah cp" if self.keeps_login else "howdah cp, new login"

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        env = {**os.environ, "XDG_DATA_HOME": str(stage.scratch / "data")}
        if not self.keeps_login:
            env["HOWDAH_SSH_KEEP_S"] = "0"
        return Command([PROGRAM, "cp", "--json", str(source), f"far:{destination}"], env)


def facts(output: bytes) -> dict[str, Any]:
    """What the bench keeps of a record: all but the trace."""
    record = msgspec.json.decode(output, type=Record)
    kept = {"record": record.id, "flags": record.flags, "plan": msgspec.to_builtins(record.plan)}
    if record.outcome is None:
        return kept
    outcome = record.outcome
    return {
        **kept,
        "setup_s": outcome.setup_s,
        "moving_bps": outcome.moving_bps,
        "retransmissions": outcome.retransmissions,
        "congestion_control": outcome.congestion_control,
        "streams": len(outcome.streams),
        "near_memory_bytes": outcome.near_peak_memory_bytes,
        "far_memory_bytes": outcome.far_peak_memory_bytes,
        "warnings": outcome.warnings,
    }
