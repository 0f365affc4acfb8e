"""Controllers and agents for the sending hosts of a lab: real processes, on this machine."""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.carrying import output
from bench.lsst.relay import relayed
from bench.lsst.scenario import Scenario
from bench.nats_server import NatsServer
from howdah import HowdahError
from howdah.cc import programs
from howdah.control.http.address import DEFAULT_PORT
from howdah.control.http.client import Client
from howdah.lab import Lab
from howdah.lab.processes import DIES_WITH_PARENT

HOWDAH = (sys.executable, "-m", "howdah")
MEMORY = "/dev/shm"  # noqa: S108
"""A file system in memory, so that no disk makes anybody wait."""
_START_S = 15.0
_STOP_S = 10.0
_LOOK_S = 0.02
Processes = list["subprocess.Popen[str]"]


class Control:
    """What gives the shares: its clients, and its processes."""

    def __init__(self, ports: Sequence[int], controllers: Processes) -> None:
        self.clients = [Client(f"127.0.0.1:{port}") for port in ports]
        self.controllers = controllers
        """In the order of the clients."""

    def leader(self) -> int:
        """Which of them leads. Raises HowdahError when for a while none does."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            for number, client in enumerate(self.clients):
                with contextlib.suppress(HowdahError):
                    if client.status().leads:
                        return number
            time.sleep(_LOOK_S)
        raise HowdahError("no controller leads")


@contextlib.contextmanager
def in_one_process(scenario: Scenario, wan: Lab) -> Iterator[Control]:
    """A controller with the agents of all hosts; its page is at http://127.0.0.1:7310."""
    words = ["control", "serve", str(scenario.policy_file), *_hosts(wan), "--json"]
    with _running([words]) as controllers, relayed(_namespaces(wan), [DEFAULT_PORT]):
        yield _settled(Control([DEFAULT_PORT], controllers))


@contextlib.contextmanager
def over_nats(scenario: Scenario, wan: Lab) -> Iterator[Control]:
    """Two controllers of the same policy file, and an agent a host, each a process, over a NATS server."""
    ports = [DEFAULT_PORT, DEFAULT_PORT + 1]
    with (
        tempfile.TemporaryDirectory(prefix="howdah-bench-", dir=MEMORY) as folder,
        NatsServer(Path(folder)) as server,
        _unloaded_again(),
        _running(
            [
                ["control", "agent", "--controller", server.url, "--host", host, "--json"]
                for host in _hosts(wan)[1::2]
            ]
        ),
        _running(
            [
                [
                    *("control", "serve", str(scenario.policy_file), "--nats", server.url),
                    *("--listen", f"127.0.0.1:{port}", "--json"),
                ]
                for port in ports
            ]
        ) as controllers,
        relayed(_namespaces(wan), ports),
    ):
        yield _settled(Control(ports, controllers))


@contextlib.contextmanager
def _unloaded_again() -> Iterator[None]:
    """``hd_hold``, which is left loaded when the agent that loaded it ends before those that use it."""
    there = any(each.name == "hold" and each.loaded for each in programs.listed())
    yield
    if not there:
        with contextlib.suppress(HowdahError):
            programs.unload("hold")


def _hosts(wan: Lab) -> list[str]:
    return [word for host in wan.topology.left for word in ("--host", f"{host}={wan.namespace(host)}")]


def _namespaces(wan: Lab) -> list[Path]:
    return [wan.namespace(host) for host in wan.topology.left]


@contextlib.contextmanager
def _running(commands: Sequence[Sequence[str]]) -> Iterator[Processes]:
    """Each has said that it is ready; stopped at the end, so that everything is put back."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen([*DIES_WITH_PARENT, *HOWDAH, *words], stdout=subprocess.PIPE, text=True)
            )
            for words in commands
        ]
        try:
            for process in processes:
                for line in output(process):
                    if line == "}\n":
                        break
                else:
                    raise HowdahError(f"{process.args!r} did not start")
            yield processes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(_STOP_S)


def _settled(control: Control) -> Control:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(HowdahError):
            if control.clients[control.leader()].status().settled:
                return control
        time.sleep(0.05)
    raise HowdahError("the shares did not come into force")
