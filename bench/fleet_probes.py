"""What bench/fleet.py runs on the hosts of its lab.

nats FOLDER ADDRESS           a server with JetStream, until killed; says where it listens
drain PORT…                   takes all connections and what comes by them, until killed; says ready
send ADDRESS PORT…            a connection to each port, as fast as it goes, until killed; says ready
orders ADDRESS CLASS COUNT    asks for a class and releases it in turn; says when, monotonic ns
"""

import json
import selectors
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.nats_server import NatsServer
from howdah.control.http.client import Client

BETWEEN_S = 1.0
"""From order to order."""


def nats(folder: str, address: str) -> None:
    with NatsServer(Path(folder), address=address) as server:
        print(server.url, flush=True)
        threading.Event().wait()


def drain(ports: Sequence[str]) -> None:
    selector = selectors.DefaultSelector()
    listeners = [socket.create_server(("", int(port)), backlog=1024) for port in ports]
    for listener in listeners:
        selector.register(listener, selectors.EVENT_READ, listener)
    print("ready", flush=True)
    buffer = bytearray(1 << 20)
    while True:
        for key, _ in selector.select():
            ready: socket.socket = key.data
            if ready in listeners:
                accepted, _ = ready.accept()
                selector.register(accepted, selectors.EVENT_READ, accepted)
            elif not ready.recv_into(buffer):
                selector.unregister(ready)
                ready.close()


def send(address: str, ports: Sequence[str]) -> None:
    made = [socket.create_connection((address, int(port))) for port in ports]
    for connection in made:
        threading.Thread(target=_send, args=(connection,), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def _send(connection: socket.socket) -> None:
    while True:
        connection.sendall(bytes(1 << 14))


def orders(address: str, name: str, count: str) -> None:
    client = Client(address)
    for number in range(int(count)):
        print(json.dumps(time.monotonic_ns()), flush=True)
        (client.release if number % 2 else client.ask)(name, "bench")
        time.sleep(BETWEEN_S)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["nats", folder, address]:
            nats(folder, address)
        case ["drain", *ports]:
            drain(ports)
        case ["send", address, *ports]:
            send(address, ports)
        case ["orders", address, name, count]:
            orders(address, name, count)
