"""All paths of the API in one table, the errors that they answer, and their description in OpenAPI 3.1.

Source: OpenAPI Initiative, OpenAPI Specification 3.1.1.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from howdah import __version__
from howdah.bounds import ASKED_S
from howdah.control.policy.terms import TermsText
from howdah.control.status import Status

Method = Literal["GET", "PUT", "DELETE"]
Role = Literal["read", "operate"]

JSON = "application/json"
EVENTS = "text/event-stream"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of Prometheus."""
HTML = "text/html; charset=utf-8"

CLIENT_HEADER = "Howdah-Client"
"""Every change needs it, with the name of the program: no other site can make a browser send it."""
ROLE_HEADER = "Howdah-Role"
"""Answers say what the caller may do, so that a page offers no more."""


class Refusal(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: str
    """One line: what was wrong, and what to do."""


class Refused(Exception):
    """Ends the handling of a request with a status code and a Refusal."""

    def __init__(self, code: int, error: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.code = code
        self.refusal = Refusal(error)
        self.headers = headers or {}


class RequestedShare(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request for a class."""

    for_s: Annotated[int, msgspec.Meta(ge=int(ASKED_S.least))] | None = None
    """Seconds after which it ends by itself; null: when it is released."""
    host: str | None = None
    """The host that the share is for; null: every host of the class."""


class Ordered(msgspec.Struct, frozen=True):
    """The answer to an order: all controllers get it from the bus."""

    revision: int | None
    """It is in force once the status is settled at this or a later one; null: nothing to wait for."""


class Endpoint(NamedTuple):
    """A path with a method, what it takes and what it answers."""

    id: str
    """The name of its operation."""
    method: Method
    path: str
    says: str
    """A line for people."""
    role: Role | None
    """The role that its caller must have; null: none."""
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    """The type of its JSON, or of the data of its events; null: something else."""
    media: str = JSON
    """The answer's media type."""

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return self.method != "GET"


def _order(
    name: str, method: Method, path: str, says: str, body: type[msgspec.Struct] | None = None
) -> Endpoint:
    return Endpoint(name, method, path, says, "operate", body, Ordered)


_EVENTS_SAY = (
    "Server-sent events, each a Status: when something changes, at most ten and at least one a second."
)
_ASK_SAYS = (
    "Asks for a class, for all its hosts or for one, for as long as is said. Asking again prolongs it."
)
_CHANGE_SAYS = "Gives a class other terms than the policy file does, until they are restored."
_RESTORE_SAYS = "Gives a class the terms of the policy file again."
_REQUEST, _CLASS, _DRAINED = "/v1/asked/{class}/{who}", "/v1/classes/{class}", "/v1/drained/{host}"

STATUS = Endpoint("status", "GET", "/v1/status", "Who has what now.", "read", answer=Status)
WATCH = Endpoint("watch", "GET", "/v1/watch", _EVENTS_SAY, "read", answer=Status, media=EVENTS)
ASK = _order("ask", "PUT", _REQUEST, _ASK_SAYS, RequestedShare)
RELEASE = _order("release", "DELETE", _REQUEST, "Asks for the class no longer; others may.")
CHANGE = _order("change", "PUT", _CLASS, _CHANGE_SAYS, TermsText)
RESTORE = _order("restore", "DELETE", _CLASS, _RESTORE_SAYS)
DRAIN = _order("drain", "PUT", _DRAINED, "Leaves a host nothing but its minimums.")
UNDRAIN = _order("undrain", "DELETE", _DRAINED, "Gives a host its shares again.")
DESCRIPTION = Endpoint("description", "GET", "/openapi.json", "This description, in OpenAPI 3.1.", "read")
METRICS = Endpoint(
    "metrics", "GET", "/metrics", "The status as metrics of Prometheus.", "read", media=EXPOSITION
)
PAGE = Endpoint("page", "GET", "/", "The page for people.", None, media=HTML)

_REFUSALS = {
    "400": "The body or the request cannot be understood.",
    "401": "A token is needed, or the one given is not good.",
    "403": "The token's role, or another site, may not do this.",
    "404": "There is no such class or host.",
    "413": "The body is too large.",
    "422": "The policy does not allow it.",
    "503": "Not now: the bus is not reached, or too many watch already.",
}
_PARAMETER = re.compile(r"\{(\w+)\}")
_PARAMETERS = {
    "class": "A class of the policy.",
    "who": "Who asks: letters, digits, - and _.",
    "host": "A host of the policy.",
}


def description(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole OpenAPI document."""
    table = list(endpoints)
    structs = [kind for each in table for kind in (each.body, each.answer) if kind]
    _, schemas = msgspec.json.schema_components(
        dict.fromkeys([*structs, Refusal]), ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Howdah control",
            "version": __version__,
            "summary": "Shares of a guaranteed path: who has what, and what is to change.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": endpoint.id,
        "summary": endpoint.says,
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint),
    }
    if endpoint.role:
        said["description"] = f"Takes the role {endpoint.role}, where the controller knows tokens."
        # Without a token file none is needed: an empty requirement is the other choice.
        said["security"] = [{"token": []}, {}]
    if endpoint.body:
        said["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(endpoint.body)}}}
    return said


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = [
        _parameter("path", name, _PARAMETERS[name], {"type": "string"})
        for name in _PARAMETER.findall(endpoint.path)
    ]
    if endpoint.changes:
        says = "Any name of the program: no other site can make a browser send it."
        found.append(_parameter("header", CLIENT_HEADER, says, {"type": "string", "minLength": 1}))
    return found


def _parameter(place: str, name: str, says: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": True, "description": says, "schema": schema}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    media, _, _ = endpoint.media.partition(";")
    schema: dict[str, Any] = {"type": "object" if media == JSON else "string"}
    if media == JSON and endpoint.answer:
        schema = _reference(endpoint.answer)
    said: dict[str, Any] = {"200": {"description": endpoint.says, "content": {media: {"schema": schema}}}}
    if endpoint.role:
        refusal = {JSON: {"schema": _reference(Refusal)}}
        said |= {code: {"description": why, "content": refusal} for code, why in _REFUSALS.items()}
    return said


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
