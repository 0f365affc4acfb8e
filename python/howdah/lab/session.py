"""A lab for a Python program, for tests and benches, and programs that run in it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from howdah import text as words
from howdah._native import HowdahError
from howdah.arguments import typed
from howdah.lab import daemon, messages, mounts
from howdah.lab.daemon import MakerRequest
from howdah.lab.hosts import CONGESTION_CONTROL
from howdah.lab.messages import LabReady, LabSetup
from howdah.lab.processes import DIES_WITH_PARENT, Identity, children
from howdah.lab.topology import ADDRESSES, PAIR, Topology
from howdah.values.link import LinkSpec, LinkStats, checked

Argument = str | os.PathLike[str]
_START_S = 1.0


class Process(subprocess.Popen[Any]):
    """A program in a lab. Signals go to the program itself, not to those who brought it in.

    It is killed when the nsenter(1) that brought it in is, and with the lab. With ``dies_with_parent`` it is
    killed too when the thread that started it ends.
    """

    def __init__(
        self,
        lab: LabReady,
        host: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        dies_with_parent: bool = False,
        **options: Any,  # noqa: ANN401, Popen's
    ) -> None:
        """Starts ``argv``; ``options`` are Popen's, ``env`` without the lab's own variables.

        Raises HowdahError when the lab has no such host.
        """
        environment: Mapping[str, str] = options.pop("env", None) or os.environ
        folder = os.fspath(options.pop("cwd", None) or os.getcwd())  # noqa: PTH109
        super().__init__(
            [*(DIES_WITH_PARENT if dies_with_parent else ()), *_prefix(lab, host, folder), *argv],
            env={**environment, **lab.environment},
            **options,
        )

    def inner_pid(self) -> int | None:
        """The program's process number outside the lab; null before it starts and after it ended."""
        return next(children(self.pid), None)

    def send_signal(self, sig: int) -> None:
        """Sends ``sig`` to the program."""
        deadline = time.monotonic() + _START_S
        while self.poll() is None:
            inner = self.inner_pid()
            if inner is not None:
                # Where it ended in this moment, there is nothing to be sent.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(inner, sig)
                return
            if time.monotonic() > deadline:
                super().send_signal(signal.SIGKILL)
                return
            time.sleep(0.001)


class Lab:
    """Emulated hosts and the link between them, for as long as a ``with`` lasts or the caller lives.

    ``link`` has the rate, the delay and what else befalls packets in each direction (``lab.symmetric`` makes
    one whose directions are alike); ``topology`` the hosts, by default ``near`` and ``far``. With ``sshd`` an
    OpenSSH server is on each far host, and ssh of the near ones reaches it. A link that cannot be
    raises HowdahError. Entering raises it when the lab cannot be made, leaving when it ended earlier.
    """

    near_address = ADDRESSES["near"]
    """The address of the near end of the link, which is a pair's near host."""
    far_address = ADDRESSES["far"]

    @typed
    def __init__(
        self,
        link: LinkSpec,
        topology: Topology = PAIR,
        *,
        sshd: bool = False,
        congestion_control: str = CONGESTION_CONTROL,
    ) -> None:
        self.link = checked(link)
        self.topology = topology
        self.addresses = {host.name: host.address for host in topology.hosts}
        """The IPv4 address of each host, by name."""
        self._setup = LabSetup(link, topology, sshd=sshd, congestion_control=congestion_control)
        self._made: LabReady | None = None

    def __enter__(self) -> Self:
        """Brings the lab up."""
        self._made, self._maker, self._link_to_maker = daemon.start(MakerRequest(self._setup))
        self.identity = Identity.of(self._ready.pid)
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the lab down, with all that runs in it."""
        self._made = None
        daemon.end(self._maker, self._link_to_maker)

    @property
    def _ready(self) -> LabReady:
        if self._made is None:
            raise HowdahError("the lab is down; it is up inside of its with")
        return self._made

    @property
    def env(self) -> dict[str, str]:
        """The variables that programs in the lab see beside the caller's."""
        return dict(self._ready.environment)

    @property
    def notes(self) -> tuple[str, ...]:
        """The features that the lab must do without on this machine, a line each."""
        return self._ready.notes

    def namespace(self, host: str) -> Path:
        """The file of a host's network namespace, for as long as the lab is up."""
        return Path(f"/proc/{self._ready.pid}/fd/{self._ready.namespaces[host]}")

    @typed
    def popen(self, host: str, argv: Sequence[Argument], **options: Any) -> Process:  # noqa: ANN401, Popen's
        """Starts ``argv`` on ``host``; ``options`` are Popen's."""
        return Process(self._ready, host, argv, **options)

    @typed
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
        """The statistics of the link so far. Raises HowdahError when the lab does not answer."""
        return messages.ask(self._ready.pid, "stats")


def account_here() -> messages.LinkAccount | None:
    """Begins to count what the link of the lab around this process does.

    Null outside a lab, and for a user who may not ask the lab.
    """
    return messages.LinkAccount() if os.access(mounts.CONTROL, os.W_OK) else None


def started(
    link: LinkSpec,
    topology: Topology = PAIR,
    *,
    sshd: bool = False,
    congestion_control: str = CONGESTION_CONTROL,
) -> Lab:
    """A lab to be entered: ``with lab.started(lab.symmetric(10**9, 20_000_000), sshd=True) as wan:``."""
    return Lab(link, topology, sshd=sshd, congestion_control=congestion_control)


def _prefix(lab: LabReady, host: str, folder: str) -> list[str]:
    """The command line that goes into ``lab``, to run what is appended to it.

    A Ctrl-C must end the program alone: nsenter lives on to report how.
    """
    if host not in lab.namespaces:
        raise HowdahError(f"no host is called {host}; this lab has {words.some(lab.namespaces)}")
    rootless = ["--user", "--preserve-credentials"] if os.geteuid() != 0 else []
    return [
        *("env", "--ignore-signal=INT,QUIT"),
        *("nsenter", f"--target={lab.pid}", *rootless, "--mount", "--pid"),
        *(f"--net=/proc/{lab.pid}/fd/{lab.namespaces[host]}", "--"),
        *DIES_WITH_PARENT,
        *("env", "--default-signal=INT,QUIT", f"--chdir={folder}"),
    ]
