"""The calls for asyncio: an ``a`` before the name of each that waits, as ``acopy``."""

import asyncio
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from howdah import interrupt
from howdah.library.copy import copy, plan_for
from howdah.library.doctor import examine
from howdah.library.probe import probe
from howdah.library.select import select
from howdah.library.sweep import sweep
from howdah.library.traffic import send_traffic
from howdah.library.verify import verify

P = ParamSpec("P")
T = TypeVar("T")


def _twin(waits: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same for asyncio, in a thread of its own. A task that is cancelled waits until all has ended."""

    @functools.wraps(waits)
    async def twin(*args: P.args, **keywords: P.kwargs) -> T:
        cancelled = threading.Event()

        def work() -> T:
            with interrupt.CancelledWhen(cancelled.is_set):
                return waits(*args, **keywords)

        # Not the loop's own executor: a few long copies would keep all else of the program waiting.
        executor = ThreadPoolExecutor(1, thread_name_prefix=f"howdah-{waits.__name__}")
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(executor, context.run, work)
        executor.shutdown(wait=False)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancelled.set()
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            future.exception()
            raise

    twin.__name__ = twin.__qualname__ = f"a{waits.__name__}"
    twin.__doc__ = f"""Does what ``howdah.{waits.__name__}`` does, with its arguments, result and errors.

    Cancelling the task stops the work at both ends, which takes some two seconds at most; the task ends
    after that. The record, where one is kept, has the flag ``interrupted``.
    """
    return twin


acopy = _twin(copy)
aexamine = _twin(examine)
aplan_for = _twin(plan_for)
aprobe = _twin(probe)
aselect = _twin(select)
asend_traffic = _twin(send_traffic)
asweep = _twin(sweep)
averify = _twin(verify)
