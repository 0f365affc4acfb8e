"""What ``howdah control serve`` and ``howdah control agent`` run."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from howdah.control.bus import Bus
from howdah.control.interface import Operations
from howdah.control.policy import Policy
from howdah.control.running.agent import PlacingKernel, RunningAgent
from howdah.control.running.complaints import Tell
from howdah.control.running.controller import RunningController
from howdah.control.running.together import together

Attend = Callable[[Operations], Coroutine[Any, Any, None]]


async def serve(  # noqa: PLR0917
    name: str, policy: Policy, bus: Bus, kernels: Mapping[str, PlacingKernel], attend: Attend, tell: Tell
) -> None:
    """A controller, agents of hosts whose ``kernels`` are here, ``attend`` for people; until cancelled."""
    controller = RunningController(name, policy, bus, tell=tell)
    await _with_agents(kernels, bus, tell, controller.run(), attend(Operations(controller)))


async def follow(bus: Bus, kernels: Mapping[str, PlacingKernel], tell: Tell) -> None:
    """Agents alone, for a controller elsewhere, until cancelled."""
    await _with_agents(kernels, bus, tell)


async def _with_agents(
    kernels: Mapping[str, PlacingKernel], bus: Bus, tell: Tell, *work: Coroutine[Any, Any, None]
) -> None:
    agents = [RunningAgent(name, bus, kernel, tell=tell) for name, kernel in kernels.items()]
    try:
        await together(*work, *(agent.run() for agent in agents))
    finally:
        for agent in agents:
            await agent.leave()
