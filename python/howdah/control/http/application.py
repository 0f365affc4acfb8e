"""The paths as an ASGI application: what is checked before each, what each does, how each error is said."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from howdah import document
from howdah.control.http import endpoints, metrics
from howdah.control.http.endpoints import JSON, ROLE_HEADER, Endpoint
from howdah.control.http.feed import Feed
from howdah.control.http.guard import Guard
from howdah.control.http.openapi import description
from howdah.control.http.orders import Order, give, orders
from howdah.control.http.page import page
from howdah.control.http.refusal import Refusal, Refused
from howdah.control.interface import Operations

BODY_MAX_BYTES = 16 * 1024
BODY_MAX_S = 10.0
"""For all of it to arrive."""

Handler = Callable[[Request], Awaitable[Response]]
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(operations: Operations, guard: Guard, feed: Feed) -> Starlette:
    """Serves every endpoint."""
    handlers: dict[Endpoint, Handler] = {
        **_reading(operations, feed),
        **{each: partial(_ordered, each, order, operations) for each, order in orders(operations).items()},
    }
    handlers[endpoints.DESCRIPTION] = _always(
        document.encode(description([*handlers, endpoints.DESCRIPTION]))
    )
    return Starlette(
        routes=[
            Route(each.path, _guarded(each, handler, guard), methods=[each.method])
            for each, handler in handlers.items()
        ],
        exception_handlers={HTTPException: _no_such_path, Exception: _our_mistake},
    )


def _reading(operations: Operations, feed: Feed) -> dict[Endpoint, Handler]:
    async def status(_: Request) -> Response:
        return _json(operations.status())

    async def watch(_: Request) -> Response:
        feed.check_room()
        return _Watched(feed)

    async def measured(_: Request) -> Response:
        text = metrics.exposition(operations.status(), feed.watchers)
        return Response(text, headers={"Content-Type": endpoints.EXPOSITION})

    content, headers = page()
    return {
        endpoints.STATUS: status,
        endpoints.WATCH: watch,
        endpoints.METRICS: measured,
        endpoints.PAGE: _always(content, {"Content-Type": endpoints.HTML, **headers}),
    }


def _always(content: bytes, headers: dict[str, str] | None = None) -> Handler:
    async def handler(_: Request) -> Response:
        return Response(content, headers=headers or {"Content-Type": JSON})

    return handler


async def _ordered(endpoint: Endpoint, order: Order, operations: Operations, request: Request) -> Response:
    body = await _body(request, endpoint.body) if endpoint.body else None
    return _json(await give(order, request.path_params, body, operations))


class _Watched(StreamingResponse):
    """Counted from its first byte to its last, however it ends."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(feed.events(), media_type=endpoints.EVENTS)
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.joined():
            await super().__call__(scope, receive, send)


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
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_MAX_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_MAX_BYTES:
                    raise Refused(
                        413, f"the body has more than {BODY_MAX_BYTES} bytes", {"Connection": "close"}
                    )
    except TimeoutError:
        raise Refused(
            408, f"the body did not arrive within {BODY_MAX_S:g} s", {"Connection": "close"}
        ) from None
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Refused(400, f"the body is wrong: {document.in_words(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None


def _json(content: object, code: int = 200) -> Response:
    return Response(msgspec.json.encode(content), code, media_type=JSON)


async def _no_such_path(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    why = {404: "there is no such path", 405: f"{request.method} is not for this path"}.get(code, str(error))
    answer = _json(Refusal(f"{why}; see /openapi.json"), code)
    answer.headers.update(_HEADERS | dict(getattr(error, "headers", None) or {}))
    return answer


async def _our_mistake(_: Request, error: Exception) -> Response:
    """The traceback goes to the server's standard error."""
    return _json(
        Refusal(f"a mistake of ours, {type(error).__name__}; the controller's standard error has it"), 500
    )
