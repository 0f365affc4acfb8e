"""The congestion controls of a sweep: howdah's programs are loaded for it where the kernel has none."""

import contextlib
from collections.abc import Iterator, Sequence

from howdah import HowdahError
from howdah.cc import choose, programs
from howdah.values.record import HostLimits

DEFAULT = ("cubic", "htcp", "scalable")


def available(names: Sequence[str], here: HostLimits) -> list[str]:
    """The controls that a sweep from this host can use."""
    return [name for name in names if refusal(name, here) is None]


def refusal(name: str, here: HostLimits) -> str | None:
    """The reason why a sweep cannot use the control, and what to do; null when it can."""
    choice = choose(name, here.congestion_controls_available)
    if choice.source == "missing":
        if choice.program is None:
            return f"neither this kernel nor howdah has {name}; see: howdah cc list"
        if not here.privileged:
            return f"this kernel has no {name}, and only root can load howdah's: sudo howdah cc load {name}"
    elif choice.control not in here.congestion_controls_usable:
        usable = " ".join(here.congestion_controls_usable)
        return (
            f"this kernel does not allow {name}, only {usable}; as root: "
            f'sysctl -w net.ipv4.tcp_allowed_congestion_control="{usable} {choice.control}"'
        )
    return None


@contextlib.contextmanager
def provided(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Provides controls: for each name, the name by which a socket chooses it.

    What is loaded for this leaves the kernel with the block or this process.

    Raises HowdahError for one that cannot be had.
    """
    here = HostLimits.here()
    for name in names:
        if why := refusal(name, here):
            raise HowdahError(why)
    with contextlib.ExitStack() as tried:
        found = {}
        for name in names:
            choice = choose(name, here.congestion_controls_available)
            if choice.source == "missing" and choice.program is not None:
                tried.enter_context(programs.tried(choice.program))
            found[name] = choice.control
        yield found
