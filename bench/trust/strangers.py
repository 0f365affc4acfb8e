"""Strangers at a data port, and the port itself. Programs that run on the hosts of a lab.

python -m bench.trust.strangers port                       says which port is listened on next
python -m bench.trust.strangers come ADDRESS RATE_HZ SEED   connects to a port that its input names

The second one comes so many times a second until its input ends, and prints what became of the connections
as JSON. In turn they are silent, send something that is no greeting, and close at once. The program holds
those of the first two kinds until the other end closes them.
"""

import errno
import json
import os
import random
import resource
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["silent", "noisy", "leaving"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HELD = 4_000
"""Connections at a time, at most; the oldest one gives way."""
AT_ONCE = 50
"""Connections begun without a look at the others."""
NOISE_BYTES = 4_096
_LISTENS = "0A"
"""TCP_LISTEN in /proc/net/tcp."""
_POLL_S = 0.005


def listening(table: str) -> set[int]:
    """The ports that are listened on, from the text of /proc/net/tcp or tcp6."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}


def due(elapsed_s: float, rate_hz: float, begun: int) -> int:
    """How many connections to begin now, so that there are ``rate_hz`` a second in the mean."""
    return max(0, min(int(elapsed_s * rate_hz) - begun, AT_ONCE))


class Crowd:
    """Connections to one port, and what became of them."""

    def __init__(self, address: str, port: int, seed: int) -> None:
        self.to = (address, port)
        self.drawn = random.Random(seed)  # noqa: S311, no secret
        self.selector = selectors.DefaultSelector()
        self.coming: dict[socket.socket, Kind] = {}
        self.held: dict[socket.socket, None] = {}
        self.begun = self.connected = self.failed = self.closed = 0
        self.last_connected = self.began = time.monotonic()

    def come(self, rate_hz: float) -> None:
        """Begins connections until standard input ends."""
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for _ in range(due(time.monotonic() - self.began, rate_hz, self.begun)):
                self.begin()
            for key, _ in self.selector.select(1 / rate_hz):
                if not isinstance(key.fileobj, socket.socket):
                    return
                self.go_on(key.fileobj)

    def begin(self) -> None:
        for older in (self.held, self.coming):
            if len(self.held) + len(self.coming) >= HELD and older:
                self.drop(next(iter(older)))
        kind = KINDS[self.begun % len(KINDS)]
        self.begun += 1
        stranger = socket.socket()
        stranger.setblocking(False)
        if stranger.connect_ex(self.to) not in (0, errno.EINPROGRESS):
            self.failed += 1
            stranger.close()
            return
        self.coming[stranger] = kind
        self.selector.register(stranger, selectors.EVENT_WRITE)

    def go_on(self, stranger: socket.socket) -> None:
        """Handles what has happened to a connection."""
        try:
            if stranger in self.coming:
                self.arrive(stranger)
            elif not stranger.recv(NOISE_BYTES):
                raise ConnectionResetError
        except OSError:
            if stranger in self.coming:
                self.failed += 1
            else:
                self.closed += 1
            self.drop(stranger)

    def arrive(self, stranger: socket.socket) -> None:
        """Counts a connection that is there. Raises OSError for one that was refused."""
        number = stranger.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
        self.connected += 1
        self.last_connected = time.monotonic()
        kind = self.coming.pop(stranger)
        if kind == "leaving":
            self.drop(stranger)
            return
        self.held[stranger] = None
        self.selector.modify(stranger, selectors.EVENT_READ)
        if kind == "noisy":
            stranger.send(self.drawn.randbytes(self.drawn.randrange(1, NOISE_BYTES)))

    def drop(self, stranger: socket.socket) -> None:
        self.coming.pop(stranger, None)
        self.held.pop(stranger, None)
        self.selector.unregister(stranger)
        stranger.close()

    def counts(self) -> dict[str, float]:
        return {
            "begun": self.begun,
            "connected": self.connected,
            "failed": self.failed,
            "closed_by_the_far_end": self.closed,
            "lasted_s": self.last_connected - self.began,
        }


def port() -> int:
    """The first port that was not listened on before."""
    known = _listening_here()
    print("ready", flush=True)
    while not (new := _listening_here() - known):
        time.sleep(_POLL_S)
    return min(new)


def come(address: str, rate_hz: float, seed: int) -> dict[str, float]:
    """Strangers until standard input ends; nobody comes when it names no port."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * HELD, hard), hard))
    print("ready", flush=True)
    named = sys.stdin.readline()
    crowd = Crowd(address, int(named or 0), seed)
    if named:
        crowd.come(rate_hz)
    return crowd.counts()


def _listening_here() -> set[int]:
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
    return {
        each for table in tables if table.exists() for each in listening(table.read_text(encoding="ascii"))
    }


def main() -> None:
    match sys.argv[1:]:
        case ["port"]:
            print(port(), flush=True)
        case ["come", address, rate_hz, seed]:
            print(json.dumps(come(address, float(rate_hz), int(seed))), flush=True)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
