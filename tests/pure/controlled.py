"""A whole controlled path for tests: controller, agents, HTTP server, and hosts that send all they may."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Collection, Iterator

from atwork import Table

from howdah.control.bus import LocalBus
from howdah.control.bus.leadership import boottime_ns
from howdah.control.http import prepared
from howdah.control.http.address import Listening
from howdah.control.policy import Policy
from howdah.control.policy.policyfile import loads
from howdah.control.running.agent import serve
from howdah.control.running.operations import Operations

FIGURE_2 = """
name = "lsst"
guarantee = "1Gbit"
lease = "1s"

[class.replication]
fixed = "5%"
[[class.replication.member]]
host = "base22"
to = "20.20.20.100/32"

[class.background]
minimum = "1%"
[[class.background.member]]
host = "base23"
to = "20.20.20.100/32"

[class.images]
priority = 1
active = "asked"
[[class.images.member]]
host = "base20"
to = "20.20.20.100/32"
[[class.images.member]]
host = "base21"
to = "20.20.20.100/32"
"""
WAIT_S = 20.0


class Controlled:
    """What runs: its URL, and the loop it runs in."""

    def __init__(self, policy: Policy, wanted: Listening, silent: Collection[str]) -> None:
        self.url = ""
        self.told: list[str] = []
        self._policy = policy
        self._wanted = wanted
        self._silent = silent
        self._ready: queue.Queue[Exception | None] = queue.Queue()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._run())
        self._thread = threading.Thread(target=self._serve)

    def start(self) -> None:
        self._thread.start()
        if self._ready.get(timeout=WAIT_S):
            self.stop()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(WAIT_S)
        self._loop.close()
        if not self._task.cancelled() and (error := self._task.exception()):
            raise error

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        with contextlib.suppress(asyncio.CancelledError, Exception):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    async def _run(self) -> None:
        hosts = {flow.member.agent for flow in self._policy.flows}.difference(self._silent)
        kernels = {name: Table(boottime_ns) for name in hosts}
        try:
            await serve("one", self._policy, LocalBus(), kernels, self._attend, self.told.append)
        except Exception as error:
            self._ready.put(error)
            raise

    async def _attend(self, operations: Operations) -> None:
        with prepared(self._wanted) as server:
            async with server.serving(operations) as self.url:
                async for status in operations.watch():
                    if status.settled or (self._silent and status.leads):
                        break
                self._ready.put(None)
                await asyncio.Event().wait()


@contextlib.contextmanager
def controlled(
    wanted: Listening | None = None, policy: str = FIGURE_2, *, silent: Collection[str] = ()
) -> Iterator[Controlled]:
    """Runs while it is entered: settled, or without the agents of ``silent`` hosts."""
    here = Controlled(loads(policy, "lsst.toml"), wanted or Listening(address="127.0.0.1:0"), silent)
    here.start()
    try:
        yield here
    finally:
        here.stop()
