"""The entry of ``howdah``. Far ends (``serve``, ``sink``, ``respond``, ``reread``) load no table of commands.

The command line loads only what the command needs, hence the imports inside.
"""

import gc
import sys

from howdah import streams


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its code."""
    try:
        streams.ready()
        code = _run()
    except OSError as error:
        # Of the standard streams: a command tells its own errors (``howdah.guarded``).
        from howdah.guarded import unexpected  # noqa: PLC0415

        code = unexpected(error)
    except KeyboardInterrupt:
        # While nothing is loaded yet that says so (``howdah.guarded``).
        print("howdah: interrupted by SIGINT", file=sys.stderr)
        code = 130
    # Looking for garbage once more, in all that was loaded, would take longer than to end without it.
    # But duckdb then reports each of its own objects as a leak.
    if "duckdb" not in sys.modules:
        gc.freeze()
    sys.exit(code)


def _run() -> int:
    command, *words = sys.argv[1:] or [""]
    match command:
        case "serve":
            from howdah._native import serve  # noqa: PLC0415

            return serve(words)
        case "sink":
            from howdah.traffic import sink  # noqa: PLC0415

            return sink.main(words)
        case "respond":
            from howdah.probing import far_end  # noqa: PLC0415

            return far_end.respond(words)
        case "reread":
            from howdah.verification import check  # noqa: PLC0415

            return check.reread(words)
        case "standby":
            from howdah.remote import standby  # noqa: PLC0415

            return standby.main(words)
        case _:
            if command == "cp":
                # Looking for garbage takes a millisecond, and until ssh is on its way there is none.
                # ``cli.cp.start`` turns it on again.
                gc.disable()
            from howdah.guarded import guarded  # noqa: PLC0415

            return guarded(_commanded)


def _commanded() -> int:
    from howdah.cli import app  # noqa: PLC0415

    return app.main(sys.argv[1:])


if __name__ == "__main__":
    main()
