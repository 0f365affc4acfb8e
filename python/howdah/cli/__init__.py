"""The command line: one file a command, no logic. Only the command that runs is loaded.

Exit codes: 0 done; 1 it failed, one line on standard error says why; 2 the command line is wrong;
130, 143, 129 stopped by Ctrl-C, TERM, HUP. A mistake of the user never shows a traceback; a mistake
of ours does with ``HOWDAH_DEBUG=1``.
"""

import os
import sys
from collections.abc import Callable

from howdah import HowdahError
from howdah.words import printable


def guarded(command: Callable[[], int]) -> int:
    """The exit code of ``command``, whatever it raises."""
    try:
        return command()
    except HowdahError as error:
        print(f"howdah: {printable(str(error))}", file=sys.stderr)
    except BrokenPipeError:
        # Whoever read our output has gone (head, less). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if os.environ.get("HOWDAH_DEBUG"):
            raise
        print(
            f"howdah: a mistake of ours, {type(error).__name__}: {printable(' '.join(str(error).split()))}; "
            "run it again with HOWDAH_DEBUG=1 and report what it prints",
            file=sys.stderr,
        )
    return 1
