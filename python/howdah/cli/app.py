"""All commands under one name, and what is wrong with a command line in one line."""

import importlib
import sys
from typing import Annotated

import typer
from typer._click.exceptions import ClickException

from howdah import __version__

_COMMANDS: dict[str, str | None] = {
    "cp": None,
    "sweep": None,
    "traffic": None,
    "doctor": None,
    "archive": "archive",
    "cc": "cc",
    "control": "control",
    "lab": "lab",
    "probe": None,
    "profile": "profile",
    "report": None,
    "select": None,
    "shared": "shared",
}
"""Module → the name its group is under; None where the module is a command of its own."""


def main(arguments: list[str]) -> int:
    """Runs a command line and returns the exit code."""
    try:
        # Not standalone: typer would draw boxes around one-line errors. Its base class has no public name.
        code = _app(arguments)(args=arguments, prog_name="howdah", standalone_mode=False)
    except ClickException as error:
        message = error.format_message()
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "howdah"
        one_line = f"howdah: {message.rstrip('.')}; see: {command} --help"
        # A group without a command answers with its help.
        print(message if "\n" in message else one_line, file=sys.stderr)
        return error.exit_code
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
