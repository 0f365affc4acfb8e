"""What is sent again after kill -9: the same command goes on, and the link counts what crosses it.

Whole copies in each direction say what the wire carries of a file, TLS and digests included. Whatever a
killed copy and the same command after it carry beyond that was sent again. Bytes on their way to a dead end
count, too.
"""

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import memory
from bench.parts import Run
from bench.peers import work
from bench.peers.howdah import Howdah
from bench.peers.tool import Stage
from bench.processes import FAR, NEAR, Words, running
from bench.trust import cases
from bench.trust.cases import Kill, Killed, payload_bytes
from howdah import HowdahError, lab
from howdah.lab import Lab
from howdah.values.record import Record

PART = "resent"
SIZE_BYTES = 10 * 2**30
KILLS = 10
WHOLES = 2
"""Copies that nothing happens to, in each direction; the least that one put on the wire is compared with."""
PATHS = (cases.Path(10_000_000_000, 1.0), cases.Path(10_000_000_000, 20.0))

FINISHES_WITHIN = 3
"""Runs of the same command after a kill."""
_SESSION_S = 900.0
_COMPARED_S = 300.0
_BEGUN_BYTES = 2**20
"""After greetings: both ends are at work."""
_POLL_S = 0.005
_DRAINED_S = 0.5
_ROOM_BYTES = 2**28
_ENDS: dict[Killed, tuple[Words, ...]] = {"near": (NEAR,), "far": (FAR,), "both": (NEAR, FAR)}


class Ground(NamedTuple):
    """Where the files of the kills lie."""

    source: Path
    target: Path
    text: str


def measure(size_bytes: int, kills: int) -> Iterator[Run]:
    """Whole copies and killed ones, path after path. Needs root and mounts of this process's own."""
    with _ground(size_bytes) as ground:
        work.one_file(ground.source, size_bytes)
        for turn, path in enumerate(PATHS):
            with lab.started(path.link, sshd=True) as wan:
                copies = _Copies(wan, ground, {"part": PART, "path": path.name, "size_bytes": size_bytes})
                wholes = []
                for number, push in enumerate((True, False) * WHOLES):
                    wholes.append(copies.whole(number, push=push))
                    yield wholes[-1]
                # Where a host is late TCP sends segments twice that nobody lost; the least has none of them.
                whole_bytes = min(done["payload_bytes"] for done in wholes)
                for seed in range(turn * kills, (turn + 1) * kills):
                    yield copies.killed(cases.kill(seed), whole_bytes)
                yield copies.about | {"case": "link", "stats": msgspec.to_builtins(wan.stats())}


@contextlib.contextmanager
def _ground(size_bytes: int) -> Iterator[Ground]:
    fits = cases.in_memory(memory.host_bytes("MemAvailable"), size_bytes)
    texts = []
    with tempfile.TemporaryDirectory(prefix="howdah-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            for what, fit in zip(("source", "target"), fits, strict=True):
                (folder / what).mkdir()
                texts.append(f"{what} {'in memory' if fit else 'on the disk'}")
                if fit:
                    memory.mount(folder / what, size_bytes + _ROOM_BYTES, "always")
                    stack.callback(subprocess.run, ("umount", "--lazy", str(folder / what)), check=False)
            yield Ground(folder / "source/file", folder / "target/file", ", ".join(texts))


class _Copies:
    """Copies of one file over one path."""

    def __init__(self, wan: Lab, ground: Ground, about: Run) -> None:
        self.wan, self.ground = wan, ground
        self.about = about | {"where": ground.text}
        self.tool, self.stage = Howdah(keeps_login=False), Stage(wan, ground.source.parent, 0)

    def whole(self, number: int, *, push: bool) -> Run:
        """One copy that nothing happens to. Raises HowdahError when it fails."""
        before = self.crossed(push)
        session = self.session(push)
        crossed = self.drained(push) - before
        looked = self.looked_at()
        if session["exit_code"] or not looked["same"]:
            raise HowdahError(f"a copy that nothing happened to failed: {session['said'] or 'other bytes'}")
        return self.about | {
            "case": f"whole {number}, {'push' if push else 'pull'}",
            "payload_bytes": crossed,
            "sessions": [session],
            **looked,
        }

    def killed(self, drawn: Kill, whole_bytes: int) -> Run:
        """One copy with a kill, and the same command until it ends with 0."""
        before = self.crossed(drawn.push)
        sessions = [self.session(drawn.push, drawn, whole_bytes)]
        while sessions[-1]["exit_code"] and len(sessions) <= FINISHES_WITHIN:
            sessions.append(self.session(drawn.push))
        crossed = self.drained(drawn.push) - before
        return self.about | {
            "case": drawn.seed,
            "push": drawn.push,
            "killed": drawn.killed,
            "at": drawn.at,
            "payload_bytes": crossed,
            "whole_bytes": whole_bytes,
            "again_bytes": crossed - whole_bytes,
            "sessions": sessions,
            **self.looked_at(),
        }

    def session(self, push: bool, drawn: Kill | None = None, whole_bytes: int = 0) -> dict[str, Any]:
        """One run of the command: how it ended, and where it was killed; a hang is ended."""
        began, before = time.monotonic(), self.crossed(push)
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
            process = self.wan.popen(
                "near",
                self.argv(push),
                env=self.tool.command(self.stage, self.ground.source, self.ground.target).env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complained,
            )
            struck = None
            with process:
                try:
                    if drawn is not None:
                        struck = self.strike(process, drawn, before, whole_bytes)
                    process.wait(timeout=_SESSION_S)
                except subprocess.TimeoutExpired:
                    complained.write(f"no end after {_SESSION_S:g} s".encode())
                finally:
                    process.kill()
            for each in (said, complained):
                each.seek(0)
            output, errors = said.read(), complained.read().decode(errors="replace").strip()
        return {
            "exit_code": process.returncode,
            "wall_s": time.monotonic() - began,
            "payload_bytes": self.crossed(push) - before,
            "struck_at": struck,
            "said": (errors.splitlines() or [""])[-1][:500],
            **_facts(output),
        }

    def argv(self, push: bool) -> list[str]:
        source, target = map(str, (self.ground.source, self.ground.target))
        program, *_ = self.tool.command(self.stage, self.ground.source, self.ground.target).argv
        places = [source, f"far:{target}"] if push else [f"far:{source}", target]
        return [str(program), "cp", "--json", "--quiet", *places]

    def strike(
        self, process: "subprocess.Popen[Any]", drawn: Kill, before: int, whole_bytes: int
    ) -> float | None:
        """Kills at the point that was drawn; the part where it came, null if the copy was over by then."""
        pids: list[str] = []
        deadline = time.monotonic() + _SESSION_S
        while process.poll() is None and time.monotonic() < deadline:
            moved = self.crossed(drawn.push) - before
            if not pids and moved > _BEGUN_BYTES:
                pids = self.pids(drawn.killed)
            if pids and moved >= drawn.at * whole_bytes:
                argv = ["kill", "-KILL", *pids]
                ended = self.wan.run("near", argv, stderr=subprocess.DEVNULL).returncode
                return None if ended else moved / whole_bytes
            time.sleep(_POLL_S)
        return None

    def pids(self, killed: Killed) -> list[str]:
        """The process numbers of the ends in the lab, without ssh's; none as long as one is missing."""
        found = [[str(pid) for pid, _ in running(self.wan, words)] for words in _ENDS[killed]]
        return [pid for each in found for pid in each] if all(found) else []

    def crossed(self, push: bool) -> int:
        """The payload that has crossed the link in the direction of a copy."""
        return payload_bytes(self.wan.stats().directions["near_to_far" if push else "far_to_near"])

    def drained(self, push: bool) -> int:
        """The same, when nothing is on its way any more."""
        time.sleep(_DRAINED_S)
        return self.crossed(push)

    def looked_at(self) -> dict[str, Any]:
        """Whether source and target are the same and what else lies there; the target is removed."""
        argv = ["cmp", "--silent", str(self.ground.source), str(self.ground.target)]
        compared = subprocess.run(argv, check=False, timeout=_COMPARED_S)
        folder = self.ground.target.parent
        left = sorted(path.name for path in folder.iterdir() if path != self.ground.target)
        for path in list(folder.iterdir()):
            path.unlink()
        return {"same": compared.returncode == 0, "left": left}


def _facts(output: bytes) -> dict[str, Any]:
    try:
        outcome = msgspec.json.decode(output, type=Record).outcome
    except msgspec.DecodeError:
        return {}
    if outcome is None:
        return {}
    return {
        "bytes": outcome.bytes,
        "bytes_resumed": outcome.bytes_resumed,
        "restarts": outcome.restarts,
        "retransmissions": outcome.retransmissions,
        "streams": len(outcome.streams),
    }
