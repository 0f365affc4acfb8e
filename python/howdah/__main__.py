"""The entry of ``howdah``. Far ends (``serve``, ``sink``, ``respond``, ``reread``) load no table of commands.

The command line loads only what the command needs, hence the imports inside.
"""

import gc
import io
import os
import sys


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its code."""
    ready_streams()
    command, *words = sys.argv[1:] or [""]
    match command:
        case "serve":
            from howdah._native import serve  # noqa: PLC0415

            code = serve(words)
        case "sink":
            from howdah.traffic import sink  # noqa: PLC0415

            code = sink.main(words)
        case "respond":
            from howdah.probing import far_end  # noqa: PLC0415

            code = far_end.respond(words)
        case "reread":
            from howdah.verification import ends  # noqa: PLC0415

            code = ends.reread(words)
        case "standby":
            from howdah.remote import standby  # noqa: PLC0415

            code = standby.main(words)
        case _:
            if command == "cp":
                # Looking for garbage takes a millisecond, and until ssh is on its way there is none.
                # ``cli.cp.start`` turns it on again.
                gc.disable()
            from howdah.guarded import guarded  # noqa: PLC0415

            code = guarded(_commanded)
    sys.exit(code)


def ready_streams() -> None:
    """Has the standard streams there, and able to write whatever is said.

    A stream that is closed becomes /dev/null, so that no other file gets its number. What the encoding of the
    output lacks is written with a backslash, in the locale C too, where Python would raise an error for it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
        setattr(sys, name, os.fdopen(number, mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in {"strict", "surrogateescape"}:
        sys.stdout.reconfigure(errors="backslashreplace")


def _commanded() -> int:
    from howdah.cli import app  # noqa: PLC0415

    return app.main(sys.argv[1:])


if __name__ == "__main__":
    main()
