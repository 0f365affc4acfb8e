"""Copies in every state of the path, in both directions, and scp's beside them."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import memory
from bench.blocked import states
from bench.blocked.states import State
from bench.parts import Run
from bench.peers import howdah, work
from howdah import lab
from howdah.lab import Lab, LinkSpec
from howdah.values.record import Record

PART = "rates"
DIRECTIONS = ("push", "pull")
HOWDAH, SCP = "howdah cp", "scp"
FILE_BYTES = 1 << 30
SCP_BYTES = (16 << 20, 128 << 20)
"""The sizes of scp's copies: the difference of their times is free of the login."""
ROUNDS = 3
PATHS: dict[str, LinkSpec] = {
    "1 Gb/s x 100 ms": lab.symmetric(10**9, 100_000_000),
    "10 Gb/s x 100 ms": lab.symmetric(10**10, 100_000_000),
}
_LOGIN_BYTES = 1 << 16
_REST_S = 3.0
"""The next far end is on its way to being ready, and would disturb the copy after it."""
_LONGEST_S = 180.0


class Turn(NamedTuple):
    """A copy that is to be made."""

    state: State
    direction: str
    tool: str
    bytes: int


def turns(file_bytes: int) -> list[Turn]:
    """The copies of a round: howdah's in every state, scp's straight and through the jump host."""
    ours = [(state, HOWDAH, file_bytes) for state in states.STATES]
    scps = [(state, SCP, size) for state in (states.OPEN, states.ONLY_JUMP) for size in SCP_BYTES]
    return [
        Turn(state, direction, tool, size) for state, tool, size in (*ours, *scps) for direction in DIRECTIONS
    ]


def measure(file_bytes: int, rounds: int) -> Iterator[Run]:
    """The runs over each path. Needs root; raises HowdahError where no lab can be made."""
    sizes = {_LOGIN_BYTES, *SCP_BYTES, file_bytes}
    # Memory of this machine that nothing has touched for a while comes slowly.
    with memory.warm(), work.scratch(sum(sizes) + file_bytes + (1 << 27), 1 << 28) as scratch:
        sources = {size: scratch / work.LARGE / f"{size}" for size in sizes}
        for size, source in sources.items():
            work.one_file(source, size)
        for path, link in PATHS.items():
            with lab.started(link, states.HOSTS, sshd=True) as wan:
                states.name_inside(wan)
                stage = Stage(wan, scratch, sources)
                for state in (states.OPEN, states.ONLY_JUMP):
                    stage.copy(Turn(state, "push", HOWDAH, _LOGIN_BYTES))
                for number in range(rounds):
                    for turn in turns(file_bytes)[:: -1 if number % 2 else 1]:
                        time.sleep(_REST_S)
                        yield {"part": PART, "path": path, "round": number, **stage.copy(turn)}
                stats = msgspec.to_builtins(wan.stats())
            yield {"part": PART, "path": path, "stats": stats}


class Stage(NamedTuple):
    """Where the copies are made."""

    wan: Lab
    scratch: Path
    sources: dict[int, Path]
    """What is copied, by its size."""

    def copy(self, turn: Turn) -> Run:
        """One copy, on the clock from the start of the command to its end, and compared.

        It has failed too if the data took another way than the state is for.
        """
        source = self.sources[turn.bytes]
        there = self.scratch / work.LARGE / "there"
        of, to = f"{turn.state.to}:{source}", str(there)
        if turn.direction == "push":
            of, to = str(source), f"{turn.state.to}:{there}"
        programs = {HOWDAH: [str(howdah.PROGRAM), "cp", "--json"], SCP: ["scp", "-q"]}
        env = {**os.environ, "XDG_DATA_HOME": str(self.scratch / "data")}
        with states.behind(self.wan, turn.state):
            began_s = time.monotonic()
            try:
                done = self.wan.run(
                    states.NEAR,
                    [*programs[turn.tool], of, to],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_LONGEST_S,
                )
                wall_s, error = time.monotonic() - began_s, None
            except subprocess.TimeoutExpired:
                wall_s, done, error = time.monotonic() - began_s, None, f"not done after {_LONGEST_S:g} s"
        facts: Run = {}
        if done is not None and done.returncode:
            error = done.stderr.decode(errors="replace").strip()[-300:] or f"exit code {done.returncode}"
        elif done is not None:
            same = subprocess.run(["cmp", "--silent", source, there], check=False).returncode == 0
            error = None if same else "what has arrived is not what was sent"
            if turn.tool == HOWDAH:
                facts = told(done.stdout)
                if facts["way"] != turn.state.way:
                    error = error or f"the data went {facts['way']}, not {turn.state.way}"
        with contextlib.suppress(FileNotFoundError):
            there.unlink()
        return {
            "state": turn.state.name,
            "direction": turn.direction,
            "tool": turn.tool,
            "bytes": turn.bytes,
            "wall_s": wall_s,
            "error": error,
            **facts,
        }


def told(output: bytes) -> Run:
    """What the bench keeps of a copy's record."""
    record = msgspec.json.decode(output, type=Record)
    outcome = record.outcome
    if outcome is None:
        return {"way": None}
    return {
        "way": states.way_of(outcome),
        "moving_bps": outcome.moving_bps,
        "setup_s": outcome.setup_s,
        "connect_s": record.connect_s,
        "streams": len(outcome.streams),
        "congestion_control": outcome.congestion_control,
        "near_cpu_busy_fraction": record.near_cpu_busy_fraction,
        "flags": record.flags,
    }
