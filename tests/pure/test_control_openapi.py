"""The description of the control API: it is valid, and it is what the server really does."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from controlled import Controlled, controlled
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from test_control_api import send

from howdah.control.http.client import Client
from howdah.control.policy.terms import TermsText

ABOUT = "urn:described"
NAMES = {"class": "images", "who": "me", "host": "base23"}
BODIES = {"ask": {"for_s": 60}, "change": {"maximum": "50%", "weight": 2}}


@pytest.fixture(scope="module")
def path() -> Iterator[Controlled]:
    with controlled() as here:
        yield here


@pytest.fixture(scope="module")
def description(path: Controlled) -> dict[str, Any]:
    answer, said = send(path, "GET", "/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    return msgspec.json.decode(said)


def validator(description: dict[str, Any], schema: dict[str, Any]) -> OAS31Validator:
    """Of a schema that refers to others of the description."""
    resource = Resource.from_contents(description, default_specification=DRAFT202012)
    absolute = msgspec.json.decode(msgspec.json.encode(schema).replace(b'"#/', f'"{ABOUT}#/'.encode()))
    return OAS31Validator(absolute, registry=Registry().with_resource(ABOUT, resource))


def operations(description: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]


def test_it_is_valid(description: dict[str, Any]) -> None:
    validate(description)
    assert description["openapi"].startswith("3.1")


def test_every_operation_is_there_and_answers_as_described(
    path: Controlled, description: dict[str, Any]
) -> None:
    Client(path.url).ask("images", "you")
    called = set()
    for target, method, operation in operations(description):
        if operation["operationId"] == "watch":
            continue
        called.add(operation["operationId"])
        body = BODIES.get(operation["operationId"])
        assert (body is not None) == ("requestBody" in operation)
        if body is not None:
            validator(
                description, operation["requestBody"]["content"]["application/json"]["schema"]
            ).validate(body)
        real = re.sub(r"\{(\w+)\}", lambda name: NAMES[name[1]], target)
        answer, said = send(
            path, method.upper(), real, msgspec.json.encode(body) if body else None, Howdah_Client="t"
        )
        described = operation["responses"][str(answer.status)]["content"]
        media = (answer.headers["Content-Type"] or "").partition(";")[0]
        assert list(described) == [media]
        if media == "application/json":
            validator(description, described[media]["schema"]).validate(msgspec.json.decode(said))
    assert called == {
        *("status", "ask", "release", "change", "restore", "drain", "undrain"),
        *("description", "metrics", "page"),
    }


def test_events_are_what_is_described(path: Controlled, description: dict[str, Any]) -> None:
    status = next(Client(path.url).watch())
    schema = description["components"]["schemas"]["Status"]
    validator(description, schema).validate(msgspec.json.decode(msgspec.json.encode(status)))
    (media,) = description["paths"]["/v1/watch"]["get"]["responses"]["200"]["content"]
    assert media == "text/event-stream"


@pytest.mark.parametrize(
    ("method", "target", "body", "code"),
    [
        ("PUT", "/v1/asked/nothing/me", None, 404),
        ("PUT", "/v1/asked/images/me", b"{", 400),
        ("PUT", "/v1/asked/replication/me", None, 422),
        ("PUT", "/v1/asked/images/me", b" " * 99_999, 413),
    ],
)
def test_refusals_are_what_is_described(
    path: Controlled, description: dict[str, Any], *, method: str, target: str, body: bytes | None, code: int
) -> None:
    answer, said = send(path, method, target, body, Howdah_Client="t")
    assert answer.status == code
    responses = description["paths"]["/v1/asked/{class}/{who}"][method.lower()]["responses"]
    validator(description, responses[str(code)]["content"]["application/json"]["schema"]).validate(
        msgspec.json.decode(said)
    )


def test_a_schema_refuses_what_the_server_refuses(path: Controlled, description: dict[str, Any]) -> None:
    schema = description["paths"]["/v1/classes/{class}"]["put"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    check = validator(description, schema)
    for body, good in (
        ({"weight": 3}, True),
        ({"fixed": "5%"}, True),
        ({"weight": 0}, False),
        ({"weight": "3"}, False),
        ({"wait": 3}, False),
        ([], False),
    ):
        answer, said = send(
            path, "PUT", "/v1/classes/background", msgspec.json.encode(body), Howdah_Client="t"
        )
        assert (answer.status == 200) is check.is_valid(body) is good, said


def test_terms_are_those_of_the_policy_file(description: dict[str, Any]) -> None:
    assert list(description["components"]["schemas"]["TermsText"]["properties"]) == list(
        TermsText.__struct_fields__
    )
