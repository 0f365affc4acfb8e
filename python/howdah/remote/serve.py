"""The far end, ``howdah serve``: started by the near end's ssh, speaks on standard input and output."""

import sys

from howdah import HowdahError, _native


def main(arguments: list[str]) -> int:
    """Serves one session and returns the exit code."""
    if arguments or sys.stdin.isatty():
        print(
            "howdah: serve is the far end of a copy and is started over ssh; use: howdah cp SRC… HOST:PATH",
            file=sys.stderr,
        )
        return 2
    try:
        return _native.serve(0, 1)
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
