"""A frozen value whose methods return the next one, held so that a test can call them in turn."""

# ruff: noqa: ANN401

from typing import Any


class Stepped:
    """Keeps the newest value; a call returns what else came with it, and its attributes are that value's."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        return self._calling(found) if callable(found) else found

    def _calling(self, method: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            got = method(*args, **named)
            if isinstance(got, type(self.value)):
                self.value = got
                return None
            if isinstance(got, tuple) and got and isinstance(got[0], type(self.value)):
                self.value = got[0]
                return got[1]
            return got

        return call
