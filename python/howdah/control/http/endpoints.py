"""All paths of the API, in one table."""

from typing import Annotated, Literal, NamedTuple

import msgspec

from howdah.control.http.tokens import Role
from howdah.control.status import Status
from howdah.control.terms import TermsText

Method = Literal["GET", "PUT", "DELETE"]

JSON = "application/json"
EVENTS = "text/event-stream"
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
"""Of Prometheus."""
HTML = "text/html; charset=utf-8"

CLIENT_HEADER = "Howdah-Client"
"""Every change needs it, with the name of the program: no other site can make a browser send it."""
ROLE_HEADER = "Howdah-Role"
"""Of answers: what the caller may do, so that a page offers no more."""


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    """How a class is asked for."""

    for_s: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Seconds after which it ends by itself; null: when it is released."""
    host: str | None = None
    """On whose behalf; null: on that of every host of the class."""


class Ordered(msgspec.Struct, frozen=True):
    """What was ordered is known to all controllers."""

    revision: int | None
    """It is in force once the status is settled at this or a later one; null: nothing to wait for."""


class Endpoint(NamedTuple):
    """A path with a method, what it takes and what it answers."""

    id: str
    """As its operation is called."""
    method: Method
    path: str
    says: str
    """What it does, in a line."""
    role: Role | None
    """What its caller must be; null: anybody."""
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    """Of its JSON, or of the data of its events; null: something else."""
    media: str = JSON
    """The answer's media type."""

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return self.method != "GET"


STATUS = Endpoint("status", "GET", "/v1/status", "Who has what now.", "read", answer=Status)
WATCH = Endpoint(
    id="watch",
    method="GET",
    path="/v1/watch",
    says="Server-sent events, each a Status: when something changes, at most ten and at least one a second.",
    role="read",
    answer=Status,
    media=EVENTS,
)
ASK = Endpoint(
    id="ask",
    method="PUT",
    path="/v1/asked/{class}/{who}",
    says="Asks for a class, for all its hosts or for one, for as long as is said. Asking again prolongs it.",
    role="operate",
    body=Wish,
    answer=Ordered,
)
RELEASE = Endpoint(
    id="release",
    method="DELETE",
    path="/v1/asked/{class}/{who}",
    says="Asks for the class no longer; others may.",
    role="operate",
    answer=Ordered,
)
CHANGE = Endpoint(
    id="change",
    method="PUT",
    path="/v1/classes/{class}",
    says="Gives a class other terms than the policy file does, until they are restored.",
    role="operate",
    body=TermsText,
    answer=Ordered,
)
RESTORE = Endpoint(
    id="restore",
    method="DELETE",
    path="/v1/classes/{class}",
    says="Gives a class the terms of the policy file again.",
    role="operate",
    answer=Ordered,
)
DRAIN = Endpoint(
    id="drain",
    method="PUT",
    path="/v1/drained/{host}",
    says="Leaves a host nothing but its minimums.",
    role="operate",
    answer=Ordered,
)
UNDRAIN = Endpoint(
    id="undrain",
    method="DELETE",
    path="/v1/drained/{host}",
    says="Gives a host its shares again.",
    role="operate",
    answer=Ordered,
)
DESCRIPTION = Endpoint("description", "GET", "/openapi.json", "This description, in OpenAPI 3.1.", "read")
METRICS = Endpoint(
    "metrics", "GET", "/metrics", "The status as metrics of Prometheus.", "read", media=EXPOSITION
)
PAGE = Endpoint("page", "GET", "/", "The page for people.", None, media=HTML)
