"""Connections that ask for nothing: each has little time, and the oldest gives way when there are many.

Without this a few hundred idle connections, from anybody who reaches the port, shut the API.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_WITHIN_S = 5.0
"""A request, its body included, must have come this long after the connection or the answer before it."""
IDLE_MAX = 128
"""Connections without a request in progress that are kept."""


class Patient(H11Protocol):
    """One connection. Those that idle are known by the server, the oldest first."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins the time for the first request."""
        super().connection_made(transport)
        self._begin()
        idle = [each for each in self.connections if isinstance(each, Patient) and each._waits()]
        for oldest in sorted(idle, key=Patient._until)[: max(0, len(idle) - IDLE_MAX)]:
            oldest._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the time."""
        self._stop()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Begins the time for the next request."""
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
