"""The small process beside a lab of root that puts the host's settings back, however the lab ends.

It is a session of its own, so that neither Ctrl-C nor a closed terminal reaches it, and it waits for
the end of a pipe of which only the lab's first process holds the other side: the kernel closes that
side even on ``kill -9``.
"""

import contextlib
import os
import signal
from typing import NoReturn

from howdah._native import HowdahError
from howdah.lab.processes import Identity
from howdah.lab.settings import Settings


class Keeper:
    """Releases the claim of this process once it has ended."""

    def __init__(self, settings: Settings, owner: Identity) -> None:
        """Needs a single thread. Raises OSError when there is no room for a process."""
        self._settings = settings
        self._owner = owner
        ended, self._held = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _keep(ended, settings, owner)
        os.close(ended)

    def forget(self) -> None:
        """Lets go of the pipe in a child of the holder, so that only the holder's end counts."""
        os.close(self._held)

    def release(self) -> None:
        """Puts the settings back now and returns when it is done."""
        os.close(self._held)
        os.waitpid(self._pid, 0)
        # The keeper may have been killed; what cannot be put back now will be by whoever comes next.
        with contextlib.suppress(HowdahError):
            self._settings.release(self._owner)


def _keep(ended: int, settings: Settings, owner: Identity) -> NoReturn:
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        ended = os.dup2(ended, 3) if ended != 3 else ended
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.close(null)
        os.chdir("/")
        os.read(ended, 1)
        settings.release(owner)
    except (OSError, HowdahError):
        os._exit(1)
    finally:
        os._exit(0)
