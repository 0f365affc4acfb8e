"""rclone over WebDAV, in the clear, to its own server; small files 64 at a time.

WebDAV has no way to write parts of one file, so one file is one stream.
"""

import contextlib
import dataclasses
import os
from pathlib import Path

from bench.peers.tool import Command, Stage, server

_PORT = 8080


@dataclasses.dataclass(frozen=True)
class Rclone:
    name: str = "rclone, WebDAV"
    encrypted: bool = False

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        address = f"{stage.lab.far_address}:{_PORT}"
        argv = ["rclone", "serve", "webdav", str(stage.scratch), "--addr", address, "--log-level", "ERROR"]
        return server(stage, argv, _PORT, _env(stage))

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        argv = ["rclone", "copy" if source.is_dir() else "copyto", "--no-traverse"]
        argv += ["--transfers", "64", "--checkers", "64"]
        argv += ["--webdav-url", f"http://{stage.lab.far_address}:{_PORT}"]
        return Command([*argv, str(source), f":webdav:{destination.relative_to(stage.scratch)}"], _env(stage))


def _env(stage: Stage) -> dict[str, str]:
    own = stage.scratch / "rclone"
    own.mkdir(exist_ok=True)
    configuration = own / "rclone.conf"
    configuration.touch()
    return {**os.environ, "RCLONE_CONFIG": str(configuration), "RCLONE_CACHE_DIR": str(own)}
