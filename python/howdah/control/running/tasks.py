"""Tasks that go on side by side until one ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
