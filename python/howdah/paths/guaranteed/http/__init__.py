"""The controller over HTTP: an API for programs, a page for people, metrics for Prometheus.

``endpoints.py`` is the table of all paths; the server (``application.py``) and its description
(``openapi.py``) are made from it. Who may do what is decided in ``guard.py`` alone. ``client.py`` is the
other end, for the command line.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from howdah import HowdahError

if TYPE_CHECKING:
    from howdah.paths.guaranteed.http.listening import Listening
    from howdah.paths.guaranteed.interface import Operations


@asynccontextmanager
async def serving(operations: "Operations", wanted: "Listening") -> AsyncIterator[str]:
    """Serves while it is entered; gives the URL.

    Raises HowdahError for an address that cannot be listened on or would be open to others, a file of tokens
    or a certificate that cannot be used, and where what it needs is not installed.
    """
    try:
        # 0.2 s to load, which no client waits for.
        from howdah.paths.guaranteed.http.server import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
            raise
        raise HowdahError(
            "the API needs Starlette and uvicorn; install them with: pip install 'howdah[control]'"
        ) from None
    async with serve(operations, wanted) as url:
        yield url
