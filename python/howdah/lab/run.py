"""One command in a lab of its own, in the foreground: it has the terminal, and its exit code counts."""

import contextlib
import os
import signal
import termios
from collections.abc import Callable, Iterator

from howdah.lab.control import Ended, Ready, Setup
from howdah.lab.tree import Tree


def run(setup: Setup, ready: Callable[[Ready], None]) -> Ended:
    """Runs ``setup.command`` to its end; ``ready`` is told when it starts.

    Raises HowdahError when the lab cannot be made or is killed, and Interrupted.
    """
    tree = Tree(setup, [])
    try:
        ready(tree.wait_ready())
        with _terminal():
            return tree.wait()
    finally:
        tree.end()


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Takes the terminal back afterwards, as it was, from a command that died with it.

    A shell makes its own process group the terminal's and, inside a PID namespace, cannot name the
    one that was there before.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        foreground = os.tcgetpgrp(terminal) == os.getpgrp()
        state = termios.tcgetattr(terminal)
        yield
        if foreground and os.tcgetpgrp(terminal) != os.getpgrp():
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            os.tcsetpgrp(terminal, os.getpgrp())
            termios.tcsetattr(terminal, termios.TCSADRAIN, state)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        os.close(terminal)
