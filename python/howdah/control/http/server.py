"""The server: uvicorn on a socket of ours, beside the controller in the same event loop.

Connections that ask for nothing have little time, and the oldest gives way when there are many. Without this
a few hundred idle connections, from anybody who reaches the port, shut the API.
"""

import asyncio
import contextlib
import dataclasses
import importlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from howdah.control.http import address, tokens
from howdah.control.http.address import Listening
from howdah.control.http.application import Feed, application, page
from howdah.control.http.tokens import Guard, Tokens
from howdah.control.running.operations import Operations

REQUEST_WITHIN_S = 5.0
"""A request, its body included, must have come this long after the connection or the answer before it."""
IDLE_MAX = 128
"""Connections without a request in progress that are kept."""
CONNECTIONS_MAX = 256
"""Connections at once; more are answered 503."""
_END_S = 2
_LATE = ("anyio._backends._asyncio", "encodings.idna", "uvicorn.lifespan.off")
"""Modules that are loaded at their first use otherwise, when their files may not be readable any more."""


class _Patient(H11Protocol):
    """One connection, with a time for its next request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()
        idle = [each for each in self.connections if isinstance(each, _Patient) and each._waits()]
        for oldest in sorted(idle, key=_Patient._until)[: max(0, len(idle) - IDLE_MAX)]:
            oldest._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin()

    def _begin(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(REQUEST_WITHIN_S, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._waits():
            self._end()

    def _waits(self) -> bool:
        """Whether no whole request has come that is not answered yet."""
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _until(self) -> float:
        return self._timer.when() if self._timer is not None else 0.0

    def _end(self) -> None:
        self._stop()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to who runs the controller."""
        yield


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that the server reads and opens, so that it can be served by a process without privilege."""

    listener: socket.socket
    tokens: Tokens | None
    tls: ssl.SSLContext | None

    @contextlib.asynccontextmanager
    async def serving(self, operations: Operations) -> AsyncIterator[str]:
        """Serves while it is entered; gives the URL."""
        feed = Feed(operations)
        tls = self.tls
        server = _Server(
            uvicorn.Config(
                application(operations, Guard(self.tokens), feed),
                http=_Patient,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                timeout_graceful_shutdown=_END_S,
                ssl_context_factory=None if tls is None else lambda config, default: tls,
            )
        )
        task = asyncio.create_task(server.serve([self.listener]))
        host, port, *_ = self.listener.getsockname()
        try:
            yield f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        finally:
            feed.close()
            server.should_exit = True
            await task


@contextlib.contextmanager
def prepare(wanted: Listening) -> Iterator[Prepared]:
    """Reads, opens and loads all that serving takes; ``http.prepared`` says what it raises."""
    known = None if wanted.tokens is None else tokens.load(wanted.tokens)
    with address.open_socket(wanted) as listener:
        page()
        for module in _LATE:
            importlib.import_module(module)
        yield Prepared(listener, known, address.tls(wanted))
