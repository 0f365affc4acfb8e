"""All commands by name, and a command line from its words to its exit code."""

import os
import sys

from howdah import __version__
from howdah.cli.table import Argument, Command, HelpWanted, Option, UsageError, as_typed, nearest, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEADINGS = {
    "cp": "Copy",
    "jobs": "Running copies",
    "verify": "Check what was copied",
    "lab": "Try it out",
    "measure": "Measure a path",
    "results": "Look at results",
    "host": "Make this host ready",
    "control": "Guarantee shares of a path",
    "shared": "Recognise other traffic on a path",
    "pages": "Help",
}
"""The purpose of the commands of each module of ``howdah.cli`` with tables, in the order of help."""

_MODULES = {
    **{
        "cp": "cp",
        "jobs": "jobs",
        "limit": "jobs",
        "pause": "jobs",
        "continue": "jobs",
        "verify": "verify",
        "lab": "lab",
        "probe": "measure",
        "sweep": "measure",
        "traffic": "measure",
    },
    **{"archive": "results", "profile": "results", "select": "results", "report": "results"},
    **{"doctor": "host", "cc": "host", "control": "control", "shared": "shared"},
    **{"help": "pages", "completion": "pages"},
}
"""The module that has the table of each command: the only one that is loaded when it runs."""


def main(words: list[str]) -> int:
    """Runs a command line and returns the exit code. Raises HowdahError as its command does."""
    if words[:1] == ["--version"]:
        print(f"howdah {__version__}{_built_from()}")
        return 0
    command, called, rest = howdah(words[0] if words else ""), ["howdah"], list(words)
    try:
        while rest and rest[0] in command.named():
            command = command.named()[rest[0]]
            called.append(rest.pop(0))
        if command.run is None:
            return _group(command, called, rest)
        notes: list[str] = []
        if command.spelt and any(word.startswith("-") for word in rest):
            from howdah.cli import spelt  # noqa: PLC0415

            options = {flag: option for option in command.options() for flag in option.flags}
            rest, notes = spelt.ours(rest, options)
        values = read(command, rest, os.environ)
    except HelpWanted as wanted:
        from howdah.cli import pages  # noqa: PLC0415

        print(pages.page(command, called, everything=wanted.everything))
        return 0
    except UsageError as error:
        from howdah.text import printable  # noqa: PLC0415

        see = error.see or f"{' '.join(called)} --help"
        print(f"howdah: {printable(str(error))}; see: {see}", file=sys.stderr)
        return 2
    if not values.get("quiet"):
        for note in notes:
            print(f"howdah: note: {note}", file=sys.stderr)
    module, _, function = command.run.rpartition(".")
    function_of = getattr(_module(module), function)
    code = as_typed(command, values, lambda: function_of(**values))
    return code if isinstance(code, int) else 0


def _built_from() -> str:
    """The commit that scripts/wheel.sh put into the package, in parentheses; nothing where none is known."""
    from pathlib import Path  # noqa: PLC0415

    try:
        return f" ({Path(__file__).parent.parent.joinpath('commit').read_text().strip()})"
    except FileNotFoundError:
        return ""


def howdah(name: str = "") -> Command:
    """All commands under one name; where ``name`` is one of them that alone, so that no other is loaded."""
    modules = [_MODULES[name]] if name in _MODULES else _HEADINGS
    return Command(
        "howdah",
        "Move data over long fat networks at the rate that the path allows. The transport is chosen for you.",
        rows={"Options": [Option("--version", "Print the version, and the commit that it was built from.")]},
        commands={_HEADINGS[module]: _module(module).COMMANDS for module in modules},
    )


def _module(name: str) -> "Any":  # noqa: ANN401, each has functions of its own
    # What importlib does, which takes longer to load than all that is loaded before ssh starts here.
    return __import__(f"howdah.cli.{name}", fromlist=[name])


def _group(command: Command, called: list[str], words: list[str]) -> int:
    """What a group does without one of its commands. Raises UsageError or HelpWanted."""
    name = Argument("COMMAND", "", key="command", required=False, many=True)
    rows = {**command.rows, "": [name]}
    for given in read(Command("", "", rows=rows, runs_another=True), words, {})["command"] or ():
        raise UsageError(f"No such command '{given}'{nearest(given, command.named())}")
    from howdah.cli import pages  # noqa: PLC0415

    print(pages.page(command, called), file=sys.stderr)
    return 2
