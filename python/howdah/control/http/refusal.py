"""What the server says when it does not do as asked: a status code and one line."""

from collections.abc import Mapping

import msgspec


class Refusal(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: str
    """One line: what was wrong, and what to do."""


class Refused(Exception):
    """Ends the handling of a request with that answer."""

    def __init__(self, code: int, error: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        self.code = code
        self.refusal = Refusal(error)
        self.headers = headers or {}
