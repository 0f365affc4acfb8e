"""An event loop that runs until a signal comes."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from howdah.interrupt import SIGNALS, Interrupted


def signalled(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work; the first signal cancels it, and is raised as Interrupted once it has ended.

    Later ones do nothing, so what the work puts back at its end is put back whole.
    """
    numbers: list[int] = []

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def received(number: int) -> None:
            numbers.append(number)
            if len(numbers) == 1:
                task.cancel()

        for number in SIGNALS:
            # nohup and background shells start us with a signal ignored: it stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, received, number)
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    if numbers:
        raise Interrupted(numbers[0])
