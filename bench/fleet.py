"""A fleet: agents of many hosts, two controllers and a NATS server, each a process within one lab.

The lab is a dumbbell: a host for each agent and one for controllers and server on the left, a receiver on the
right. ``hd_hold`` is in this machine's kernel, so that shares are looked at from outside.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from bench.carrying import ROOT, output
from howdah import lab
from howdah.cc import programs
from howdah.cc.shares import Share, Shares, everyones
from howdah.lab.session import Process

GUARANTEE_BPS = 400_000_000
LEASE_S = 2.0
PORTS = {"background": "5302", "images": "5301"}
"""By class."""
_LINK = lab.symmetric(500_000_000, 20_000_000)
_API_PORT = 7310
_START_S = 120.0
_POLICY = f"""
name = "fleet"
guarantee = "{GUARANTEE_BPS}bit"
lease = "{LEASE_S}s"
[class.background]
minimum = "10%"
[class.images]
minimum = "10%"
priority = 1
active = "asked"
"""
_MEMBER = '[[class.{name}.member]]\nhost = "{host}"\nto = "{to}/32"\nports = "{port}"\n'

T = TypeVar("T")


class Look(NamedTuple):
    """All shares at an instant."""

    at_ns: int
    """Monotonic."""
    shares: dict[str, Share]
    """By flow."""
    sum_bps: int
    """Of what was in force at one instant, at least: reading them all takes some milliseconds."""

    @property
    def in_force_bps(self) -> dict[str, int]:
        return {flow: share.in_force_bps for flow, share in self.shares.items()}


class Kernel:
    """Looks at the shares that there are, again and again."""

    def __init__(self, per_s: float) -> None:
        self.looks: list[Look] = []
        self.per_s = per_s
        self._owners = [Shares(owner) for owner in sorted({share.owner for share in everyones()})]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> Look:
        earlier, at_ns, shares = self._read(), time.monotonic_ns(), self._read()
        both_bps = [(earlier[flow].in_force_bps, share.in_force_bps) for flow, share in shares.items()]
        return Look(at_ns, shares, sum(map(min, both_bps)))

    def between(self, begin_ns: int, end_ns: int) -> list[Look]:
        return [look for look in self.looks if begin_ns <= look.at_ns < end_ns]

    def _read(self) -> dict[str, Share]:
        return {share.name: share for each in self._owners for share in each.all()}

    def _run(self) -> None:
        while not self._ended.wait(1 / self.per_s):
            self.looks.append(self.look())


class Member:
    """A process of the fleet; what it complains of is kept."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self._log = log

    def line(self) -> str:
        """The next that it prints. Raises SystemExit with its last words when it has ended."""
        line: bytes = output(self.process).readline()
        if not line:
            raise SystemExit(f"{self._log.stem} ended: {self.said().strip().rpartition(chr(10))[2]}")
        return line.decode()

    def document(self) -> Any:  # noqa: ANN401, JSON
        """What it prints up to the brace that ends it."""
        told = self.line()
        while not told.endswith("\n}\n"):
            told += self.line()
        return json.loads(told)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")


class Controller(NamedTuple):
    """One that may lead."""

    member: Member
    name: str
    address: str

    @property
    def says_it_leads(self) -> bool:
        return f"{self.name} leads\n" in self.member.said()


class Fleet:
    """All of them, at work, with every flow under its share."""

    def __init__(self, count: int, folder: Path, stack: contextlib.ExitStack) -> None:
        """``stack`` ends what is begun here. Raises HowdahError or SystemExit when something cannot start."""
        self.hosts = [f"left{place}" for place in range(1, count + 1)]
        """Those of agents."""
        self.star = stack.enter_context(lab.started(_LINK, lab.dumbbell(count + 1, 1)))
        self._bus, self._sink = f"left{count + 1}", "right1"
        self._folder, self._stack = folder, stack
        server = self._probe(self._bus, "nats", folder / "nats", self.star.addresses[self._bus])
        self._url = server.line().strip()
        (folder / "fleet.toml").write_text(self._policy())
        self.controllers = [self._controller(_API_PORT + number) for number in range(2)]
        begin_s = time.monotonic()
        self.agents = [self._agent(host) for host in self.hosts]
        for each in self.agents:
            each.document()
        self.started_s = time.monotonic() - begin_s
        awaited(self._settled, "shares on every host")
        self.settled_s = time.monotonic() - begin_s

    @property
    def leader(self) -> Controller:
        """Who said last that it leads, and lives."""
        alive = [each for each in self.controllers if each.member.process.poll() is None]
        (leading,) = [each for each in alive if each.says_it_leads]
        return leading

    def send(self, hosts: list[str]) -> None:
        """Has these hosts send in every class, as fast as they may, until the end."""
        self._probe(self._sink, "drain", *PORTS.values()).line()
        to = self.star.addresses[self._sink]
        for each in [self._probe(host, "send", to, *PORTS.values()) for host in hosts]:
            each.line()

    def order(self, count: int) -> list[int]:
        """Asks for images and releases them in turn; when each order was given, monotonic ns."""
        probe = self._probe(self._bus, "orders", self.leader.address, "images", count)
        return [int(probe.line()) for _ in range(count)]

    def stop_agents(self) -> list[int]:
        """As systemd would; their exit codes."""
        for each in self.agents:
            each.process.send_signal(signal.SIGTERM)
        return [each.process.wait(30) for each in self.agents]

    def _settled(self) -> bool:
        words = ["status", "--at", self.controllers[0].address, "--json"]
        argv = [sys.executable, "-m", "howdah", "control", *words]
        status = json.loads(
            self.star.run(self._bus, argv, capture_output=True, timeout=60, check=True).stdout
        )
        others = any(each.says_it_leads for each in self.controllers[1:])
        return all(flow["share_bps"] for flow in status["flows"]) and (status["settled"] or others)

    def _policy(self) -> str:
        to = self.star.addresses[self._sink]
        members = [
            _MEMBER.format(name=name, host=host, to=to, port=port)
            for name, port in PORTS.items()
            for host in self.hosts
        ]
        return _POLICY + "".join(members)

    def _controller(self, port: int) -> Controller:
        address = f"127.0.0.1:{port}"
        words = ("serve", self._folder / "fleet.toml", "--nats", self._url, "--listen", address, "--json")
        member = self._begun(self._bus, f"controller-{port}", "howdah", "control", *words)
        return Controller(member, member.document()["controller"], address)

    def _agent(self, host: str) -> Member:
        words = ("agent", "--controller", self._url, "--host", f"{host}=/proc/self/ns/net", "--json")
        return self._begun(host, f"agent-{host}", "howdah", "control", *words)

    def _probe(self, host: str, what: str, *words: object) -> Member:
        return self._begun(host, f"{what}-{host}", "bench.fleet_probes", what, *words)

    def _begun(self, host: str, name: str, module: str, *words: object) -> Member:
        argv, log = [sys.executable, "-m", module, *map(str, words)], self._folder / f"{name}.log"
        with log.open("wb") as errors:
            options = {"stdout": subprocess.PIPE, "stderr": errors, "cwd": ROOT}
            process = self._stack.enter_context(self.star.popen(host, argv, **options))
        self._stack.callback(process.kill)
        return Member(process, log)


@contextlib.contextmanager
def fleet(count: int) -> Iterator[Fleet]:
    """A fleet for as long as the ``with`` lasts. Whatever happens, it leaves no share, rule or program."""
    status = programs.status()
    if status.shares or status.rules:
        raise SystemExit("shares or rules are in force on this machine; end them first: howdah cc status")
    loaded = programs.load("hold").action == "loaded"
    with tempfile.TemporaryDirectory(prefix="howdah-fleet-") as folder:
        try:
            with contextlib.ExitStack() as stack:
                yield Fleet(count, Path(folder), stack)
        finally:
            for owner in {share.owner for share in everyones()}:
                _end(Shares(owner))
            if loaded:
                programs.unload("hold")


def awaited(look: Callable[[], T], what: str, patience_s: float = _START_S) -> T:
    """What ``look`` finds at last. Raises SystemExit when it does not."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if found := look():
            return found
        time.sleep(0.01)
    raise SystemExit(f"no {what} within {patience_s:g} s")


def _end(shares: Shares) -> None:
    shares.place([])
    for share in shares.all():
        shares.remove(share.name)
