"""What the bench asks of a tool: a server on the far host, and the command that copies to it."""

import contextlib
import dataclasses
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from howdah.lab import Lab

_READY_S = 15.0
_STOP_S = 5.0

UNPRIVILEGED = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--")
"""For servers that refuse to run as root."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """Where a tool plays: the lab, its scratch folder, and the path's bandwidth × delay."""

    lab: Lab
    scratch: Path
    bdp_bytes: int


@dataclasses.dataclass(frozen=True)
class Command:
    argv: Sequence[str | Path]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Tool(Protocol):
    """One file tool, with the options a user who knows it would give."""

    @property
    def name(self) -> str: ...

    @property
    def encrypted(self) -> bool: ...

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        """The server, up and listening on the far host for as long as the context lasts."""

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        """Copies ``source``, a file or a folder, to the absent path ``destination`` of the far host."""


@contextlib.contextmanager
def server(stage: Stage, argv: Sequence[str | Path], port: int, env: Mapping[str, str]) -> Iterator[None]:
    """``argv`` on the far host until the end of the context, once it listens on ``port``."""
    with listening(stage.lab, "far", Command(argv, env), f"tcp:{port}", stage.scratch / f"{port}.log"):
        yield


@contextlib.contextmanager
def listening(lab: Lab, host: str, command: Command, port: str, log: Path) -> Iterator[None]:
    """``command`` on ``host`` until the end of the context, once it listens on ``port``, as ``tcp:5201``."""
    with log.open("wb") as output:
        process = lab.popen(
            host,
            command.argv,
            env=command.env or None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        _wait_for(lab, host, process, port, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(lab: Lab, host: str, process: "subprocess.Popen[bytes]", port: str, log: Path) -> None:
    protocol, _, number = port.partition(":")
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        words = ["ss", "--no-header", "--listening", "--numeric", f"--{protocol}", f"sport = :{number}"]
        if lab.run(host, words, capture_output=True, text=True, check=True).stdout.strip():
            return
        time.sleep(0.05)
    said = log.read_text(errors="replace").strip()
    raise RuntimeError(f"the server on port {number} did not start: {said or 'it said nothing'}")
