"""``howdah cp --cc NAME``: the sending kernel's own control where it has it, howdah's where it does not.

Howdah's is loaded on this host where we may; it stays loaded. On a far host that sends it has to be there.
"""

from typing import NamedTuple

import msgspec

from howdah import HowdahError
from howdah.cc import programs
from howdah.cc.choose import Choice, choose
from howdah.plan import Evidence, Plan
from howdah.record import HostLimits


class Sender(NamedTuple):
    """The end that sends, whose congestion control counts."""

    limits: HostLimits
    host: str | None
    """Null: this host."""

    def __str__(self) -> str:
        return self.host or "this host"


def given(plan: Plan, name: str, sender: Sender, *, dry_run: bool) -> Plan:
    """The plan with the control that ``name`` means to the sender; its Why says whose it is."""
    choice = choose(name, sender.limits.congestion_controls_available)
    if choice.source == "missing":
        source = _bring(name, choice, sender, dry_run=dry_run)
    else:
        _check_allowed(name, choice.control, sender)
        source = f"howdah's program, loaded on {sender}" if choice.source == "howdah" else "the kernel's own"
    if choice.control.removeprefix("hd_") == "hold" and sender.host is None and not dry_run:
        source += _held(sender)
    words = f"Congestion control {choice.control} ({source})"
    plan = plan.given("congestion_control", choice.control, "--cc", words)
    evidence = Evidence(name=f"{name} on {sender}", value=choice.control, source=source)
    why = msgspec.structs.replace(plan.why, evidence=[*plan.why.evidence, evidence])
    return msgspec.structs.replace(plan, why=why)


def _bring(name: str, choice: Choice, sender: Sender, *, dry_run: bool) -> str:
    """Loads howdah's program; where it comes from, in words."""
    if choice.program is None:
        raise _unusable(name, sender)
    mend = f"howdah cc load {choice.program}"
    if sender.host is not None:
        raise HowdahError(
            f"--cc {name}: the kernel of {sender}, which sends, has no {name} and howdah's is not loaded; "
            f"on {sender}, as root: {mend}"
        )
    if not sender.limits.privileged:
        raise HowdahError(
            f"--cc {name}: this kernel has none, and howdah's is loaded by root alone: sudo {mend}"
        )
    if dry_run:
        return "howdah's program, which the copy would load"
    programs.load(choice.program)
    return f"howdah's program, loaded for this; it stays until: howdah cc unload {choice.program}"


def _check_allowed(name: str, control: str, sender: Sender) -> None:
    if control not in sender.limits.congestion_controls_usable:
        raise _unusable(name, sender)


def _unusable(name: str, sender: Sender) -> HowdahError:
    return HowdahError(
        f"--cc {name}: the kernel of {sender}, which sends, does not let us use it; "
        f"use one of {' '.join(sender.limits.congestion_controls_usable)}, or see: howdah cc list"
    )


def _held(sender: Sender) -> str:
    """What hold will hold, as far as root may look; without a target it is an ordinary control."""
    if not sender.limits.privileged or programs.default_target() is not None:
        return ""
    return "; it has no default target and is an ordinary control without: howdah cc set hold --rate RATE"
