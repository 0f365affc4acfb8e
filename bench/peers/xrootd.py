"""xrdcp to an xrootd server; a file over eight streams, small files 64 at a time.

In the clear by default. Encrypted, everything goes through TLS, data included, and the client checks the
server's certificate.
"""

import contextlib
import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

from bench.peers.tool import UNPRIVILEGED, Command, Stage, server

_PORT = 1094
_NAME = "far"
"""The name of the server, which its certificate has too."""
_TRUSTED = "trusted"
"""The folder of the certificates that the client trusts."""


@dataclasses.dataclass(frozen=True)
class Xrootd:
    streams: int = 8
    encrypted: bool = False

    @property
    def name(self) -> str:
        return f"xrdcp -S {self.streams}{', TLS' if self.encrypted else ''}"

    def serving(self, stage: Stage) -> contextlib.AbstractContextManager[None]:
        own = stage.scratch / "xrootd"
        own.mkdir(exist_ok=True)
        own.chmod(0o777)
        lines = [f"all.export {stage.scratch}", f"all.adminpath {own}", f"all.pidpath {own}"]
        lines.append(f"xrd.port {_PORT}")
        if self.encrypted:
            certificate, key = _certificate(own)
            lines += [f"xrd.tls {certificate} {key}", "xrd.tlsca noverify", "xrootd.tls all"]
        configuration = stage.scratch / "xrootd.cfg"
        configuration.write_text("\n".join([*lines, ""]))
        argv = ["xrootd", "-c", str(configuration), "-n", "bench", "-l", str(own / "log")]
        return server(stage, [*UNPRIVILEGED, *argv], _PORT, {**os.environ, "HOME": str(own)})

    def command(self, stage: Stage, source: Path, destination: Path) -> Command:
        argv = ["xrdcp", "--nopbar", "--streams", str(self.streams)]
        if source.is_dir():
            # It copies a folder only into one that is there.
            destination.mkdir()
            destination.chmod(0o777)
            argv += ["--recursive", "--parallel", "64"]
        if not self.encrypted:
            far = f"root://{stage.lab.far_address}:{_PORT}/{destination}"
            return Command([*argv, str(source), far], os.environ)
        trusted = {"X509_CERT_DIR": str(stage.scratch / "xrootd" / _TRUSTED)}
        far = f"roots://{_NAME}:{_PORT}/{destination}"
        return Command([*argv, str(source), far], {**os.environ, **trusted})


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate of the server and its key, which only the server's account reads."""
    trusted = folder / _TRUSTED
    trusted.mkdir()
    certificate, key = trusted / "server.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    argv += ["-days", "2", "-subj", f"/CN={_NAME}", "-addext", f"subjectAltName=DNS:{_NAME}"]
    subprocess.run([*argv, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    subprocess.run(["openssl", "rehash", trusted], check=True, capture_output=True)
    key.chmod(0o600)
    for each in (certificate, key):
        shutil.chown(each, "nobody", "nogroup")
    return certificate, key
