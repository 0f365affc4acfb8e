"""Running programs in a lab from outside it."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from howdah import text as words
from howdah._native import HowdahError
from howdah.lab.control import Ready
from howdah.lab.processes import children
from howdah.parent_death import TIED

_START_S = 1.0


class Process(subprocess.Popen[Any]):
    """A program in a lab. Signals go to the program itself, not to those who brought it in.

    It is killed when the nsenter(1) that brought it in is, and with the lab; ``tied``, also when the
    thread that started it ends.
    """

    def __init__(
        self,
        lab: Ready,
        host: str,
        argv: Sequence[str | os.PathLike[str]],
        *,
        tied: bool = False,
        **options: Any,  # noqa: ANN401, Popen's
    ) -> None:
        """Starts ``argv``; ``options`` are Popen's, ``env`` without the lab's own variables.

        Raises HowdahError when the lab has no such host.
        """
        environment: Mapping[str, str] = options.pop("env", None) or os.environ
        folder = os.fspath(options.pop("cwd", None) or os.getcwd())  # noqa: PTH109
        super().__init__(
            [*(TIED if tied else ()), *_prefix(lab, host, folder), *argv],
            env={**environment, **lab.environment},
            **options,
        )

    def inner_pid(self) -> int | None:
        """The program's process number out here; null before it starts and after it ended."""
        return next(children(self.pid), None)

    def send_signal(self, sig: int) -> None:
        """Sends ``sig`` to the program."""
        deadline = time.monotonic() + _START_S
        while self.poll() is None:
            inner = self.inner_pid()
            if inner is not None:
                os.kill(inner, sig)
                return
            if time.monotonic() > deadline:
                super().send_signal(signal.SIGKILL)
                return
            time.sleep(0.001)


def _prefix(lab: Ready, host: str, folder: str) -> list[str]:
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
        *TIED,
        *("env", "--default-signal=INT,QUIT", f"--chdir={folder}"),
    ]
