"""The client of the control API, where there is no controller as it should be."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from howdah import HowdahError
from howdah.control.http import client as client_module
from howdah.control.http.client import Client

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def answering(answer: bytes, *, hold: bool = False) -> Iterator[str]:
    """Whoever connects there gets exactly that; with ``hold`` nothing more comes and nothing ends."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
                if hold:
                    ended.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(HowdahError) as caught:
        Client(address).status()
    assert str(caught.value) == (
        f"no controller reached at {address} (Connection refused); "
        "check that `howdah control serve` runs there"
    )


def test_no_such_host() -> None:
    with pytest.raises(HowdahError, match=r"no controller reached at http://nowhere.invalid:1 \("):
        Client("http://nowhere.invalid:1").status()


def with_length(body: bytes) -> bytes:
    return OK + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"", r"no controller reached at .* \(it hung up\)"),
        (b"220 mail.example ESMTP\r\n", "is not a controller by HTTP"),
        (OK + b"Content-Length: 10\r\n\r\n{", "is not a controller by HTTP"),
        (with_length(b"<html>"), r"the answer of 127\.0\.0\.1:\d+ is not JSON"),
        (with_length(b'{"schema": 99}'), r"is a status of schema 99, .* reads schema 1"),
        (with_length(b'{"schema": 1}'), "is not a status: object missing required field unix_s"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!", "is not a controller by HTTP"),
    ],
)
def test_something_else_there(answer: bytes, line: str) -> None:
    with answering(answer) as address, pytest.raises(HowdahError, match=line) as caught:
        Client(address).status()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", [Client.status, lambda client: next(client.watch())])
def test_silence_ends(call: Callable[[Client], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENCE_S", 0.2)
    begin = time.monotonic()
    for before in (b"", OK + b"\r\n: nothing yet\n"):
        with answering(before, hold=True) as address, pytest.raises(HowdahError, match=r"no word for 0\.2 s"):
            call(Client(address))
    assert time.monotonic() - begin < 5


def test_a_name_stays_in_its_place() -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(with_length(msgspec.json.encode({"revision": 7})))

        thread = threading.Thread(target=serve)
        thread.start()
        assert Client(f"127.0.0.1:{listener.getsockname()[1]}").ask("a/b?c", "d e\r\n", 60) == 7
        thread.join()
    assert heard[0].startswith(b"PUT /v1/asked/a%2Fb%3Fc/d%20e%0D%0A HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "address", ["ftp://h:1", "http://[", "https://h/path", "http://me:word@h", "http://h:x", "http://", "h:x"]
)
def test_no_address(address: str) -> None:
    with pytest.raises(HowdahError, match=r"is not (the|an) address"):
        Client(address)


def test_a_token_that_cannot_be_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client_module.TOKEN_VARIABLE, "howdah_secret\n")
    with pytest.raises(
        HowdahError, match=r"^the token in HOWDAH_CONTROL_TOKEN has a space, a line"
    ) as refused:
        Client("127.0.0.1:1")
    assert "secret" not in str(refused.value)
    with pytest.raises(HowdahError, match=r"^the token given has a space, a line break"):
        Client("127.0.0.1:1", "a b")
