"""Resolves a congestion control's name at the sender: the kernel's own where it has one, else howdah's.

Howdah's program is loaded on this host where the user may, and stays loaded. On a far host that sends, it has
to be loaded already.
"""

from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from howdah import HowdahError
from howdah.arguments import BadArgument
from howdah.cc import ResolvedControl, choose, programs
from howdah.values.plan import Evidence, Later, Plan
from howdah.values.record import HostLimits


class Sender(NamedTuple):
    """The end that sends; its kernel runs the congestion control."""

    limits: HostLimits
    host: str | None
    """The far host; None: this host sends."""

    def __str__(self) -> str:
        return self.host or "this host"


def given(plan: Plan, name: str, sender: Sender, *, dry_run: bool) -> Plan:
    """The plan with the user's control in its place; its Why says whose it is.

    Raises HowdahError where the sender cannot use it; so do the two below.
    """
    try:
        control, evidence = _ready("{congestion_control}", name, sender, dry_run=dry_run)
    except HowdahError as error:
        raise BadArgument(str(error), congestion_control=name) from None
    words = f"Congestion control {control} ({evidence.source})"
    return _with(plan.given("congestion_control", control, "--cc", words), evidence)


def brought(plan: Plan, sender: Sender, *, dry_run: bool) -> Plan:
    """The plan with its own control by the sender's name, loaded where needed; its prediction stands."""
    name = plan.congestion_control
    if name is None:
        return plan
    control, evidence = _ready(f"the plan's {name}", name, sender, dry_run=dry_run)
    return _with(msgspec.structs.replace(plan, congestion_control=control), evidence)


def scheduled(plan: Plan, sender: Sender, *, dry_run: bool) -> Plan:
    """The plan with the controls of its later changes by the sender's names, loaded where needed."""

    def brought_later(change: Later) -> Later:
        name = change.congestion_control
        if isinstance(name, UnsetType):
            return change
        asked = f"the plan's {name} after {change.at_s:g} s"
        control, _ = _ready(asked, name, sender, dry_run=dry_run)
        return msgspec.structs.replace(change, congestion_control=control)

    return msgspec.structs.replace(plan, changes=[brought_later(change) for change in plan.changes])


def _with(plan: Plan, evidence: Evidence) -> Plan:
    why = msgspec.structs.replace(plan.why, evidence=[*plan.why.evidence, evidence])
    return msgspec.structs.replace(plan, why=why)


def _ready(asked: str, name: str, sender: Sender, *, dry_run: bool) -> tuple[str, Evidence]:
    """The sender's name for the control, and evidence of where that comes from."""
    choice = choose(name, sender.limits.congestion_controls_available)
    _check_target(asked, choice, sender)
    if choice.source == "missing":
        source = _bring(asked, name, choice, sender, dry_run=dry_run)
    elif choice.control not in sender.limits.congestion_controls_usable:
        raise _unusable(asked, sender)
    else:
        source = f"howdah's program, loaded on {sender}" if choice.source == "howdah" else "the kernel's own"
    return choice.control, Evidence(name=f"{name} on {sender}", value=choice.control, source=source)


def _bring(asked: str, name: str, choice: ResolvedControl, sender: Sender, *, dry_run: bool) -> str:
    """Loads howdah's program; returns where the control comes from, in words."""
    if choice.program is None:
        raise _unusable(asked, sender)
    mend = f"howdah cc load {choice.program}"
    if sender.host is not None:
        raise HowdahError(
            f"{asked}: the kernel of the sender, {sender}, has no {name} and howdah's is not loaded; "
            f"on {sender}, as root: {mend}"
        )
    if not sender.limits.privileged:
        raise HowdahError(
            f"{asked}: this kernel does not have it, and only root can load howdah's: sudo {mend}"
        )
    if dry_run:
        return "howdah's program, which the copy would load"
    programs.load(choice.program)
    return f"howdah's program, loaded for this copy; it stays until howdah cc unload {choice.program}"


def _unusable(asked: str, sender: Sender) -> HowdahError:
    return HowdahError(
        f"{asked}: the kernel of the sender, {sender}, does not allow it; "
        f"use one of {' '.join(sender.limits.congestion_controls_usable)}, or see: howdah cc list"
    )


def _check_target(asked: str, choice: ResolvedControl, sender: Sender) -> None:
    """Raises HowdahError where hold has nothing to hold; only root may see whether it has."""
    if (
        choice.control.removeprefix("hd_") != "hold"
        or sender.host is not None
        or not sender.limits.privileged
    ):
        return
    load = "howdah cc load hold; " if choice.source == "missing" else ""
    if load or programs.default_target() is None:
        raise HowdahError(
            f"{asked}: hold has no target, and is an ordinary control without one; "
            f"give it one: {load}howdah cc set hold --rate 1Gbit"
        )
