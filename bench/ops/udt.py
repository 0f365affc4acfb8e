"""UDT by Debian's libudt, with a driver of ours (udt.cpp), compiled when it is first needed."""

import contextlib
import dataclasses
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.ops.tool import UDP_HEADERS_BYTES, Sender, Stage, address, right
from bench.peers.tool import Command, listening
from howdah import HowdahError

_SOURCE = Path(__file__).with_suffix(".cpp")
_PROGRAM = Path(__file__).parents[2] / ".bench" / "ops" / "udt"
_PORT = 9000
_HEADER_BYTES = 16


def built() -> Path:
    """The driver. Raises HowdahError with the compiler's own words."""
    if not _PROGRAM.exists() or _PROGRAM.stat().st_mtime < _SOURCE.stat().st_mtime:
        _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        words = ["c++", "-O2", "-Wall", "-o", str(_PROGRAM), str(_SOURCE), "-ludt", "-lpthread"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HowdahError(f"the driver of UDT does not compile: {done.stderr.strip()[-500:]}")
    return _PROGRAM


@dataclasses.dataclass(frozen=True)
class Udt:
    """Buffers and windows for the path with its queue, so that none of them limits it."""

    headers_bytes: int = UDP_HEADERS_BYTES + _HEADER_BYTES

    @contextlib.contextmanager
    def serving(self, stage: Stage, pairs: Sequence[int]) -> Iterator[None]:
        (pair,) = pairs
        log = stage.scratch / f"udt-{pair}.log"
        command = Command(self._words(stage, "receive", pair))
        with listening(stage.lab, right(pair), command, f"udp:{_PORT}", log):
            yield

    def senders(self, stage: Stage, pairs: Sequence[int]) -> Sequence[Sender]:
        (pair,) = pairs
        return [Sender(pair, Command(self._words(stage, "send", pair)))]

    def _words(self, stage: Stage, what: str, pair: int) -> list[str | Path]:
        window_bytes = 2 * (stage.bdp_bytes + stage.queue_bytes)
        return [built(), what, address(stage, pair), str(_PORT), str(window_bytes)]
