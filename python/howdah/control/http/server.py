"""The server: uvicorn on a socket of ours, beside the controller in the same event loop."""

import asyncio
import contextlib
import dataclasses
import importlib
import socket
import ssl
from collections.abc import AsyncIterator, Iterator

import uvicorn

from howdah.control.http import listening
from howdah.control.http.application import application
from howdah.control.http.feed import Feed
from howdah.control.http.guard import Guard
from howdah.control.http.listening import Listening
from howdah.control.http.page import page
from howdah.control.http.patience import Patient
from howdah.control.http.tokens import Tokens
from howdah.control.interface import Operations

CONNECTIONS_MAX = 256
"""At once; more are answered 503."""
_END_S = 2
_LATE = ("anyio._backends._asyncio", "encodings.idna", "uvicorn.lifespan.off")
"""Modules that are loaded at their first use otherwise, when their files may not be readable any more."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for who runs the controller."""
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
                http=Patient,
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
        try:
            yield _url(self.listener, tls=tls is not None)
        finally:
            feed.close()
            server.should_exit = True
            await task


@contextlib.contextmanager
def prepare(wanted: Listening) -> Iterator[Prepared]:
    """As ``http.prepared`` says."""
    tokens = listening.read_tokens(wanted)
    with listening.open_socket(wanted) as listener:
        page()
        for module in _LATE:
            importlib.import_module(module)
        yield Prepared(listener, tokens, listening.tls(wanted))


def _url(listener: socket.socket, *, tls: bool) -> str:
    host, port, *_ = listener.getsockname()
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
