"""Agents and controllers with one mistake each. The simulation must find every one of them."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from bench.leases.ground import Variant
from bench.leases.world import run
from howdah.control.leases.agent import Agent
from howdah.control.leases.controller import Controller, Messages, Peer
from howdah.control.leases.ledger import Account, Ledger
from howdah.control.leases.messages import Call, FlowShare, Grant, Report


class _LeaseFromReceipt(Agent):
    """Counts a lease from when it got the Grant."""

    def receive(self, message: Grant | Call, now_ns: int) -> Report | None:
        self._now_ns = now_ns
        return super().receive(message, now_ns)

    def _valid(self, grant: Grant) -> int | None:
        return None if super()._valid(grant) is None else self._now_ns


class _AnyEpoch(Agent):
    """Obeys whoever spoke last."""

    def receive(self, message: Grant | Call, now_ns: int) -> Report | None:
        if message.epoch < self._epoch:
            self._epoch, self._seq, self._answered = message.epoch, 0, 0
        return super().receive(message, now_ns)


class _AnySeq(Agent):
    """Goes back to an older Grant of the same epoch."""

    def _valid(self, grant: Grant) -> int | None:
        return self._sent.get(grant.beat) if grant.incarnation == self._incarnation else None


class _AnyIncarnation(Agent):
    """Takes a Grant that answers its forerunner for an answer to itself."""

    def _valid(self, grant: Grant) -> int | None:
        return super()._valid(msgspec.structs.replace(grant, incarnation=self._incarnation))


class _RaisesFirst(Agent):
    """Raises before it lowers."""

    def _in_order(
        self, shares: Mapping[str, FlowShare], before: Mapping[str, FlowShare]
    ) -> list[tuple[str, FlowShare]]:
        return super()._in_order(shares, before)[::-1]


class _Generous(Ledger):
    def free_bps(self, now_ns: int) -> int:
        return self.trusted_bps if self.is_open(now_ns) else 0


class _Impatient(Ledger):
    def is_open(self, now_ns: int) -> bool:
        return True


class _Forgetful(Account):
    def count(self, seq: int, shares: Mapping[str, FlowShare], now_ns: int, until_ns: int) -> None:
        self._entries = []
        super().count(seq, shares, now_ns, until_ns)


class _RaisesAtOnce(Controller):
    """Does not wait until others have confirmed to have less."""

    ledger_type = _Generous


class _BeginsAtOnce(Controller):
    """Takes an agent that has not answered yet for one at its minimums."""

    ledger_type = _Impatient


class _CountsTheLast(Controller):
    """Forgets what an agent had as soon as it has sent it less."""

    account_type = _Forgetful


class _BelievesOldEpochs(Controller):
    """Takes what an agent says that may still obey the former controller."""

    def receive(self, report: Report, now_ns: int) -> Messages:
        if report.epoch < self.epoch:
            report = msgspec.structs.replace(report, epoch=self.epoch, seq=0)
        return super().receive(report, now_ns)


class _AnyConfirmation(Controller):
    """Takes any Report for the confirmation of its last Grant."""

    def _learn(self, peer: Peer, report: Report, now_ns: int) -> None:
        super()._learn(peer, report, now_ns)
        peer.confirm(peer.seq)


class _NeverEnds(Controller):
    """Goes on when its term is over."""

    def lead(self, epoch: int, until_ns: int, now_ns: int, former: Iterable[Grant | Report] = ()) -> Messages:
        return super().lead(epoch, until_ns + 10 * self._lease_ns, now_ns, former)


MASKED = "obeys Grants for its forerunner"
"""Nearly always: a forerunner's Grants have smaller numbers than the first answer to its successor."""

MUTANTS = {
    "raises before the lowered have confirmed": Variant(controller=_RaisesAtOnce),
    "counts only the last Grant sent": Variant(controller=_CountsTheLast),
    "takes any Report for a confirmation": Variant(controller=_AnyConfirmation),
    "does not wait at takeover": Variant(controller=_BeginsAtOnce),
    "believes Reports of older epochs": Variant(controller=_BelievesOldEpochs),
    "leads beyond its term": Variant(controller=_NeverEnds),
    "allows for no drift": Variant(drift_margin=0.0),
    "counts its lease from the Grant's arrival": Variant(agent=_LeaseFromReceipt),
    "obeys older epochs": Variant(agent=_AnyEpoch),
    "obeys older Grants": Variant(agent=_AnySeq),
    MASKED: Variant(agent=_AnyIncarnation),
    "raises before it lowers": Variant(agent=_RaisesFirst),
}

FOUND_WITHIN = 1_000
"""Schedules from seed 0 on, until anything is seen that must never be."""
SUM_WITHIN = 5_000
"""Until more is in force than there is: a single mistake is often made good by what else is checked."""


def schedules_until(name: str, broken: Collection[str], within: int) -> int | None:
    """How many schedules it takes until any of these is seen; null: too many."""
    for seed in range(within):
        if not run(seed, MUTANTS[name]).broken.keys().isdisjoint(broken):
            return seed + 1
    return None
