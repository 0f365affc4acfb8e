"""The request for a share for as long as a transfer runs: made, renewed, followed, given back.

A request ends by itself unless it is renewed, so a transfer that is killed keeps nothing. The kernel and the
agent keep connections to the share: without a controller a transfer goes on at what its host has.
"""

import contextlib
import math
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Self

from howdah import HowdahError
from howdah.control.http.client import Client
from howdah.control.share.flow import NotYet
from howdah.control.status import FlowStatus, Status
from howdah.values.path import Share
from howdah.values.record import Shared, ShareSample

REQUEST_S = 15
"""The time of a request. A transfer that was killed keeps its share so long, and a new controller must get
the next renewal within it."""
RENEWED_S = 5.0
"""The time between two renewals."""
LOOK_S = 1.0
"""The time between two looks at what it has."""
SOON_S = 0.01
"""The time between two looks until it has what it is to have."""
PATIENCE_S = 5.0
"""The longest wait for a host that has to give something up first, and is silent: what it gives up later
comes to a transfer that runs."""
ANSWER_S = 0.05
"""The time from asking until it is in force, on a machine with other things to do."""
FOUND_S = 2.0
"""The longest wait for an agent that has just begun, or whose controller has."""
CONNECT_BPS = 250_000
"""The least rate to connect at: with less, pacing puts 50 ms and more between two full segments."""
_GIVEN_BACK_S = 1.0

Find = Callable[[Status], FlowStatus]
"""Finds the flow that the transfer is; raises HowdahError when it is none."""


class ShareRequest:
    """A share, from entering until leaving. Raises HowdahError when it cannot be asked for.

    Others give up theirs the moment it is asked for, so it is asked for only when payload is about to come,
    unless what its host has before is too little even to connect: then it is in force on entering.
    """

    def __init__(self, client: Client, name: str, find: Find, *, look_only: bool = False) -> None:
        """``name`` is the class; with ``look_only`` nothing is asked for."""
        self._client, self._name, self._find, self._look_only = client, name, find, look_only
        self._who = f"cp-{re.sub(r'[^-_A-Za-z0-9]', '-', socket.gethostname())[:40]}-{os.urandom(4).hex()}"
        self._requests = self._requested = False
        self._after_s = 0.0
        self._requested_s: float | None = None
        self._in_force_s: float | None = None
        self._samples: list[ShareSample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        status = self._found()
        self._most_bps, self._policy = status.trusted_bps, status.policy
        self._requests = self._name in status.askable and not self._look_only
        try:
            if self._requests and self._flow.minimum_bps < CONNECT_BPS:
                self._renew()
                self._wait()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            # A renewal on its way would come after what gives it back; its own end then ends it.
            self._thread.join(_GIVEN_BACK_S)
        if not self._thread.is_alive():
            self._give_back()

    def begin(self, payload_s: float) -> None:
        """Begins the transfer, its payload so much later; a share not asked for yet is asked for in time."""
        self._after_s = max(0.0, payload_s - ANSWER_S)
        self._thread.start()

    @property
    def share(self) -> Share:
        """The share that a decider plans with."""
        return Share(
            flow=self._flow.flow, rate_bps=self._flow.share_bps, most_bps=self._most_bps, policy=self._policy
        )

    def to_record(self) -> Shared:
        """The share as a Record keeps it."""
        return Shared(
            controller=self._client.address,
            policy=self._policy,
            traffic_class=self._name,
            flow=self._flow.flow,
            asked=self._requested,
            waited_s=self._waited_s,
            samples=list(self._samples),
        )

    def _found(self) -> Status:
        """The status in which the flow was found, if need be after a while."""
        until_s = time.monotonic() + FOUND_S
        while True:
            status = self._client.status()
            try:
                self._flow = self._find(status)
            except NotYet:
                if time.monotonic() >= until_s:
                    raise
                time.sleep(LOOK_S / 10)
            else:
                return status

    def _renew(self) -> None:
        if self._requested_s is None:
            self._requested_s = time.monotonic()
        # Before the answer: an order that is broken off may have been taken.
        self._requested = True
        self._revision = self._client.ask(self._name, self._who, REQUEST_S, self._flow.host)

    def _wait(self) -> None:
        """Waits until the flow has what it is to have, or patience ends."""
        until_s = time.monotonic() + PATIENCE_S
        while not self._ended.is_set():
            status = self._client.status()
            self._flow = self._own(status)
            if time.monotonic() >= until_s or self._has_its_share(status):
                break
            time.sleep(SOON_S)
        self._in_force_s = time.monotonic()
        self._samples.append(ShareSample(t_s=0.0, share_bps=self._flow.share_bps))

    def _has_its_share(self, status: Status) -> bool:
        if self._revision is not None and status.revision < self._revision:
            return False
        mine = self._flow
        # A controller that does not lead has no target.
        target_bps = mine.minimum_bps + 1 if mine.target_bps is None else mine.target_bps
        return mine.share_bps is not None and mine.share_bps >= target_bps

    @property
    def _waited_s(self) -> float | None:
        if self._requested_s is None or self._in_force_s is None:
            return None
        return self._in_force_s - self._requested_s

    def _own(self, status: Status) -> FlowStatus:
        for each in status.flows:
            if each.flow == self._flow.flow:
                return each
        raise HowdahError(
            f"{self._client.address} now has another policy, {status.policy}; start the copy again"
        )

    def _follow(self) -> None:
        """Makes the request if that is left to do, renews it, and notes the share."""
        renew_s = time.monotonic() + (RENEWED_S if self._requested else self._after_s)
        while not self._ended.wait(min(LOOK_S, max(0.0, renew_s - time.monotonic()))):
            with contextlib.suppress(HowdahError):
                if self._requests and time.monotonic() >= renew_s:
                    renew_s = time.monotonic() + LOOK_S
                    self._renew()
                    renew_s = time.monotonic() + RENEWED_S
                    if self._in_force_s is None:
                        self._wait()
                        continue
                self._look()
            if not self._requests:
                renew_s = math.inf

    def _look(self) -> None:
        mine = self._own(self._client.status())
        if self._in_force_s is None:
            self._in_force_s = time.monotonic()
        t_s = time.monotonic() - self._in_force_s
        self._samples.append(ShareSample(t_s=t_s, share_bps=mine.share_bps, sent_bps=mine.sent_bps))

    def _give_back(self) -> None:
        if self._requested:
            with contextlib.suppress(HowdahError):
                self._client.release(self._name, self._who)
