"""An event loop whose time jumps to the next thing due, so that hours pass in milliseconds."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jump(selectors.SelectSelector):
    """Never waits: it tells its loop how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.each: Callable[[], None] = lambda: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("all wait for ever")
        if timeout > 0:
            self.each()
            self.now_s += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, each: Callable[[], None] = lambda: None) -> None:
        """``each`` is called when all that happens at one time has happened."""
        self._jump = _Jump()
        self._jump.each = each
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now_s


def run(main: Coroutine[Any, Any, T], each: Callable[[], None] = lambda: None) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(each)) as runner:
        return runner.run(main)
