"""globus-url-copy to globus-gridftp-server, in the clear, socket buffers of one BDP.

Small files: 32 connections, each with data channels that stay open (``-fast``) and pipelined commands.
"""

import contextlib
import dataclasses
import os
from pathlib import Path

from bench.peers.tool import UNPRIVILEGED, Command, Stage, server

_PORT = 2811


def environment(address: str) -> dict[str, str]:
    """Globus wants to resolve the machine's own name, which a lab has no server for."""
    return {**os.environ, "GLOBUS_HOSTNAME": address}


@dataclasses.dataclass(frozen=True)
class Globus:
    streams: int
    encrypted: bool = False

    @property
    def name(self) -> str:
        return f"globus-url-copy, {self.streams} stream" + ("s" if self.streams > 1 else "")

    @property
    def port(self) -> int:
        return _PORT + self.streams

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        address = stage.lab.far_address
        argv = ["globus-gridftp-server", "-c", "/dev/null", "-aa", "-p", str(self.port), "-hostname", address]
        return server(stage, [*UNPRIVILEGED, *argv], self.port, environment(address))

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        argv = ["globus-url-copy", "-tcp-bs", str(stage.bdp_bytes)]
        if source.is_dir():
            argv += ["-r", "-cd", "-fast", "-pp", "-cc", "32"]
        if self.streams > 1:
            argv += ["-p", str(self.streams)]
        slash = "/" if source.is_dir() else ""
        far = f"ftp://{stage.lab.far_address}:{self.port}{destination}{slash}"
        return Command([*argv, f"file://{source}{slash}", far], environment(stage.lab.near_address))
