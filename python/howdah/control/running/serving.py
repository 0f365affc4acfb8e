"""The work of ``howdah control serve`` and ``howdah control agent``."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from howdah.control.bus import Bus
from howdah.control.leases.agent import Kernel
from howdah.control.policy import Policy
from howdah.control.running.agent import RunningAgent
from howdah.control.running.controller import RunningController
from howdah.control.running.operations import Operations
from howdah.control.running.outbox import Tell
from howdah.control.running.tasks import together

Attend = Callable[[Operations], Coroutine[Any, Any, None]]
"""Serves people until cancelled."""


async def serve(  # noqa: PLR0917
    name: str, policy: Policy, bus: Bus, kernels: Mapping[str, Kernel], attend: Attend, tell: Tell
) -> None:
    """Runs a controller, agents of the hosts whose ``kernels`` are here, and ``attend``, until cancelled."""
    controller = RunningController(name, policy, bus, tell=tell)
    await follow(bus, kernels, tell, controller.run(), attend(Operations(controller)))


async def follow(
    bus: Bus, kernels: Mapping[str, Kernel], tell: Tell, *work: Coroutine[Any, Any, None]
) -> None:
    """Runs agents, for a controller elsewhere or in ``work`` beside them, until cancelled."""
    agents = [RunningAgent(name, bus, kernel, tell=tell) for name, kernel in kernels.items()]
    try:
        await together(*work, *(agent.run() for agent in agents))
    finally:
        for agent in agents:
            await agent.leave()
