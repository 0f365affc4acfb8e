"""The API's description, in OpenAPI 3.1, made from the table of paths and the Structs it names.

Source: OpenAPI Initiative, OpenAPI Specification 3.1.1.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from howdah import __version__
from howdah.control.http.endpoints import CLIENT_HEADER, JSON, Endpoint
from howdah.control.http.refusal import Refusal

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
    """The whole document."""
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
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS[name],
            "schema": {"type": "string"},
        }
        for name in _PARAMETER.findall(endpoint.path)
    ]
    if endpoint.changes:
        found.append(
            {
                "name": CLIENT_HEADER,
                "in": "header",
                "required": True,
                "description": "Any name of the program: no other site can make a browser send it.",
                "schema": {"type": "string", "minLength": 1},
            }
        )
    return found


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    refusals = {
        code: {"description": why, "content": {JSON: {"schema": _reference(Refusal)}}}
        for code, why in _REFUSALS.items()
        if endpoint.role
    }
    return {**_answer(endpoint), **refusals}


def _answer(endpoint: Endpoint) -> dict[str, Any]:
    media, _, _ = endpoint.media.partition(";")
    schema: dict[str, Any] = {"type": "object" if media == JSON else "string"}
    if media == JSON and endpoint.answer:
        schema = _reference(endpoint.answer)
    return {"200": {"description": endpoint.says, "content": {media: {"schema": schema}}}}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}
