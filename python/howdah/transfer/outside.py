"""All of a running copy that others than its terminal see, and change: jobs, metrics and the log file."""

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from howdah.transfer.attending import Attending
from howdah.transfer.display import Display
from howdah.transfer.observed import Observed
from howdah.transfer.request import Request
from howdah.transfer.standing import Watched
from howdah.transfer.valve import Valve
from howdah.values.record import Record

if TYPE_CHECKING:
    from howdah.transfer.logfile import LogFile


class Outside:
    """Open while the copy runs."""

    def __init__(self, request: Request, record: str, started_at: datetime, valve: Valve) -> None:
        """That of a copy whose record has this id."""
        self._request = request
        self._watched = Watched(request, record, started_at, valve)
        self._attending = Attending(record, self._watched.now, valve)
        self._log: LogFile | None = None
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        """Listens."""
        self._ends.enter_context(self._attending)
        return self

    def __exit__(self, *_: object) -> None:
        """Listens no more."""
        self._ends.close()

    def begin(self, display: Display) -> Display:
        """Begins the log and the metrics; ``display`` with all that watches the copy.

        Raises HowdahError for what cannot be had.
        """
        now, request = self._watched.now(), self._request
        if request.log_file is not None:
            # Most copies load neither.
            from howdah.transfer.logfile import LogFile  # noqa: PLC0415

            started = f"{' '.join(now.from_)} to {now.to}, record {now.record}"
            self._log = LogFile(request.log_file, now.job, started)
        if request.metrics is not None:
            from howdah.transfer.metrics import Metrics  # noqa: PLC0415

            self._ends.enter_context(Metrics(request.metrics, self._watched.now))
        return Observed([display, self._watched, *([self._log] if self._log else [])])

    def read_digests(self, file: Path | None) -> None:
        """Has the log tell of each file that a session adds to ``file``; None: the session has ended."""
        if self._log is not None:
            self._log.read_digests(file)

    def ended(self, record: Record) -> str | None:
        """Has all see the end; why the log has not all of it, if it has not."""
        self._watched.ended(failed=record.error is not None)
        if self._log is None:
            return None
        self._log.ended(record)
        return self._log.failed
