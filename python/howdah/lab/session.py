"""A lab for a Python program: for tests and benches."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from howdah.lab import control, daemon, private
from howdah.lab.control import Setup
from howdah.lab.daemon import Request
from howdah.lab.enter import Process
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.processes import Identity
from howdah.lab.topology import ADDRESSES, PAIR, Topology
from howdah.values.link import LinkSpec, LinkStats

Argument = str | os.PathLike[str]


class Lab:
    """Emulated hosts and the link between them, for as long as a ``with`` lasts or the caller lives.

    ``link`` has the rate, the delay and what else befalls packets in each direction (``lab.symmetric`` makes
    one whose directions are alike); ``topology`` the hosts, by default ``near`` and ``far``. With ``sshd`` an
    OpenSSH server is on each far host, and ssh of the near ones reaches it. Entering raises HowdahError when
    the lab cannot be made, leaving when it ended earlier.
    """

    near_address = ADDRESSES["near"]
    """Of the near end of the link: a pair's near host."""
    far_address = ADDRESSES["far"]

    def __init__(
        self,
        link: LinkSpec,
        topology: Topology = PAIR,
        *,
        sshd: bool = False,
        congestion_control: str = CONGESTION_CONTROL,
    ) -> None:
        self.link = link
        self.topology = topology
        self.addresses = {host.name: host.address for host in topology.hosts}
        """Of each host."""
        self._setup = Setup(link, topology, sshd=sshd, congestion_control=congestion_control)

    def __enter__(self) -> Self:
        """Brings the lab up."""
        self._ready, self._maker, self._held = daemon.start(Request(self._setup))
        self.identity = Identity.of(self._ready.pid)
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the lab down, with all that runs in it."""
        daemon.end(self._maker, self._held)

    @property
    def env(self) -> dict[str, str]:
        """The variables that programs in the lab see beside the caller's."""
        return dict(self._ready.environment)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the lab must do without on this machine, a line each."""
        return self._ready.notes

    def namespace(self, host: str) -> Path:
        """The file of a host's network namespace, for as long as the lab is up."""
        return Path(f"/proc/{self._ready.pid}/fd/{self._ready.namespaces[host]}")

    def popen(self, host: str, argv: Sequence[Argument], **options: Any) -> Process:  # noqa: ANN401, Popen's
        """Starts ``argv`` on ``host``; ``options`` are Popen's."""
        return Process(self._ready, host, argv, **options)

    def run(
        self,
        host: str,
        argv: Sequence[Argument],
        *,
        input: Any = None,  # noqa: ANN401, as subprocess.run
        timeout: float | None = None,
        check: bool = False,
        capture_output: bool = False,
        **options: Any,  # noqa: ANN401
    ) -> "subprocess.CompletedProcess[Any]":
        """Runs ``argv`` on ``host`` as subprocess.run does."""
        if capture_output:
            options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if input is not None:
            options["stdin"] = subprocess.PIPE
        with self.popen(host, argv, **options) as process:
            try:
                output, errors = process.communicate(input, timeout=timeout)
            except BaseException:
                process.kill()
                raise
        if check and process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(argv), output, errors)
        return subprocess.CompletedProcess(list(argv), process.returncode, output, errors)

    def stats(self) -> LinkStats:
        """What the link has done so far."""
        return control.ask(self._ready.pid, "stats")


def account_here() -> control.Account | None:
    """What the link of the lab that runs this process does from now on; null outside a lab."""
    return control.Account() if private.CONTROL.exists() else None


def started(
    link: LinkSpec,
    topology: Topology = PAIR,
    *,
    sshd: bool = False,
    congestion_control: str = CONGESTION_CONTROL,
) -> Lab:
    """A lab to be entered: ``with lab.started(lab.symmetric(10**9, 20_000_000), sshd=True) as wan:``."""
    return Lab(link, topology, sshd=sshd, congestion_control=congestion_control)
