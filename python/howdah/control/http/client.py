"""The client of the API, for the command line: one call a connection, on the standard library alone."""

import contextlib
import http.client
import os
import re
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote, urlsplit

import msgspec

from howdah import HowdahError, decoding, document
from howdah.control import status
from howdah.control.http import endpoints
from howdah.control.http.address import DEFAULT_ADDRESS, is_loopback, parse
from howdah.control.http.endpoints import CLIENT_HEADER, Endpoint, Ordered, Refusal, RequestedShare
from howdah.control.status import Status

ADDRESS_VARIABLE = "HOWDAH_CONTROL"
TOKEN_VARIABLE = "HOWDAH_CONTROL_TOKEN"  # noqa: S105
SILENCE_S = 5.0
"""A controller silent for so long counts as not reached; while watched it sends something every second."""

_EVENT = b"data: "
_TOKEN = re.compile(r"[!-~]+")


class Client:
    """A controller by its address. Every method raises HowdahError, in one line, for whatever goes wrong."""

    def __init__(self, address: str | None = None, token: str | None = None) -> None:
        """``address``: HOST:PORT, by HTTP on this host and by HTTPS elsewhere, or a URL.

        What is not given comes from the environment.
        """
        self.address = address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        self._token = token or os.environ.get(TOKEN_VARIABLE)
        if self._token and not _TOKEN.fullmatch(self._token):
            whose = "the token given" if token else f"the token in {TOKEN_VARIABLE}"
            raise HowdahError(f"{whose} has a space, a line break or another character that no token has")
        self._tls, self._host, self._port = _place(self.address)

    def status(self) -> Status:
        """The status now."""
        return self._status(self._call(endpoints.STATUS))

    def watch(self) -> Iterator[Status]:
        """The status whenever something changes, and every second."""
        with self._answer(endpoints.WATCH) as answer:
            while line := answer.readline():
                if line.startswith(_EVENT):
                    yield self._status(line.removeprefix(_EVENT))
        raise HowdahError(f"the controller at {self.address} has ended")

    def ask(self, name: str, who: str, for_s: int | None = None, host: str | None = None) -> int | None:
        """``who`` asks for a class, for that long or until it is released, on behalf of one host or of all.

        This and all that follow give the revision of the order: it is in force once the status is settled at
        that.
        """
        return self._order(endpoints.ASK, {"class": name, "who": who}, RequestedShare(for_s, host))

    def release(self, name: str, who: str) -> int | None:
        """``who`` asks for the class no longer."""
        return self._order(endpoints.RELEASE, {"class": name, "who": who})

    def change(self, name: str, terms: dict[str, str | int]) -> int | None:
        """Gives a class other terms, by the keys of the policy file."""
        return self._order(endpoints.CHANGE, {"class": name}, terms)

    def restore(self, name: str) -> int | None:
        """Gives a class the terms of the policy file again."""
        return self._order(endpoints.RESTORE, {"class": name})

    def drain(self, host: str) -> int | None:
        """Leaves a host with its minimums."""
        return self._order(endpoints.DRAIN, {"host": host})

    def undrain(self, host: str) -> int | None:
        """Gives a host its shares again."""
        return self._order(endpoints.UNDRAIN, {"host": host})

    def _order(self, endpoint: Endpoint, names: dict[str, str], body: object = None) -> int | None:
        said = self._call(endpoint, names, body)
        try:
            return decoding.from_json(said, Ordered).revision
        except msgspec.DecodeError:
            raise HowdahError(self._is_none()) from None

    def _status(self, said: bytes) -> Status:
        mend = f"run the same howdah here and at {self.address}"
        where = f"the answer of {self.address}"
        return document.decode(said, Status, schema=status.SCHEMA, name="status", where=where, mend=mend)

    def _call(self, endpoint: Endpoint, names: dict[str, str] | None = None, body: object = None) -> bytes:
        with self._answer(endpoint, names, body) as answer:
            return answer.read()

    @contextlib.contextmanager
    def _answer(
        self, endpoint: Endpoint, names: dict[str, str] | None = None, body: object = None
    ) -> Iterator[http.client.HTTPResponse]:
        path = endpoint.path.format(**{key: quote(name, safe="") for key, name in (names or {}).items()})
        content = None if body is None else msgspec.json.encode(body)
        headers = {CLIENT_HEADER: "howdah"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            with self._plainly():
                connection.request(endpoint.method, path, content, headers)
                answer = connection.getresponse()
                if answer.status != HTTPStatus.OK:
                    raise HowdahError(self._refused(answer.status, answer.read()))
                yield answer
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=SILENCE_S)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, self._port, timeout=SILENCE_S, context=context)

    @contextlib.contextmanager
    def _plainly(self) -> Iterator[None]:
        """Turns what goes wrong on the way into HowdahError."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            why = f"{error.verify_message}; name its issuer's in SSL_CERT_FILE"
            raise HowdahError(f"the certificate of {self.address} is not trusted here: {why}") from None
        except (http.client.HTTPException, UnicodeError, ssl.SSLError) as error:
            if isinstance(error, http.client.RemoteDisconnected):
                raise HowdahError(self._unreached("it hung up")) from None
            raise HowdahError(self._is_none()) from None
        except TimeoutError:
            raise HowdahError(self._unreached(f"no word for {SILENCE_S:g} s")) from None
        except OSError as error:
            raise HowdahError(self._unreached(error.strerror or str(error))) from None

    def _unreached(self, why: str) -> str:
        return (
            f"no controller reached at {self.address} ({why}); check that `howdah control serve` runs there"
        )

    def _is_none(self) -> str:
        scheme = "HTTPS" if self._tls else "HTTP"
        return (
            f"the server at {self.address} is not a controller by {scheme}: check the address, or give a URL"
        )

    def _refused(self, code: int, said: bytes) -> str:
        try:
            why = decoding.from_json(said, Refusal).error
        except msgspec.DecodeError:
            return self._is_none()
        if code == HTTPStatus.UNAUTHORIZED:
            return f"{self.address}: {why}; give one in {TOKEN_VARIABLE}"
        return f"{self.address}: {why}" if code == HTTPStatus.FORBIDDEN else why


def _place(address: str) -> tuple[bool, str, int]:
    """Whether by TLS, the host, and the port."""
    if "://" not in address:
        host, port = parse(address)
        return not is_loopback(host), host, port
    try:
        url = urlsplit(address)
    except ValueError:
        raise HowdahError(_no_address(address)) from None
    if url.scheme not in ("http", "https") or url.path.strip("/") or url.query or "@" in url.netloc:
        raise HowdahError(_no_address(address))
    host, port = parse(url.netloc)
    return url.scheme == "https", host, port


def _no_address(address: str) -> str:
    return f"{address!r} is not the address of a controller: give HOST:PORT or https://HOST:PORT"
