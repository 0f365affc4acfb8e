"""Many connections at once: ``far PORT`` echoes, ``near HOST PORT COUNT SECONDS`` makes and uses them.

Each writes a line when it is ready. near goes on until its standard input is closed, or for SECONDS,
and ends with 0 when every byte came back on every connection.
"""

import contextlib
import select
import selectors
import socket
import sys
import time

MESSAGE = b"x" * 1000


def far(port: int) -> None:
    """Echoes until it is killed."""
    listener = socket.create_server(("", port), backlog=4096)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                accepted, _ = listener.accept()
                accepted.setblocking(False)
                selector.register(accepted, selectors.EVENT_READ, accepted)
                continue
            connection: socket.socket = key.data
            with contextlib.suppress(BlockingIOError):
                if data := connection.recv(1 << 16):
                    connection.send(data)
                else:
                    selector.unregister(connection)


def near(host: str, port: int, count: int, seconds: float) -> None:
    """Raises when a connection is lost."""
    made = [socket.create_connection((host, port)) for _ in range(count // 2)]
    print("half", flush=True)
    made += [socket.create_connection((host, port)) for _ in range(count - count // 2)]
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
        for each in made:
            each.sendall(MESSAGE)
        for each in made:
            left = len(MESSAGE)
            while left:
                got = len(each.recv(left))
                if not got:
                    raise ConnectionError(f"{each} was closed")
                left -= got


if __name__ == "__main__":
    if sys.argv[1] == "far":
        far(int(sys.argv[2]))
    else:
        near(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
