"""What the archive remembers of the path of a copy, looked up while ssh logs in.

A thread does it, because reading the archive takes some milliseconds, in which a far end that waited has long
said hello. Copies only add to the inbox; where much has gathered there, the same thread takes it in while the
copy runs, so that the next copy finds all of it.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from howdah import HowdahError
from howdah.archive import Archive
from howdah.transfer.request import Request
from howdah.values.memory import Direction, PastCopy, PathMemory, recall
from howdah.values.record import lab_link

_PATIENCE_S = 0.5
"""The longest that a plan waits for the look-up: on a very slow disk a copy goes without."""
_LACKS = (OSError, ImportError, MemoryError, HowdahError)
"""How a host says that it has no file, or no memory, for the look-up: a copy goes without then too."""


class Recollection:
    """The memory of one path, from its look-up on."""

    def __init__(
        self, request: Request, archive: Archive, remembers: Callable[[], None] | None = None
    ) -> None:
        """Begins the look-up, in a thread; it calls ``remembers`` where there is something."""
        self._remembers = remembers
        self._archive = archive
        self._request = request
        self._path: str | None = None
        self._direction: Direction = request.route.direction
        self._copies: list[PastCopy] = []
        self._looked = threading.Event()
        threading.Thread(target=self._look, name="howdah-memory", daemon=True).start()

    def of(self, rtt_s: float | None, address: str | None) -> PathMemory | None:
        """What is remembered, for a path with this base RTT to this address; None: nothing."""
        if not self._looked.wait(_PATIENCE_S) or self._path is None or not self._copies:
            return None
        return recall(self._path, self._direction, self._copies, rtt_s, address)

    def _look(self) -> None:
        try:
            with suppress(*_LACKS):
                self._find()
        finally:
            self._looked.set()
        with suppress(*_LACKS):
            if self._remembers is not None and self._copies:
                self._remembers()
            from howdah.archive import paths  # noqa: PLC0415

            paths.take_in(self._archive.inbox)

    def _find(self) -> None:
        from howdah.archive import paths  # noqa: PLC0415, while ssh logs in

        self._path = paths.named(*self._names(), lab_link())
        if self._path is not None:
            self._copies = paths.copies(self._archive.inbox, self._path, self._direction)

    def _names(self) -> tuple[str, str | None]:
        route = self._request.route
        origin = route.origin and route.origin.rpartition("@")[2]
        return route.host.rpartition("@")[2], origin
