"""Connections to the control API that ask for nothing, or take for ever to: they shut nobody out."""

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from controlled import Controlled, controlled

from howdah.control.http.client import Client
from howdah.control.http.server import CONNECTIONS_MAX, IDLE_MAX, REQUEST_WITHIN_S

ANSWERED_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def path() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


def connect(path: Controlled, stack: ExitStack, said: bytes = b"") -> socket.socket:
    url = urlsplit(path.url)
    made = stack.enter_context(socket.create_connection((url.hostname, url.port), timeout=20))
    if said:
        made.sendall(said)
    return made


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /api/status HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /api/release HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    ],
    ids=["silent", "half a head", "half a body"],
)
def test_more_idle_connections_than_there_may_be_shut_nobody_out(path: Controlled, said: bytes) -> None:
    with ExitStack() as stack:
        idle = [connect(path, stack, said) for _ in range(CONNECTIONS_MAX + 44)]
        begun = time.monotonic()
        assert Client(path.url).status().policy
        assert time.monotonic() - begun < ANSWERED_WITHIN_S
        # The first ones have given way to those after them, and time is over for the last.
        ends = time.monotonic() + REQUEST_WITHIN_S + ANSWERED_WITHIN_S
        for each in [*idle[: len(idle) - IDLE_MAX], idle[-1]]:
            each.settimeout(max(0.1, ends - time.monotonic()))
            with contextlib.suppress(ConnectionResetError):
                while each.recv(65536):
                    pass


def test_who_watches_is_not_idle(path: Controlled) -> None:
    ends = time.monotonic() + REQUEST_WITHIN_S + 1.0
    for status in Client(path.url).watch():
        assert status.policy
        if time.monotonic() > ends:
            return
    pytest.fail("the feed has ended")
