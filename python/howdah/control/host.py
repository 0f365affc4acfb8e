"""The kernel of a host, as its agent uses it: shares under ``hd_hold``, and the rules that give them.

What is in force stays so when the agent dies, and an agent that starts again finds it by the host's name.
"""

from collections.abc import Mapping

from howdah import HowdahError
from howdah.cc import programs
from howdah.cc.places import cgroup_id
from howdah.cc.shares import Placed, Share, Shares
from howdah.control.agent import Held
from howdah.control.members import Member
from howdah.control.messages import Measured

_PROGRAM = "hold"


class Host:
    """One host, or one network namespace that stands for a host."""

    _loaded = False
    """Whether this process loaded the program, for whichever of its hosts."""

    def __init__(self, name: str, namespace: int | None = None) -> None:
        """``namespace`` is the inode of the only network namespace it is for.

        Raises HowdahError where ``hd_hold`` cannot be loaded, which needs root.
        """
        self._namespace = namespace
        if programs.load(_PROGRAM).action == "loaded":
            Host._loaded = True
        self._shares = Shares(name if namespace is None else f"{name}@{namespace}")
        self._defined = {share.name for share in self._shares.all()}
        self._members: Mapping[str, Member] = {}
        self._placed: tuple[list[Placed], dict[str, int | None]] | None = None

    def held(self) -> dict[str, Held]:
        """As it was left by whoever set it."""
        return {
            share.name: Held(share.rate_bps, share.minimum_bps, share.until_ns)
            for share in self._shares.all()
        }

    def hold(self, flow: str, held: Held) -> None:
        """One write to a map, but for a flow that is new."""
        new = flow not in self._defined
        if new:
            self._shares.define(flow, held.minimum_bps)
        try:
            self._shares.set(flow, held.rate_bps, held.minimum_bps, held.until_ns)
        except BaseException:
            if new:
                self._shares.remove(flow)
            raise
        self._defined.add(flow)

    def release(self, flow: str) -> None:
        """Its connections go back to the control they had."""
        self._defined.discard(flow)
        self._place()
        self._shares.remove(flow)

    def measured(self) -> dict[str, Measured]:
        """As the kernel counted it."""
        return {share.name: _measured(share) for share in self._shares.all()}

    def place(self, members: Mapping[str, Member]) -> None:
        """Of the flows that have a share; nothing is done where nothing is new.

        Raises HowdahError once it is done when cgroups are not there, as before a service has started. Called
        again, it places them when they are.
        """
        self._members = members
        missing = self._place()
        if missing:
            raise HowdahError(f"waiting for {', '.join(missing)}: no such cgroup on this host")

    def _place(self) -> list[str]:
        """The cgroups that are not there."""
        mine = {flow: member for flow, member in sorted(self._members.items()) if flow in self._defined}
        wanted = [Placed(member.place(self._namespace), flow) for flow, member in mine.items()]
        # One that was made anew has its path and another id.
        ids = {each.cgroup: cgroup_id(each.cgroup) for each in mine.values() if each.cgroup}
        if (wanted, ids) != self._placed:
            self._shares.place(wanted)
            self._placed = wanted, ids
        return [path for path, number in ids.items() if number is None]

    def leave(self) -> None:
        """Ends rules and shares; unloads the program if this process loaded it and nothing else uses it."""
        self._shares.place([])
        for flow in self._defined:
            self._shares.remove(flow)
        self._defined, self._placed = set(), None
        unload()


def unload() -> None:
    """Unloads the program if this process loaded it and nothing uses it, as after a start that failed."""
    if Host._loaded and not _used():
        programs.unload(_PROGRAM)
        Host._loaded = False


def _measured(share: Share) -> Measured:
    return Measured(share.sent_bytes, share.acked_bytes, share.connections, share.active)


def _used() -> bool:
    found = programs.status()
    return bool(found.shares or found.rules or found.default_target)
