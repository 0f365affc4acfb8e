"""The server: uvicorn on a socket of ours, beside the controller in the same event loop."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn

from howdah.paths.guaranteed.http import listening
from howdah.paths.guaranteed.http.application import application
from howdah.paths.guaranteed.http.feed import Feed
from howdah.paths.guaranteed.http.guard import Guard
from howdah.paths.guaranteed.http.listening import Listening
from howdah.paths.guaranteed.http.patience import Patient
from howdah.paths.guaranteed.interface import Operations

CONNECTIONS_MAX = 256
"""At once; more are answered 503."""
_END_S = 2


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for who runs the controller."""
        yield


@contextlib.asynccontextmanager
async def serve(operations: Operations, wanted: Listening) -> AsyncIterator[str]:
    """As ``http.serving`` says."""
    guard = Guard(listening.read_tokens(wanted))
    with listening.open_socket(wanted) as listener:
        feed = Feed(operations)
        server = _Server(
            uvicorn.Config(
                application(operations, guard, feed),
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
                ssl_certfile=wanted.certificate,
                ssl_keyfile=wanted.key,
            )
        )
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield _url(listener, tls=wanted.certificate is not None)
        finally:
            feed.close()
            server.should_exit = True
            await task


def _url(listener: socket.socket, *, tls: bool) -> str:
    host, port, *_ = listener.getsockname()
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
