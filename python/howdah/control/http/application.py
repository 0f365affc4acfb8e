"""The paths as an ASGI application: what is checked before each, what each does, how each error is said.

Source: WHATWG HTML, section 9.2, Server-sent events.

Metrics are the status in Prometheus' text format.
"""

import asyncio
import contextlib
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from howdah import HowdahError, decoding, document, tomlfile
from howdah.control.bus import Unreachable
from howdah.control.http import endpoints
from howdah.control.http.endpoints import JSON, ROLE_HEADER, Endpoint, Ordered, Refusal, Refused
from howdah.control.http.tokens import Guard
from howdah.control.running.operations import Operations
from howdah.control.status import Status
from howdah.text import metric

_STATUS = {
    "guarantee_bits_per_second": ("guarantee_bps", "What the network promises."),
    "trusted_bits_per_second": ("trusted_bps", "The part of the guarantee that is given away."),
    "free_bits_per_second": ("free_bps", "The part of that which no flow may have."),
    "leads": ("leads", "1 if this controller leads."),
    "settled": ("settled", "1 if all orders are in force."),
    "epoch": ("epoch", "The number of the leader's term."),
}
_HOST = {
    "heard_seconds": ("heard_s", "Since the last message of its agent."),
    "lease_left_seconds": ("lease_left_s", "Until its lease runs out."),
    "drained": ("drained", "1 if it has only its minimums."),
}
_FLOW = {
    "share_bits_per_second": ("share_bps", "In force, on the wire."),
    "target_bits_per_second": ("target_bps", "What it is to have, on the wire."),
    "minimum_bits_per_second": ("minimum_bps", "What it falls back to, on the wire."),
    "sent_bits_per_second": ("sent_bps", "Really sent, on the wire."),
    "acked_bits_per_second": ("acked_bps", "Payload that has arrived."),
    "connections": ("connections", "TCP connections that are open."),
}


def exposition(status: Status, watchers: int) -> str:
    """The whole answer; ``watchers`` is how many follow the status over HTTP."""
    return "".join(_texts(status, watchers))


def _texts(status: Status, watchers: int) -> Iterator[str]:
    names = {"policy": status.policy, "controller": status.controller}
    yield metric("howdah_control_info", "Whose status this is.", [(names, 1)])
    for name, (field, says) in _STATUS.items():
        yield metric(f"howdah_control_{name}", says, [({}, getattr(status, field))])
    yield metric("howdah_control_watchers", "Who follow the status over HTTP.", [({}, watchers)])
    counts = Counter(each.traffic_class for each in status.asked)
    classes = dict.fromkeys(flow.traffic_class for flow in status.flows)
    samples = [({"class": name}, counts[name]) for name in classes]
    yield metric("howdah_control_asked", "How many ask for a class.", samples)
    hosts = [({"host": each.name}, each) for each in status.hosts]
    for name, (field, says) in _HOST.items():
        yield metric(f"howdah_host_{name}", says, [(labels, getattr(host, field)) for labels, host in hosts])
    flows = [
        ({"flow": each.flow, "class": each.traffic_class, "host": each.host}, each) for each in status.flows
    ]
    for name, (field, says) in _FLOW.items():
        yield metric(f"howdah_flow_{name}", says, [(labels, getattr(flow, field)) for labels, flow in flows])


BODY_MAX_BYTES = 16 * 1024
BODY_MAX_S = 10.0
"""The limit for all of a body to arrive."""
WATCHERS_MAX = 64

Handler = Callable[[Request], Awaitable[Response]]
Order = Callable[[Mapping[str, str], Any], Awaitable[int | None]]
"""Takes the names of a path, by its braces, and the body."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_SCRIPTS = ("stream.js", "history.js", "chart.js", "table.js", "page.js")
"""The scripts in this order; each uses those before it."""


def application(operations: Operations, guard: Guard, feed: "Feed") -> Starlette:
    """Serves every endpoint."""
    handlers: dict[Endpoint, Handler] = {
        **_reading(operations, feed),
        **{each: partial(_ordered, each, order, operations) for each, order in _orders(operations).items()},
    }
    description = endpoints.description([*handlers, endpoints.DESCRIPTION])
    handlers[endpoints.DESCRIPTION] = _always(document.encode(description), {"Content-Type": JSON})
    return Starlette(
        routes=[
            Route(each.path, _guarded(each, handler, guard), methods=[each.method])
            for each, handler in handlers.items()
        ],
        exception_handlers={HTTPException: _no_such_path, Exception: _our_mistake},
    )


class Feed:
    """The status as it changes, as server-sent events to all who watch."""

    def __init__(self, operations: Operations) -> None:
        self.watchers = 0
        """The number of those who watch now."""
        self._operations = operations
        self._closed = asyncio.Event()
        self._last: tuple[Status, bytes] | None = None

    def check_room(self) -> None:
        """Raises Refused where there are too many already."""
        if self.watchers >= WATCHERS_MAX:
            why = f"{self.watchers} watch already, which is all this controller serves"
            raise Refused(503, why, {"Retry-After": "10"})

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """Counts one more while it is entered."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    def close(self) -> None:
        """Ends the events of all, soon."""
        self._closed.set()

    async def events(self) -> AsyncIterator[bytes]:
        """An event for each status, as often as ``Operations.watch`` has any; a slow reader misses some."""
        closed = asyncio.ensure_future(self._closed.wait())
        changes = self._operations.watch()
        coming = asyncio.ensure_future(anext(changes))
        try:
            while True:
                await asyncio.wait([coming, closed], return_when=asyncio.FIRST_COMPLETED)
                if closed.done():
                    return
                yield self._event(coming.result())
                coming = asyncio.ensure_future(anext(changes))
        finally:
            closed.cancel()
            coming.cancel()

    def _event(self, status: Status) -> bytes:
        """An event, encoded once for all who watch."""
        if self._last is None or self._last[0] is not status:
            self._last = status, b"data: " + msgspec.json.encode(status) + b"\n\n"
        return self._last[1]


class _Watched(StreamingResponse):
    """A response of events. It counts as a watcher from its first byte to its last, however it ends."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.events(), media_type=endpoints.EVENTS)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.joined():
            await super().__call__(scope, receive, send)


def _reading(operations: Operations, feed: Feed) -> dict[Endpoint, Handler]:
    async def status(_: Request) -> Response:
        return _json(operations.status())

    async def watch(_: Request) -> Response:
        feed.check_room()
        return _Watched(feed)

    async def measured(_: Request) -> Response:
        text = exposition(operations.status(), feed.watchers)
        return Response(text, headers={"Content-Type": endpoints.EXPOSITION})

    content, headers = page()
    return {
        endpoints.STATUS: status,
        endpoints.WATCH: watch,
        endpoints.METRICS: measured,
        endpoints.PAGE: _always(content, {"Content-Type": endpoints.HTML, **headers}),
    }


def _orders(operations: Operations) -> dict[Endpoint, Order]:
    """The operation of each endpoint that changes something."""

    def given(terms: object) -> dict[str, str | int]:
        return {key: value for key, value in msgspec.to_builtins(terms).items() if value is not None}

    return {
        endpoints.ASK: lambda names, wish: operations.ask(
            names["class"], names["who"], wish.for_s, wish.host
        ),
        endpoints.RELEASE: lambda names, _: operations.release(names["class"], names["who"]),
        endpoints.CHANGE: lambda names, terms: operations.change(names["class"], given(terms)),
        endpoints.RESTORE: lambda names, _: operations.restore(names["class"]),
        endpoints.DRAIN: lambda names, _: operations.drain(names["host"]),
        endpoints.UNDRAIN: lambda names, _: operations.undrain(names["host"]),
    }


async def _ordered(endpoint: Endpoint, order: Order, operations: Operations, request: Request) -> Response:
    """Gives the order. Raises Refused where it is not taken."""
    names = request.path_params
    body = await _body(request, endpoint.body) if endpoint.body else None
    try:
        return _json(Ordered(await order(names, body)))
    except Unreachable as error:
        raise Refused(503, str(error)) from None
    except HowdahError as error:
        status = operations.status()
        classes = {each.traffic_class for each in status.flows}
        # A path names a class or a host.
        known = names["class"] in classes if "class" in names else _has_host(status, names["host"])
        raise Refused(422 if known else 404, str(error)) from None


def _has_host(status: Status, name: str) -> bool:
    return any(each.name == name for each in status.hosts)


def _guarded(endpoint: Endpoint, handler: Handler, guard: Guard) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            role = guard.check(endpoint, request.headers)
            answer = await handler(request)
            answer.headers[ROLE_HEADER] = role
        except Refused as refused:
            answer = _json(refused.refusal, refused.code)
            answer.headers.update(refused.headers)
        answer.headers.update(_HEADERS)
        return answer

    return guarded


async def _body(request: Request, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The request's body; none is one without any key. Raises Refused."""
    body, last = bytearray(), {"Connection": "close"}
    try:
        async with asyncio.timeout(BODY_MAX_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_MAX_BYTES:
                    raise Refused(413, f"the body has more than {BODY_MAX_BYTES} bytes", last)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {BODY_MAX_S:g} s", last) from None
    try:
        return decoding.from_json(body or b"{}", kind)
    except msgspec.ValidationError as error:
        given = None
        # What follows the error may be no JSON.
        with contextlib.suppress(msgspec.DecodeError):
            given = decoding.from_json(body, Any)
        words = tomlfile.in_words(error, kind, "see /openapi.json", given)
        raise Refused(400, f"the body: {words}") from None
    except msgspec.DecodeError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _json(content: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(content), code, media_type=JSON)


def _always(content: bytes, headers: Mapping[str, str]) -> Handler:
    async def handler(_: Request) -> Response:
        return Response(content, headers=headers)

    return handler


async def _no_such_path(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    why = {404: "there is no such path", 405: f"{request.method} is not for this path"}.get(code, str(error))
    answer = _json(Refusal(f"{why}; see /openapi.json"), code)
    answer.headers.update(_HEADERS | dict(getattr(error, "headers", None) or {}))
    return answer


async def _our_mistake(_: Request, error: Exception) -> Response:
    """The traceback goes to the server's standard error."""
    return _json(
        Refusal(f"a bug in howdah, {type(error).__name__}; the controller's standard error has it"), 500
    )


@cache
def page() -> tuple[bytes, dict[str, str]]:
    """The page in one file, and the headers that let it run its own script and style and no others."""
    folder = files("howdah.control.http").joinpath("web")
    style = folder.joinpath("style.css").read_text()
    script = '"use strict";\n' + "".join(folder.joinpath(each).read_text() for each in _SCRIPTS)
    frame = folder.joinpath("page.html").read_text()
    content = frame.replace("/* style */", style).replace("/* script */", script)
    policy = {
        "default-src": "'none'",
        "style-src": _digest(style),
        "script-src": _digest(script),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    said = "; ".join(f"{key} {value}" for key, value in policy.items())
    return content.encode(), {"Content-Security-Policy": said, "X-Frame-Options": "DENY"}


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
