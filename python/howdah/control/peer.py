"""What a controller knows of one agent."""

from collections.abc import Mapping

from howdah.control.ledger import Account
from howdah.control.messages import Report, Share

Shares = dict[str, Share]


class Peer:
    """An agent as its controller sees it, during one epoch."""

    __slots__ = (
        "_answered",
        "_change",
        "_confirmed",
        "account",
        "heard_ns",
        "name",
        "report",
        "sent",
        "seq",
        "target",
    )

    def __init__(self, name: str, account: Account) -> None:
        self.name = name
        self.account = account
        self.target: Shares = {}
        """What it is to have."""
        self.sent: Shares | None = None
        """What it was told last, or has from an earlier epoch; null: nothing is known."""
        self.seq = 0
        """Of the last Grant sent to it."""
        self.report: Report | None = None
        """The newest."""
        self.heard_ns = 0
        """When that came."""
        self._answered: tuple[int, int] | None = None
        self._change = self._confirmed = 0

    def hear(self, report: Report, now_ns: int, patience_ns: int) -> bool:
        """Whether the Report is news: of a process begun later, or a later beat of the same one.

        Of a process begun earlier too, once the one known has been silent for ``patience_ns``: it may be that
        the clock of its host was set back.
        """
        last = self.report
        if last and (report.incarnation, report.beat) <= (last.incarnation, last.beat):
            silent = now_ns - self.heard_ns > patience_ns
            if report.incarnation == last.incarnation or not silent:
                return False
        self.report, self.heard_ns = report, now_ns
        return True

    def confirm(self, seq: int) -> None:
        """It has put the Grant ``seq`` of this epoch into force."""
        self.account.confirm(seq)
        self._confirmed = max(seq, self._confirmed)

    def send(self, shares: Shares, now_ns: int, until_ns: int) -> None:
        """Counts the next Grant, with these shares."""
        self.seq += 1
        self.account.count(self.seq, shares, now_ns, until_ns)
        if shares != self.sent:
            self._change = self.seq
        self.sent = shares
        if self.report:
            self._answered = (self.report.incarnation, self.heard_ns)

    def is_due(self, pause_ns: int) -> bool:
        """Whether its newest Report wants an answer: the last went to another process, or some time ago."""
        if self.report is None or self._answered is None:
            return True
        incarnation, heard_ns = self._answered
        return incarnation != self.report.incarnation or self.heard_ns - heard_ns >= pause_ns

    @property
    def idle(self) -> frozenset[str]:
        """Flows of it that have nothing to send, as it said last."""
        return self.report.idle if self.report else frozenset()

    @property
    def settled(self) -> bool:
        """Whether it has, as far as it said, what it is to have."""
        return self.sent == self.target and self._confirmed >= self._change

    def part_of_target(self, room_bps: int, least_bps: Mapping[str, int]) -> Shares:
        """As much of the target as fits: at least these rates by flow, then what it has of it, then more.

        A flow that has no share yet gets none below its minimum, and no flow one of nothing: it is better off
        under ordinary congestion control.
        """
        held = self.sent or {}
        rates = {flow: least_bps.get(flow, 0) for flow in self.target}
        room_bps -= sum(least_bps.values())
        for wanted in (held, self.target):
            for flow, share in self.target.items():
                limit_bps = min(share.rate_bps, wanted[flow].rate_bps) if flow in wanted else 0
                rise_bps = min(room_bps, limit_bps - rates[flow])
                if rise_bps > 0:
                    rates[flow] += rise_bps
                    room_bps -= rise_bps
        return {
            flow: Share(rates[flow], min(share.minimum_bps, rates[flow]))
            for flow, share in self.target.items()
            if rates[flow] >= (1 if flow in held else share.minimum_bps)
        }
