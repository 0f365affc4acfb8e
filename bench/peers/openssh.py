"""What runs over one ssh connection: scp, and rsync."""

import contextlib
import dataclasses
import os
from pathlib import Path

from bench.peers.tool import Command, Stage


@dataclasses.dataclass(frozen=True)
class Scp:
    name: str = "scp"
    encrypted: bool = True

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        return Command(["scp", "-q", "-r", "-p", str(source), f"far:{destination}"], os.environ)


@dataclasses.dataclass(frozen=True)
class Rsync:
    """``--whole-file``: there is nothing at the other side to compare with."""

    name: str = "rsync over ssh"
    encrypted: bool = True

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        slash = "/" if source.is_dir() else ""
        argv = ["rsync", "--archive", "--whole-file", f"{source}{slash}", f"far:{destination}{slash}"]
        return Command(argv, os.environ)
