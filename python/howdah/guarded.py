"""The end of a program of howdah: its exit code, and one line where it failed or was interrupted."""

import errno
import os
import signal
import sys
from collections.abc import Callable

from howdah import HowdahError
from howdah.interrupt import Interrupted, disregard
from howdah.text import printable

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)
"""The errors that a write to standard output may fail with."""


def guarded(command: Callable[[], int]) -> int:
    """Runs ``command`` and returns the exit code, whatever it raises. Signals change nothing after that."""
    try:
        code = command()
        sys.stdout.flush()
        return code
    except HowdahError as error:
        print(f"howdah: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (head, less).
        _write_no_more()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            return _bug(error)
        print(f"howdah: cannot write its output: {error.strerror}", file=sys.stderr)
        _write_no_more()
    except (Interrupted, KeyboardInterrupt) as stop:
        # Without handlers of the command's own Ctrl-C is Python's.
        stopped = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
        print(f"howdah: {stopped}", file=sys.stderr)
        return 128 + stopped.number
    except Exception as error:
        return _bug(error)
    finally:
        disregard()
    return 1


def _write_no_more() -> None:
    """Sends what is left of the output nowhere; Python would complain of it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(error: Exception) -> int:
    """Says so in a line, or raises it again where a traceback is wanted."""
    if os.environ.get("HOWDAH_DEBUG"):
        raise error
    print(
        f"howdah: a bug in howdah, {type(error).__name__}: {printable(' '.join(str(error).split()))}; "
        "run it again with HOWDAH_DEBUG=1 and report what it prints",
        file=sys.stderr,
    )
    return 1
