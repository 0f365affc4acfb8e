"""Labs that stay: up and down."""

import os
import signal

from howdah._native import HowdahError
from howdah.lab import control, daemon
from howdah.lab.control import Ready, Setup
from howdah.lab.daemon import Request
from howdah.lab.processes import Identity, wait_gone
from howdah.lab.registry import Entry, Registry
from howdah.lab.settings import Settings
from howdah.values.link import LinkStats

_GONE_S = 5.0


def up(name: str, setup: Setup) -> Ready:
    """Brings up a lab that stays. Raises HowdahError with the reason when it cannot be."""
    Registry().check_free(name)
    ready, _, asking = daemon.start(Request(setup, name))
    asking.close()
    return ready


def living() -> list[Entry]:
    """All labs that are up; what killed ones left is cleared away."""
    if os.geteuid() == 0:
        Settings().prune()
    return list(Registry().entries())


def down(name: str) -> LinkStats | None:
    """Ends a lab and returns when all of it is gone, with its last statistics if it still gave any."""
    registry = Registry()
    entry = registry.find(name)
    try:
        last = control.ask(entry.ready.pid, "stop")
    except HowdahError:
        last = None
    for process in (entry.lab, entry.maker):
        _end(process, patient=last is not None)
    registry.remove(entry)
    if os.geteuid() == 0:
        Settings().prune()
    return last


def _end(process: Identity, *, patient: bool) -> None:
    """Waits for the end of ``process``, with SIGKILL if it does not come."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if not process.alive() or (patient and wait_gone(pidfd, _GONE_S)):
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not wait_gone(pidfd, _GONE_S):
            raise HowdahError(f"process {process.pid} of the lab does not end; see: ps {process.pid}")
    finally:
        os.close(pidfd)
