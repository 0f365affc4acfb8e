"""A lab for a Python program: for tests and benches."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from howdah.lab import control, daemon, private
from howdah.lab.control import Ready, Setup
from howdah.lab.daemon import Request
from howdah.lab.enter import Process
from howdah.lab.hosts import ADDRESSES, CONGESTION_CONTROL, Host
from howdah.lab.link import LinkSpec, LinkStats
from howdah.lab.processes import Identity

Argument = str | os.PathLike[str]


class Lab:
    """A lab that is up."""

    near_address = ADDRESSES["near"]
    far_address = ADDRESSES["far"]

    def __init__(self, link: LinkSpec, ready: Ready) -> None:
        self.link = link
        self._ready = ready
        self.identity = Identity.of(ready.pid)

    @property
    def env(self) -> dict[str, str]:
        """The variables that programs in the lab see beside the caller's."""
        return dict(self._ready.environment)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the lab must do without on this machine, a line each."""
        return self._ready.notes

    def popen(self, host: Host, argv: Sequence[Argument], **options: Any) -> Process:  # noqa: ANN401, Popen's
        """Starts ``argv`` on ``host``; ``options`` are Popen's."""
        return Process(self._ready, host, argv, **options)

    def run(
        self,
        host: Host,
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


def stats_here() -> LinkStats | None:
    """What the link of the lab that runs this process has done so far; null outside a lab."""
    return control.ask_here() if private.CONTROL.exists() else None


@contextlib.contextmanager
def started(
    link: LinkSpec, *, sshd: bool = False, congestion_control: str = CONGESTION_CONTROL
) -> Iterator[Lab]:
    """A lab for as long as the ``with`` lasts, or the caller lives.

    Raises HowdahError when it cannot be made, or ended earlier.
    """
    ready, maker, held = daemon.start(Request(Setup(link, sshd=sshd, congestion_control=congestion_control)))
    try:
        yield Lab(link, ready)
    finally:
        daemon.end(maker, held)
