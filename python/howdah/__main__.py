"""Where ``howdah`` begins. What it does before the command line is read is for the sake of the start:

the far end (``howdah serve``) runs without the command line's libraries, and a copy starts its ssh
before they are loaded, so that they load while ssh connects. Hence the imports inside.
"""

import sys


def main() -> None:
    """Runs the command in ``sys.argv`` and exits with its code."""
    match sys.argv[1:2]:
        case ["serve"]:
            from howdah.transfer import serve  # noqa: PLC0415

            sys.exit(serve.main(sys.argv[2:]))
        case ["cp"]:
            from howdah.transfer import early  # noqa: PLC0415

            try:
                early.begin(sys.argv[2:])
                _command_line()
            finally:
                early.drop()
        case _:
            _command_line()


def _command_line() -> None:
    from howdah import cli  # noqa: PLC0415

    sys.exit(cli.main())


if __name__ == "__main__":
    main()
