"""A copy on a guaranteed path: it asks for a share before ssh connects, and the kernel enforces that."""

import socket
from contextlib import ExitStack
from typing import Self

import msgspec

from howdah import HowdahError
from howdah.arguments import BadArgument, NotHere
from howdah.control.http.client import Client
from howdah.control.share import ShareRequest, here, own_flow, unenforced
from howdah.control.status import FlowStatus, Status
from howdah.remote.endpoints import Route
from howdah.remote.messages import Progress, Steering
from howdah.remote.ssh import Login
from howdah.transfer.pilot import Pilot
from howdah.transfer.request import Request
from howdah.transfer.service import Service, Underway
from howdah.values.path import Path
from howdah.values.plan import Plan
from howdah.values.record import Record


class KindOfPath(Service):
    """The service of a guaranteed path: the share of a traffic class, for as long as the copy runs."""

    remembers = False

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._share: ShareRequest | None = None
        self._begun = False
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        """Finds the flow that the copy is and, where it could not even connect otherwise, asks for its share.

        Raises HowdahError for a congestion control of the user's, without a traffic class, for a copy that
        another host sends, and where no controller gives the class a share.
        """
        request = self.request
        if any(choice.key == "congestion_control" for choice in request.given):
            raise BadArgument(
                "{congestion_control}: on a guaranteed path, this host's agent sets the congestion control; "
                "leave it out"
            )
        asking = share_of(request.traffic_class, request.route, look_only=request.dry_run)
        self._share = self._ends.enter_context(asking)
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the share back."""
        self._ends.close()

    def plan(self, path: Path) -> Plan:
        """A plan for all that the share can become."""
        share = None if self._share is None else self._share.share
        return super().plan(msgspec.structs.replace(path, share=share))

    def pilot(self, underway: Underway, otherwise: Pilot) -> Pilot:
        """Has the share asked for in time for the first payload, and checks that the streams are held."""
        if self._share is not None and not self.request.dry_run and not self._begun:
            self._begun = True
            # Payload comes right after the handshake of TCP.
            self._share.begin(underway.far.rtt_s or 0.0)
        port = underway.far.port

        def held_pilot(now: Progress) -> Steering | None:
            steering = otherwise(now)
            check_held(port)
            return steering

        return held_pilot

    def news(self) -> str | None:
        """That the controller is gone, or is back."""
        return None if self._share is None else self._share.news()

    def record(self, record: Record) -> Record:
        """Adds ``share``: what was asked for, and what the copy had."""
        if self._share is None:
            return record
        return msgspec.structs.replace(record, share=self._share.to_record())


def share_of(name: str | None, route: Route, *, look_only: bool) -> ShareRequest:
    """The share that what a copy sends has as part of the class ``name``; ``look_only`` asks for nothing.

    Raises HowdahError without a class, for a copy that another host sends, and where the address that the
    data goes to is not known.
    """
    if name is None:
        raise BadArgument("{path} guaranteed needs a class of the policy; give it, as {traffic_class} images")
    if route.direction == "pull":
        raise BadArgument(
            "{path} guaranteed: the sending host has the share; run the copy there: "
            f"ssh {route.host} howdah cp …"
        )
    addresses = _addresses(route.host)

    def find(status: Status) -> FlowStatus:
        return own_flow(status, name, addresses, here(addresses))

    return ShareRequest(Client(), name, find, look_only=look_only)


def check_held(port: int) -> None:
    """Raises HowdahError when a data stream of this process to ``port`` is held to no share."""
    if free := unenforced(port):
        raise HowdahError(
            f"the data streams are under {', '.join(sorted(free))} and not held to a share: the agent's "
            "rules do not match them; see: howdah cc status"
        )


def _addresses(host: str) -> list[str]:
    """The addresses of the far host that data may go to."""
    name = Login(host).data_address
    if name is None:
        raise NotHere(
            f"{{path}} guaranteed: ssh reaches {host} through another host, so the path of its data is not "
            "known; give the host's own address"
        )
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise HowdahError(f"{name}: {error.strerror or error}; check the name of the host") from None
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
