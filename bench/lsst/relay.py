"""A controller of this machine, reached by the hosts of a lab as if it ran on each of them."""

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from howdah.control.http.address import DEFAULT_PORT

_CLONE_NEWNET = 0x40000000
_LOOPBACK = "127.0.0.1"


@contextlib.contextmanager
def relayed(namespaces: Sequence[Path], ports: Sequence[int]) -> Iterator[None]:
    """While the block lasts, 127.0.0.1:7310 in each namespace is the first port here to answer."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    listeners = [_listener(namespace) for namespace in namespaces]
    try:
        for listener in listeners:
            serving = asyncio.start_server(lambda r, w: _relay(r, w, ports), sock=listener)
            asyncio.run_coroutine_threadsafe(serving, loop).result()
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        for listener in listeners:
            listener.close()


def _listener(namespace: Path) -> socket.socket:
    """Made by a thread of its own, which stays in the namespace and ends."""

    def make() -> socket.socket:
        descriptor = os.open(namespace, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        finally:
            os.close(descriptor)
        return socket.create_server((_LOOPBACK, DEFAULT_PORT))

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


async def _end() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ports: Sequence[int]) -> None:
    for port in ports:
        with contextlib.suppress(OSError):
            there = await asyncio.open_connection(_LOOPBACK, port)
            await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
            break
    writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
