"""The command line: one file a command, no logic. Only the command that runs is loaded.

Exit codes: 0 done; 1 it failed, one line on standard error says why; 2 the command line is wrong;
130, 143, 129 stopped by Ctrl-C, TERM, HUP. A mistake of the user never shows a traceback; a mistake
of ours does with ``HOWDAH_DEBUG=1``.
"""

import importlib
import os
import sys
from typing import Annotated

import typer
from typer._click.exceptions import ClickException

from howdah import HowdahError, __version__

_COMMANDS: dict[str, str | None] = {"cp": None, "doctor": None, "archive": "archive", "lab": "lab"}
"""Module → the name its group is under; None where the module is a command of its own."""


def main() -> int:
    """Runs ``sys.argv`` and returns the exit code."""
    arguments = sys.argv[1:]
    try:
        # Not standalone: typer would draw boxes around one-line errors. Its base class has no public name.
        code = _app(arguments)(args=arguments, prog_name="howdah", standalone_mode=False)
    except ClickException as error:
        message = error.format_message()
        one_line = f"howdah: {message.rstrip('.')}; see: {_help(arguments)}"
        # A group without a command answers with its help.
        print(message if "\n" in message else one_line, file=sys.stderr)
        return error.exit_code
    except HowdahError as error:
        print(f"howdah: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has gone (head, less). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("HOWDAH_DEBUG"):
            raise
        print(
            f"howdah: a mistake of ours, {type(error).__name__}: {' '.join(str(error).split())}; "
            "run it again with HOWDAH_DEBUG=1 and report what it prints",
            file=sys.stderr,
        )
        return 1
    return code if isinstance(code, int) else 0


def _app(arguments: list[str]) -> typer.Typer:
    app = typer.Typer(
        help="Moves data over long fat networks at the rate the path allows, and picks the transport itself.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    wanted = [arguments[0]] if arguments and arguments[0] in _COMMANDS else list(_COMMANDS)
    for name in wanted:
        app.add_typer(importlib.import_module(f"howdah.cli.{name}").app, name=_COMMANDS[name])
    return app


def _version(asked: bool) -> None:
    if asked:
        print(f"howdah {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _help(arguments: list[str]) -> str:
    return f"howdah {arguments[0]} --help" if arguments and arguments[0] in _COMMANDS else "howdah --help"
