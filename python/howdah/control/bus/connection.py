"""One connection to NATS servers, kept up until it is closed, and its errors in plain words."""

import asyncio
import re
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client, RawCredentials
from nats.js import JetStreamContext

from howdah import HowdahError
from howdah.control.bus.access import Access
from howdah.control.bus.interface import Unreachable

T = TypeVar("T")
NOT_FOUND = {10014, 10037, 10059}
"""JetStream's error codes where there is no such consumer, message or stream."""
NAME_IN_USE = {10058}
"""JetStream's error code for a stream that is there with another layout."""
OTHER_REVISION = {10071, 10164}
"""JetStream's error codes for a subject whose last message is not the expected one."""
_FULL = {10023, 10047, 10077, 10122}
"""JetStream's error codes for no room: in memory or on disk, in the account, in the stream."""
API = "$JS.API."
"""All requests to JetStream itself are sent to subjects that begin with this."""
_DENIED = re.compile(r"permissions violation for \w+ to \"(?P<subject>[^\"]+)\"", re.IGNORECASE)
_LOGIN = re.compile("authorization|authentication", re.IGNORECASE)
_ADDRESS = re.compile(r"(nats|tls)://([^/@\s]+@)?[^/@\s]+")
_OLDEST = (2, 11, 1)
"""The first NATS server that tells watchers when a value's time is over."""
_REPLY_S = 2.0
_RETRY_S = 0.1
_PING_S = 0.5
"""The time between pings. After two unanswered ones the connection is dead."""
_CLOSE_S = 1.0


class Refused(HowdahError):
    """JetStream refused a request."""

    def __init__(self, words: str, code: int | None) -> None:
        super().__init__(words)
        self.code = code


class Denied(HowdahError):
    """The client's permissions do not allow the request."""


class NoStream(Unreachable):
    """No stream takes what was sent: it was never made, or was lost, or is not back yet."""


class _Client(Client):
    """A client that refuses to go on without TLS where it is wanted; nats-py takes it only when offered."""

    tls_is_wanted = False

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self.tls_is_wanted and not info.get("tls_required"):
            raise nats.errors.SecureConnWantedError
        await super()._process_info(info, initial_connection)


class Connection:
    """A client that connects again by itself, to any of its servers."""

    def __init__(self, servers: str, access: Access) -> None:
        """Raises HowdahError unless ``servers`` are addresses with commas between them."""
        self._servers = [server.strip() for server in servers.split(",")]
        for server in self._servers:
            if not _ADDRESS.fullmatch(server):
                raise HowdahError(
                    f"{server!r} is not the address of a NATS server; give nats://HOST:PORT or tls://…"
                )
        self.where = ", ".join(re.sub(r"//[^@]*@", "//", server) for server in self._servers)
        """The servers, without secrets."""
        self._server = f"the NATS server at {self.where}"
        self._access = access
        self._client = _Client()
        self._client.tls_is_wanted = access.wants_tls or any(
            each.startswith("tls:") for each in self._servers
        )
        self._last: Exception | None = None
        loop = asyncio.get_running_loop()
        self._refused: asyncio.Future[None] = loop.create_future()
        self._trouble: asyncio.Future[None] = loop.create_future()
        self._denied: Counter[str] = Counter()
        self._left = False
        self.breaks = 0
        """The number of times that the connection broke."""
        self.stirred: set[Callable[[], None]] = set()
        """The callback for when it has connected again, and when it is closed for good."""

    async def open(self, wait_s: float) -> None:
        """Connects. Raises Unreachable after ``wait_s``, HowdahError at once when a server refuses."""
        connecting = asyncio.create_task(self._client.connect(**self._options()))
        try:
            await asyncio.wait(
                (connecting, self._refused), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not connecting.done():
                raise self._no_connection(self._last or TimeoutError())
            connecting.result()
            self._check_age()
        except BaseException as error:
            connecting.cancel()
            await asyncio.wait((connecting,))
            await self.close()
            if isinstance(error, nats.errors.Error | OSError):
                raise self._no_connection(error) from None
            raise

    @property
    def client(self) -> Client:
        """The client, for subscriptions."""
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """The requests to JetStream, to be made through ``reply``."""
        return self._client.jetstream(timeout=_REPLY_S)

    @property
    def closed(self) -> HowdahError | None:
        """The reason why there will be no connection any more; null: there may be one."""
        if self._left:
            return HowdahError("the bus is closed")
        error = self._last or self._client.last_error or nats.errors.ConnectionClosedError()
        return self._no_connection(error) if self._client.is_closed else None

    async def reply(self, asking: Coroutine[Any, Any, T], subject: str = API) -> T:
        """The answer to a request, or at once an error if the connection breaks; ``subject`` is written to.

        Raises Refused, NoStream, Unreachable, and HowdahError where the subject may not be written to.
        """
        task = asyncio.create_task(asking)
        try:
            await self._until_done(task, subject)
            return task.result()
        except nats.js.errors.APIError as error:
            raise self._no_success(error) from None
        except nats.js.errors.NoStreamResponseError:
            raise NoStream(f"no stream at {self.where} takes {subject}") from None
        except (nats.errors.TimeoutError, TimeoutError):
            raise Unreachable(f"no answer from {self._server} within {_REPLY_S:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise self.closed or self._no_connection(self._last or error) from None
        finally:
            task.cancel()

    async def tell(self, subject: str, value: bytes) -> None:
        """Sends and waits for nothing. Raises Unreachable where there is no connection."""
        try:
            await self._client.publish(subject, value)
        except (nats.errors.Error, OSError) as error:
            raise self.closed or self._no_connection(self._last or error) from None

    async def _until_done(self, task: asyncio.Task[T], subject: str) -> None:
        breaks, denials = self.breaks, self._denials(subject)
        while not task.done():
            await asyncio.wait((task, self._trouble), return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and self.breaks != breaks:
                raise Unreachable(f"the connection to {self._server} broke")
            if self._denials(subject) != denials:
                raise Denied(
                    f"{self._server} does not let {self._access.in_words()} write to {subject}; "
                    "its permissions say who may"
                )

    def _denials(self, subject: str) -> int:
        """The number of refusals to write there; NATS tells the subject in small letters."""
        if subject == API:
            return sum(count for each, count in self._denied.items() if each.startswith(API.lower()))
        return self._denied[subject.lower()]

    async def close(self) -> None:
        """Lets the connection go."""
        self._left = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._client.close()

    def _options(self) -> dict[str, Any]:
        access = self._access
        options: dict[str, Any] = {
            "servers": self._servers,
            "user": access.user,
            "password": access.password,
            "token": access.token,
            "nkeys_seed_str": access.nkey_seed,
            "user_credentials": access.raw_credentials and RawCredentials(access.raw_credentials),
            "inbox_prefix": access.inbox,
            "error_cb": self._erred,
            "disconnected_cb": self._broke,
            "reconnected_cb": self._stir,
            "closed_cb": self._stir,
            "connect_timeout": _REPLY_S,
            # It then waits for the server's word on its login. Without, it sends on to a server that has hung
            # up, gets a reset, and the reason is lost.
            "verbose": True,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": _RETRY_S,
            "ping_interval": _PING_S,
            # What was sent to a broken connection must not arrive later, when its sender has given up.
            "pending_size": 0,
        }
        if self._client.tls_is_wanted:
            options["tls"] = access.tls
        return options

    async def _erred(self, error: Exception) -> None:
        if denied := _DENIED.search(str(error)):
            self._denied[denied["subject"].lower()] += 1
            self._tell_trouble()
            return
        self._last = error
        if _is_refusal(error) and not self._refused.done():
            self._refused.set_result(None)

    async def _broke(self) -> None:
        self.breaks += 1
        self._tell_trouble()

    async def _stir(self) -> None:
        for call in tuple(self.stirred):
            call()

    def _tell_trouble(self) -> None:
        self._trouble.set_result(None)
        self._trouble = asyncio.get_running_loop().create_future()

    def _check_age(self) -> None:
        version = self._client.connected_server_version
        found = (version.major, version.minor, version.patch)
        if found < _OLDEST:
            raise HowdahError(
                f"{self._server} is version {'.'.join(map(str, found))}, whose values cannot expire; "
                f"it must be {'.'.join(map(str, _OLDEST))} or later"
            )

    def _no_connection(self, error: Exception) -> HowdahError:
        """The reason why there is no connection: a refusal, or Unreachable."""
        if isinstance(error, nats.errors.SecureConnWantedError):
            return HowdahError(
                f"{self._server} does not offer TLS; turn it on there, or use nats:// without certificates"
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return HowdahError(
                f"the certificate of {self._server} is not trusted ({error.verify_message}); "
                "name the CA that signed it"
            )
        if isinstance(error, ssl.SSLError):
            return HowdahError(
                f"no TLS with {self._server}: {error.reason}; does it ask for a client's certificate?"
            )
        if _is_refusal(error):
            return HowdahError(f"{self._server} refuses {self._access.in_words()}: {_words(error)}")
        return Unreachable(
            f"{self._server} cannot be reached: {_words(error)}; does it run, and is the address right?"
        )

    def _no_success(self, error: nats.js.errors.APIError) -> HowdahError:
        """The reason why JetStream did not do what it was asked."""
        if error.err_code in _FULL:
            return HowdahError(
                f"{self._server} has no room left ({error.description}); raise its limits or free its disk"
            )
        if isinstance(error, nats.js.errors.ServiceUnavailableError):
            return Unreachable(f"{self._server} has no JetStream at present; is it on, and has it a leader?")
        return Refused(f"{self._server} refuses: {error.description}", error.err_code)


def _is_refusal(error: Exception) -> bool:
    """Whether trying again is of no use until somebody changes something."""
    if isinstance(error, nats.errors.Error) and _LOGIN.search(str(error)):
        return True
    return isinstance(error, ssl.SSLError | nats.errors.SecureConnWantedError)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).removeprefix("nats: ").strip("'") or type(error).__name__
