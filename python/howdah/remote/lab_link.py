"""The counts of a lab's emulated link during a run that crosses it."""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from howdah import LAB_LINK_VARIABLE


def link_of_a_lab() -> Callable[[], dict[str, Any] | None]:
    """Begins an account of the lab's link; the returned call closes it and gives its statistics.

    The call gives null outside a lab. Labs are loaded inside one alone, because a copy must start fast.
    """
    if LAB_LINK_VARIABLE not in os.environ:
        return lambda: None
    from howdah import lab  # noqa: PLC0415

    account = lab.account_here()
    return lambda: msgspec.to_builtins(account.close()) if account else None
