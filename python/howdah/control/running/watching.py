"""Reading a watch of the bus."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from howdah.control.bus import Change, Watch


async def at_hand(watch: Watch) -> AsyncIterator[Change]:
    """The changes that can be read without a wait."""
    with suppress(TimeoutError, StopAsyncIteration):
        while True:
            async with asyncio.timeout(0):
                change = await anext(watch)
            yield change


async def batches(watch: Watch, pace_s: float) -> AsyncIterator[list[Change]]:
    """All that has changed, at once when something does, then at most so often."""
    async for change in watch:
        yield [change, *[each async for each in at_hand(watch)]]
        await asyncio.sleep(pace_s)
