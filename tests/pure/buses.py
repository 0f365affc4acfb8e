"""NATS servers for tests, and what can go wrong between them and a bus."""

import asyncio
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.nats_server import NatsServer
from howdah.lab.processes import DIES_WITH_PARENT


@contextmanager
def served(settings: dict[str, Any] | None = None) -> Iterator[NatsServer]:
    with TemporaryDirectory() as folder, NatsServer(Path(folder) / "nats", settings=settings) as server:
        yield server


@contextmanager
def served_as(configuration: str, folder: Path) -> Iterator[str]:
    """A server with this ``nats.conf``, which lets it choose its port; its address."""
    (folder / "nats.conf").write_text(f'{configuration}\nports_file_dir: "{folder}"\n')
    command = [
        *DIES_WITH_PARENT,
        "nats-server",
        "--config",
        str(folder / "nats.conf"),
        "--log",
        str(folder / "log"),
    ]
    with subprocess.Popen(command) as process:
        try:
            while not (ports := list(folder.glob("*.ports"))) or not ports[0].read_text().endswith("}"):
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.005)
            yield json.loads(ports[0].read_text())["nats"][0]
        finally:
            process.kill()


class Wire:
    """What lies between a bus and its server: it can be cut, and it can go dead without a word."""

    def __init__(self, server: NatsServer) -> None:
        self._server = server
        self._streams: set[asyncio.StreamWriter] = set()
        self._alive = asyncio.Event()
        self._alive.set()
        self._listener: asyncio.Server | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    async def join(self) -> None:
        self._listener = await asyncio.start_server(self._carry, "127.0.0.1", self._port or 0)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._listener
        self._listener.close()
        for stream in tuple(self._streams):
            stream.transport.abort()
        await self._listener.wait_closed()

    def go_dead(self) -> None:
        self._alive.clear()

    def come_back(self) -> None:
        self._alive.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._streams |= {writer, far_writer}
        try:
            await asyncio.gather(self._one_way(reader, far_writer), self._one_way(far_reader, writer))
        finally:
            self._streams -= {writer, far_writer}

    async def _one_way(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while some := await reader.read(65536):
                await self._alive.wait()
                writer.write(some)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


@asynccontextmanager
async def wired(server: NatsServer) -> AsyncIterator[Wire]:
    wire = Wire(server)
    await wire.join()
    try:
        yield wire
    finally:
        wire.come_back()
        await wire.cut()


class Pretender:
    """Speaks as a NATS server does at first, and keeps what it is told."""

    def __init__(self, **info: object) -> None:
        self._info = {"server_id": "x", "version": "2.15.1", "headers": True, "max_payload": 2**20, **info}
        self.heard = b""

    async def speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"INFO {json.dumps(self._info)}\r\n".encode())
        while line := await reader.readline():
            self.heard += line
            if line.startswith(b"CONNECT "):
                writer.write(b"+OK\r\n")
            elif line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()


@asynccontextmanager
async def pretended(pretender: Pretender) -> AsyncIterator[str]:
    """Its address, ``HOST:PORT``."""
    async with await asyncio.start_server(pretender.speak, "127.0.0.1", 0) as listener:
        host, port = listener.sockets[0].getsockname()
        yield f"{host}:{port}"
