"""The controller over HTTP: an API for programs, a page for people, metrics for Prometheus.

``endpoints.py`` is the table of all paths; the server (``application.py``) and its description
(``openapi.py``) are made from it. Who may do what is decided in ``guard.py`` alone. ``client.py`` is the
other end, for the command line.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from howdah import HowdahError

if TYPE_CHECKING:
    from howdah.control.http.listening import Listening
    from howdah.control.http.server import Prepared
    from howdah.control.interface import Operations


@contextmanager
def prepared(wanted: "Listening") -> "Iterator[Prepared]":
    """Listens, and has read and loaded all that serving takes, so that it needs no privilege.

    Raises HowdahError for an address that cannot be listened on or would be open to others, a file of tokens
    or a certificate that cannot be used, and where what it needs is not installed.
    """
    try:
        # 0.2 s to load, which no client waits for.
        from howdah.control.http.server import prepare  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        raise HowdahError(
            "the API needs Starlette and uvicorn; install them with: pip install 'howdah[control]'"
        ) from None
    with prepare(wanted) as found:
        yield found


@asynccontextmanager
async def serving(operations: "Operations", wanted: "Listening") -> AsyncIterator[str]:
    """Prepares, and serves while it is entered; gives the URL."""
    with prepared(wanted) as found:
        async with found.serving(operations) as url:
            yield url
