"""xrdcp to an xrootd server, in the clear; a file over eight streams, small files 64 at a time."""

import contextlib
import dataclasses
import os
from pathlib import Path

from bench.peers.tool import UNPRIVILEGED, Command, Stage, server

_PORT = 1094


@dataclasses.dataclass(frozen=True)
class Xrootd:
    streams: int = 8
    name: str = "xrdcp -S 8"
    encrypted: bool = False

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        own = stage.scratch / "xrootd"
        own.mkdir(exist_ok=True)
        own.chmod(0o777)
        configuration = stage.scratch / "xrootd.cfg"
        configuration.write_text(
            f"all.export {stage.scratch}\nall.adminpath {own}\nall.pidpath {own}\nxrd.port {_PORT}\n"
        )
        argv = ["xrootd", "-c", str(configuration), "-n", "bench", "-l", str(own / "log")]
        return server(stage, [*UNPRIVILEGED, *argv], _PORT, {**os.environ, "HOME": str(own)})

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        argv = ["xrdcp", "--nopbar", "--streams", str(self.streams)]
        if source.is_dir():
            # It copies a folder only into one that is there.
            destination.mkdir()
            destination.chmod(0o777)
            argv += ["--recursive", "--parallel", "64"]
        far = f"root://{stage.lab.far_address}:{_PORT}/{destination}"
        return Command([*argv, str(source), far], os.environ)
