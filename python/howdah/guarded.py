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

_MENDS = {
    errno.EMFILE: "allow more open files: ulimit -n 4096",
    errno.ENFILE: "this host allows no more open files: end programs, or raise fs.file-max",
    errno.ENOMEM: "make memory free, or allow more (ulimit -v, or what bounds this job)",
}
"""What to do, by the number of the error."""
_UNMAPPED = "failed to map segment from shared object"
"""How the dynamic linker says that there is no memory."""
_NO_THREAD = ("can't start new thread", "cannot start a thread")
"""How Python and the data plane say that there is no room for one."""


def guarded(command: Callable[[], int]) -> int:
    """Runs ``command`` and returns the exit code, whatever it raises. Signals change nothing after that."""
    # Whoever started this may ignore it, and then no program tells how it has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        code = command()
        sys.stdout.flush()
        return code
    except HowdahError as error:
        mend = None if error.exit_code == 2 else _mend(error)
        said = str(error) if mend is None else f"{error}; {mend}"
        print(f"howdah: {printable(said)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (head, less).
        write_no_more()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            return unexpected(error)
        print(f"howdah: cannot write its output: {error.strerror}", file=sys.stderr)
        write_no_more()
    except (Interrupted, KeyboardInterrupt) as stop:
        # Without handlers of the command's own Ctrl-C is Python's.
        stopped = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
        print(f"howdah: {stopped}", file=sys.stderr)
        return 128 + stopped.number
    except Exception as error:
        return unexpected(error)
    finally:
        disregard()
    return 1


def write_no_more() -> None:
    """Sends what is left of standard output nowhere; Python would complain of it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unexpected(error: Exception) -> int:
    """Says in a line that the host lacks something, or that howdah has a bug; the exit code.

    Raises the error again where a traceback is wanted.
    """
    if os.environ.get("HOWDAH_DEBUG"):
        raise error
    what, mend = printable(" ".join(str(error).split())), _mend(error)
    if mend is None:
        what = f"a bug in howdah, {type(error).__name__}: {what}"
        mend = "run it again with HOWDAH_DEBUG=1 and report what it prints"
    print(f"howdah: {what or 'out of memory'}; {mend}", file=sys.stderr)
    return 1


def _mend(error: BaseException | None) -> str | None:
    """What to do where the host lacks what every program needs; None: that is not the cause."""
    while error is not None:
        # Extension modules and the data plane tell of it in words alone.
        text = str(error) if isinstance(error, HowdahError | ImportError) else ""
        number = error.errno if isinstance(error, OSError) else None
        for wanted, mend in _MENDS.items():
            if number == wanted or os.strerror(wanted) in text:
                return mend
        if isinstance(error, MemoryError) or _UNMAPPED in text:
            return _MENDS[errno.ENOMEM]
        if isinstance(error, RuntimeError | HowdahError) and str(error).startswith(_NO_THREAD):
            return "allow more processes (ulimit -u) or memory (ulimit -v)"
        if isinstance(error, OSError):
            text = f"'{error.filename}'"
        # A file below /proc may be missing on its own.
        if "/proc/" in text and not os.path.exists("/proc/self"):  # noqa: PTH110
            return "howdah needs /proc: mount -t proc proc /proc"
        if number == errno.ENOENT and text == f"'{os.devnull}'":
            return f"make it as root: mknod -m 666 {os.devnull} c 1 3"
        error = error.__cause__ or error.__context__
    return None
