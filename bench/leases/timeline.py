"""Virtual time: what happens when, in an order that a seed decides."""

import heapq
from collections.abc import Callable
from typing import Any

NS_PER_S = 1_000_000_000


class Timeline:
    """True time, which nobody in the simulation can see."""

    __slots__ = ("_count", "_queue", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, when_ns: int, action: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        """What is to happen then, or now if that is past; of one instant in the order of these calls."""
        self._count += 1
        heapq.heappush(self._queue, (max(when_ns, self.now_ns), self._count, action, arguments))

    def run(self, until_ns: int) -> int:
        """Lets everything happen until then; how much that was."""
        queue, done = self._queue, 0
        while queue and queue[0][0] <= until_ns:
            self.now_ns, _, action, arguments = heapq.heappop(queue)
            action(*arguments)
            done += 1
        self.now_ns = until_ns
        return done
