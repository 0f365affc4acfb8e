"""A running copy in Prometheus' text format, version 0.0.4, kept in a file or served on this host's loopback.

A file is replaced whole every few seconds, for the textfile collector of node_exporter; it stays when the
copy has ended, and says so. A port answers GET /metrics as long as the copy runs. It is bound to loopback
alone, since names of hosts and paths are in the answer.
"""

import contextlib
import re
import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self, get_args

from howdah import HowdahError, interrupt
from howdah.arguments import BadArgument, NotHere, literal
from howdah.bounds import PORT_MAX
from howdah.replaced import replaced
from howdah.text import metric
from howdah.transfer.standing import Standing, State

EVERY_S = 5.0
"""The seconds between two times that a file is replaced."""
_LOOPBACK = "127.0.0.1"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_IDLE_S = 5.0
_GLANCE_S = 0.1

_METRICS: tuple[tuple[str, str, str, Callable[[Standing], float | None]], ...] = (
    ("bytes_total", "counter", "Payload verified at the receiver.", lambda now: now.bytes_done),
    ("size_bytes", "gauge", "Payload known so far.", lambda now: now.bytes_total),
    ("files_total", "counter", "Files in place at the receiver.", lambda now: now.files_done),
    ("known_files", "gauge", "Files known so far.", lambda now: now.files_total),
    ("rate_bits_per_second", "gauge", "Payload over the last second.", lambda now: now.rate_bps),
    ("retransmissions_total", "counter", "Segments sent again.", lambda now: now.retransmissions),
    ("streams", "gauge", "Data streams that are open.", lambda now: now.streams),
    ("limit_bits_per_second", "gauge", "The limit; absent without one.", lambda now: now.limit_bps),
    ("start_time_seconds", "gauge", "When it began.", lambda now: now.started_at.timestamp()),
)
"""Name, type, help and value of each metric; what is not known has no sample."""


def text(now: Standing) -> str:
    """The metrics of a copy as it stands now."""
    return "".join(_texts(now))


def _texts(now: Standing) -> Iterator[str]:
    job = {"job_id": now.job}
    yield metric(
        "howdah_copy_info", "What is copied.", [({**job, "source": " ".join(now.from_), "target": now.to}, 1)]
    )
    for name, kind, says, value in _METRICS:
        if (known := value(now)) is not None:
            yield metric(f"howdah_copy_{name}", says, [(job, known)], kind)
    states = [({**job, "state": state}, float(state == now.state)) for state in get_args(State)]
    yield metric("howdah_copy_state", "1 for the state that it is in.", states)


class Metrics:
    """The metrics of one copy, there while it is entered."""

    def __init__(self, place: str, standing: Callable[[], Standing]) -> None:
        """``place`` is a port, or a file."""
        self._place, self._standing = place, standing
        self._ended = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begins. Raises HowdahError for a port that cannot be had, and a file that cannot be written."""
        work = self._write_now_and_then
        if re.fullmatch(r"-?[0-9]+", self._place):
            work = self._serve()
        elif not Path(self._place).name:
            raise BadArgument(f"{{metrics}} {self._place!r} names no file; give a file, or a port")
        else:
            self._write()
        self._thread = threading.Thread(
            target=_without_signals, args=(work,), name="howdah-metrics", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends. The file has the copy as it ended."""
        self._ended.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._thread is not None:
            self._thread.join(_IDLE_S)
        if self._server is None:
            with contextlib.suppress(HowdahError):
                self._write()

    def _write_now_and_then(self) -> None:
        while not self._ended.wait(EVERY_S):
            # A disk that is full for a while costs no copy.
            with contextlib.suppress(HowdahError):
                self._write()

    def _write(self) -> None:
        file = Path(self._place)
        try:
            # Nothing beside it ends in .prom, which the collector would read.
            with replaced(file) as new:
                new.write(text(self._standing()).encode())
        except OSError as error:
            raise NotHere(f"{{metrics}} {literal(str(file))}: {error.strerror or error}") from None

    def _serve(self) -> Callable[[], None]:
        port = int(self._place[:10])
        if not 0 < port <= PORT_MAX:
            raise BadArgument(
                f"{{metrics}} {literal(self._place)} is not a port; "
                f"give 1 to {PORT_MAX}, or a file with a / in its name"
            )
        try:
            self._server = _Server((_LOOPBACK, port), _answers(self._standing))
        except OSError as error:
            raise NotHere(f"{{metrics}} {port}: {error.strerror or error}; give another port") from None
        server = self._server
        return lambda: server.serve_forever(poll_interval=_GLANCE_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Says nothing, as above: whoever asked has gone."""


def _answers(standing: Callable[[], Standing]) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        timeout = _IDLE_S

        def do_GET(self) -> None:
            """Answers GET /metrics."""
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = text(standing()).encode()
            self.send_response(200)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing: the terminal is the copy's."""

    return Answers


def _without_signals(work: Callable[[], None]) -> None:
    # Signals are for the thread of the copy.
    signal.pthread_sigmask(signal.SIG_BLOCK, interrupt.SIGNALS)
    work()
