"""Tasks that go on side by side until one ends, and an event loop that runs until a signal comes."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from howdah.interrupt import SIGNALS, Interrupted


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Runs all until one ends, then ends the others. Raises what that one raised, and no group of it."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
