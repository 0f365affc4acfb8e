"""Starts ssh for ``howdah cp`` before anything else is loaded, and hands it to the run."""

from howdah import HowdahError, _native, interrupt
from howdah.remote import endpoints, standby


class Started:
    """An ssh on its way and the session that speaks through it."""

    def __init__(self, host: str, command: str | None) -> None:
        self.key = (host, command)
        self.far = standby.far(host, command)
        self.session = _native.Session(self.far.read_fd, self.far.write_fd)


_started: list[Started] = []


def begin(names: list[str], far_howdah: str | None, *, memory: bool) -> None:
    """Starts ssh if these names (SRC… DST) lead to one far host."""
    interrupt.install()
    try:
        host = endpoints.route(names, memory=memory).host
        with interrupt.Held():
            _started.append(Started(host, far_howdah))
    except HowdahError:
        # The run comes to the same place, and reports it as it reports everything.
        return


def take(host: str, command: str | None) -> Started:
    """What was started early for this far end, or a new start."""
    if _started and _started[0].key == (host, command):
        return _started.pop()
    drop()
    return Started(host, command)


def drop() -> None:
    """Ends what was started and is not wanted after all."""
    while _started:
        started = _started.pop()
        started.session.cancel()
        started.far.end()
