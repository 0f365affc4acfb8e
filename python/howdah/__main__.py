"""Where ``howdah`` begins. What comes before the command line's library is for the sake of the start:

a far end (``howdah serve``, ``howdah respond``) runs without it, and a copy that is plainly written starts
its ssh first of all and never loads it. Hence the imports inside.
"""

import sys


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its code."""
    command, *words = sys.argv[1:] or [""]
    match command:
        case "serve":
            from howdah.remote import serve  # noqa: PLC0415

            code = serve.main(words)
        case "sink":
            from howdah.traffic import sink  # noqa: PLC0415

            code = sink.main(words)
        case "respond":
            from howdah.probing import far_end  # noqa: PLC0415

            code = far_end.respond(words)
        case "standby":
            from howdah.remote import standby  # noqa: PLC0415

            code = standby.main(words)
        case "cp":
            code = _copy(words)
        case _:
            code = _command_line()
    sys.exit(code)


def _copy(words: list[str]) -> int:
    from howdah import interrupt  # noqa: PLC0415
    from howdah.cli import arguments  # noqa: PLC0415
    from howdah.remote import standby  # noqa: PLC0415

    given = arguments.parse(words)
    if given is None:
        return _command_line()
    interrupt.install()
    try:
        # A share is asked for before ssh connects, which may be held to it.
        if "--class" not in given.values:
            standby.begin(given.names, given.values.get("--far-howdah"), memory="--memory" in given.values)
        # A C extension whose loading is broken off crashes when Python ends.
        with interrupt.Held():
            from howdah.cli import copy_command as command  # noqa: PLC0415
            from howdah.guarded import guarded  # noqa: PLC0415

        return guarded(lambda: command.copy(given))
    finally:
        standby.drop()


def _command_line() -> int:
    from howdah.cli import app  # noqa: PLC0415
    from howdah.guarded import guarded  # noqa: PLC0415

    return guarded(lambda: app.main(sys.argv[1:]))


if __name__ == "__main__":
    main()
