"""The controller over HTTP: an API for programs, a page for people, metrics for Prometheus.

``endpoints.py`` is the table of all paths; the server (``application.py``) and its description are made from
it. ``tokens.py`` alone decides who may do what. ``client.py`` is the other end, for the command line.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from howdah import HowdahError
from howdah.text import with_extra

if TYPE_CHECKING:
    from howdah.control.http.address import Listening
    from howdah.control.http.server import Prepared


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
            f"the API needs Starlette and uvicorn; install them with: {with_extra('control')}"
        ) from None
    with prepare(wanted) as found:
        yield found
