"""Services: what differs in a copy by the kind of its path. The flow (``run``) enters one service a kind.

``howdah.values.plan.PathKind`` is the table of kinds. The service of a kind is the class ``KindOfPath`` of
the module of that name in this package, its decider the function ``decide`` of the module of that name in
``howdah.decide``. A new kind is those two files and its name in the table.
"""

from importlib import import_module
from typing import NamedTuple, Self

from howdah import decide
from howdah.arguments import BadArgument
from howdah.remote.messages import FarHello, Progress, Steering
from howdah.transfer.pilot import Pilot
from howdah.transfer.request import Request
from howdah.values.path import Path
from howdah.values.plan import Plan
from howdah.values.record import Record


class Underway(NamedTuple):
    """A copy whose data streams have been started."""

    plan: Plan
    path: Path
    far: FarHello
    data_address: str | None
    """The name or address that ssh connects to; null when it goes through another host or a command."""


class Service:
    """The service of a kind that needs nothing but its plan, and the base of the others.

    It is entered before ssh is asked for, unless that was started early, and left when the copy has ended,
    however it has. Each call may raise HowdahError, which ends the copy.
    """

    remembers = True
    """Whether its plan counts what earlier copies carried."""

    def __init__(self, request: Request) -> None:
        """The service of one copy; nothing begins before it is entered."""
        self.request = request

    def __enter__(self) -> Self:
        """Raises HowdahError for a traffic class, which only a guaranteed path has."""
        if self.request.traffic_class is not None:
            raise BadArgument(
                "{traffic_class} is for a guaranteed path; add {path} guaranteed",
                traffic_class=self.request.traffic_class,
            )
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what the copy's path needed."""

    def prepare(self, data_address: str | None) -> None:
        """Begins what can be done while ssh connects to ``data_address``."""

    def plan(self, path: Path) -> Plan:
        """The plan for the path as the far end's hello has shown it."""
        return decide.decide(path)

    def others_present(self, path: Path) -> bool:
        """Whether competing traffic was measured before the first byte; no where nobody measured."""
        return False

    @property
    def judges(self) -> bool:
        """Whether its pilot judges the path by what the copy gets, in vain where a limit applies."""
        return False

    def rest(self, now: Progress) -> Steering | None:
        """The pilot while a limit applies: nothing is measured until the other one is asked again."""

    def pilot(self, underway: Underway, otherwise: Pilot) -> Pilot:
        """The pilot of the streams from now on; ``otherwise`` is the caller's own, or the plan's schedule.

        It is asked for again where the copy goes on in another session.
        """
        return otherwise

    def news(self) -> str | None:
        """A line that the user is to see now, once, on what the copy's path needs; None mostly."""
        return None

    def record(self, record: Record) -> Record:
        """The record of the copy with what this kind adds to it."""
        return record


def service(request: Request) -> Service:
    """The service of the request's kind of path. Only its module is loaded."""
    made: type[Service] = import_module(f"howdah.transfer.{request.path}").KindOfPath
    return made(request)
