"""What a command is, as a table of its arguments and options, and how a line is read by it.

Help, manual pages and completion are made of the same tables. Nothing is imported here but what the package
has loaded anyway, since ``howdah cp`` reads its line before it starts ssh. The reading is our own and not
argparse's for two reasons: that takes 3.6 ms to load, which ssh would wait for, and where options may stand
between operands, as for ``cp``, that of Python 3.11 loses a leading ``--``, so that names which begin with a
dash become options.
"""

from howdah._native import HowdahError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any, TypeVar

    from howdah.bounds import Bounds

    T = TypeVar("T")


class UsageError(Exception):
    """A command line that cannot be read; its text says what is wrong with it."""

    def __init__(self, text: str, *, see: str | None = None) -> None:
        super().__init__(text)
        self.see = see
        """The command that prints what to write; null: the help of the command that was called."""


class WrongLine(HowdahError):
    """A line that is wrong by itself, whatever this host is and whatever its files hold; it ends with 2."""

    exit_code = 2


class HelpWanted(Exception):
    """The line asks for the command's help."""

    def __init__(self, *, everything: bool) -> None:
        super().__init__()
        self.everything = everything
        """Whether the options that few need are wanted too."""


def path(text: str) -> "Path":
    """The name of a file or a folder, as typed."""
    from pathlib import Path  # noqa: PLC0415

    return Path(text)


def duration(text: str) -> float:
    """The seconds of a time with its unit. Raises HowdahError."""
    from howdah._native import parse_duration  # noqa: PLC0415

    return parse_duration(text) / 1e9


def rate(text: str) -> int:
    """The bits per second of a rate with its unit. Raises HowdahError."""
    from howdah._native import parse_rate  # noqa: PLC0415

    return parse_rate(text)


def size(text: str) -> int:
    """The bytes of a size with its unit. Raises HowdahError."""
    from howdah._native import parse_bytes  # noqa: PLC0415

    return parse_bytes(text)


def share(text: str) -> float:
    """The part of one that a share says. Raises HowdahError."""
    from howdah._native import parse_fraction  # noqa: PLC0415

    return parse_fraction(text)


def port_range(text: str) -> tuple[int, int]:
    """The first and the last port. Raises HowdahError."""
    from howdah.bounds import ports  # noqa: PLC0415

    try:
        return ports(text)
    except ValueError:
        raise HowdahError(f"{text} is not a range of ports; give for example 50000-50100") from None


class Read:
    """A value with the text that it was read from, of which the library's refusals are to speak."""

    def __init__(self, text: str, value: "Any") -> None:  # noqa: ANN401
        self.text, self.value = text, value


def with_text(kind: "Callable[[str], Any]") -> "Callable[[str], Read]":
    """The kind of a value whose range the library checks, as a ``Read``."""
    return lambda text: Read(text, kind(text))


class Row:
    """What an argument and an option have in common."""

    def __init__(
        self,
        metavar: str | None,
        text: str,
        *,
        key: str,
        label: str,
        kind: "Callable[[str], Any]" = str,
        many: bool = False,
        required: bool = False,
        default: object = None,
        choices: "Sequence[str]" = (),
        within: "Bounds | None" = None,
        environment: str | None = None,
        rare: bool = False,
        sets: "Sequence[str]" = (),
    ) -> None:
        self.metavar = metavar
        """What stands for the value in help; null for an option that takes none."""
        self.text = text
        """What it does: whole sentences, or nouns."""
        self.key = key
        """What the command's function calls it."""
        self.label = f"'{label}'"
        """What messages call it."""
        self.kind = kind
        """What makes the value of its text, as ``int`` or ``duration``; raises ValueError or HowdahError."""
        self.many = many
        """Whether there may be several values, which come as a list. Options of one key share it."""
        self.required = required
        self.default = default
        self.choices = choices
        """The only values there are; empty: any."""
        self.within = within
        """What the number may be; null: whatever its kind reads."""
        self.environment = environment
        """The variable that holds the value of one that is not given."""
        self.rare = rare
        """Whether few need it: then ``--help`` leaves it to ``--help-all``."""
        self.sets = sets or (key,)
        """What the library calls it: the arguments of which its messages speak."""

    def value(self, text: str) -> "Any":  # noqa: ANN401, whatever its kind makes
        """Raises UsageError."""
        if self.choices and text not in self.choices:
            raise UsageError(self._invalid(f"{text} is not one of {', '.join(self.choices)}"))
        try:
            made = self.kind(text)
        except ValueError:
            number = "whole number" if self.kind is int else "number"
            raise UsageError(self._invalid(f"{text} is not a {number}")) from None
        except HowdahError as error:
            raise UsageError(self._invalid(str(error))) from None
        if self.within is not None and (why := self.within.refused(made)) is not None:
            raise UsageError(self._invalid(f"{text} is {why}"))
        return made

    def left_out(self) -> "Any":  # noqa: ANN401
        """Its value where the line has none."""
        return self.kind(self.default) if isinstance(self.default, str) else self.default

    def _invalid(self, why: str) -> str:
        return f"Invalid value for {self.label}: {why}"


class Argument(Row):
    """What is known by its place on the line. Of many, all that is left goes to it."""

    def __init__(self, metavar: str, text: str, *, key: str, required: bool = True, **more: "Any") -> None:  # noqa: ANN401
        super().__init__(metavar, text, key=key, label=metavar, required=required, **more)


class Option(Row):
    """What is known by its name: ``-o, --output FILE``, or ``--json`` where there is no value."""

    def __init__(self, names: str, text: str, *, key: str | None = None, **more: "Any") -> None:  # noqa: ANN401
        words = names.split()
        self.flags = tuple(word.rstrip(",") for word in words if word.startswith("-"))
        metavar = " ".join(words[len(self.flags) :]) or None
        if metavar is None and not more.get("many"):
            more["default"] = False
        long = self.flags[-1]
        super().__init__(metavar, text, key=key or long.lstrip("-").replace("-", "_"), label=long, **more)


HELP = Option("-h, --help", "Show this page.")
HELP_ALL = Option("--help-all", "Show this page with all options and examples.")
QUIET = Option("-q, --quiet", "Print no progress and no summary.")
PORTS = Option(
    "--ports A-B",
    "The ports for data at the far end, as 50000-50100. Default: config.toml's, or any.",
    kind=port_range,
)
FAR_HOWDAH = Option("--far-howdah PATH", "The path of howdah on the far host, if it is not in PATH there.")


def as_json(text: str = "Print the result as JSON.") -> Option:
    """The option of every command that prints a result."""
    return Option("--json", text)


class Command:
    """A command, or a group of commands, or both."""

    def __init__(
        self,
        name: str,
        summary: str,
        *,
        run: str | None = None,
        rows: "Mapping[str, Sequence[Row]] | None" = None,
        text: str = "",
        examples: str = "",
        notes: str = "",
        commands: "Mapping[str, Sequence[Command]] | None" = None,
        runs_another: bool = False,
        spelt: bool = False,
    ) -> None:
        self.name = name
        self.summary = summary
        """What it does, in one sentence."""
        self.run = run
        """``module.function`` of ``howdah.cli``, loaded when it is called; null for a group alone."""
        self.rows = rows or {}
        """The rows of each topic, which is a heading in help."""
        self.text = text
        """What the summary leaves out, in paragraphs."""
        self.examples = examples
        """A command line each line; behind two spaces, what it does."""
        self.notes = notes
        """Paragraphs below the examples. Lines that begin with a space are shown as they are."""
        self.commands = commands or {}
        """The commands of each topic, as the rows."""
        self.runs_another = runs_another
        """Whether what follows its first operand belongs to another program."""
        self.spelt = spelt
        """Whether it takes options as rsync and scp spell them (``howdah.cli.spelt``)."""

    def named(self) -> "dict[str, Command]":
        """Its commands by name."""
        return {each.name: each for commands in self.commands.values() for each in commands}

    def options(self) -> "Iterator[Option]":
        """All of them, with those that show help."""
        rare = False
        for rows in self.rows.values():
            for row in rows:
                rare = rare or row.rare
                if isinstance(row, Option):
                    yield row
        yield HELP
        if rare:
            yield HELP_ALL

    def arguments(self) -> "list[Argument]":
        """The arguments, in their places."""
        return [row for rows in self.rows.values() for row in rows if isinstance(row, Argument)]


def read(command: Command, words: "Sequence[str]", environment: "Mapping[str, str]") -> "dict[str, Any]":
    """The values of a line by the keys of its rows. Raises UsageError or HelpWanted."""
    options = {flag: option for option in command.options() for flag in option.flags}
    found: dict[str, Any] = {}
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += rest
        elif word.startswith("--"):
            flag, equals, value = word.partition("=")
            option = _known(flag, options)
            if equals and option.metavar is None:
                raise UsageError(f"Option '{flag}' does not take a value")
            _take(option, value if equals else None, rest, found)
        elif word.startswith("-") and word != "-":
            letters = word[1:]
            while letters:
                option, letters = _known(f"-{letters[0]}", options), letters[1:]
                value = letters if option.metavar is not None else ""
                _take(option, value or None, rest, found)
                letters = letters[len(value) :]
        else:
            operands.append(word)
            if command.runs_another:
                operands += rest
    for argument in command.arguments():
        _place(argument, operands, found)
    if operands:
        raise UsageError(f"Got unexpected extra argument{'s' * (len(operands) > 1)} ({' '.join(operands)})")
    for option in options.values():
        if option.key not in found and option not in {HELP, HELP_ALL}:
            found[option.key] = _left_out(option, environment)
    return found


def as_typed(command: Command, values: "Mapping[str, Any]", run: "Callable[[], T]") -> "T":
    """What ``run`` returns. What the library refuses of the values of a line is named as the line has it."""
    try:
        return run()
    except HowdahError as error:
        # Loaded only here: a copy reads its line before it loads what it does not need for that.
        from howdah.arguments import BadArgument, NotHere  # noqa: PLC0415

        if not isinstance(error, BadArgument):
            raise
        text = error.spelt(lambda name, given: spell(command, values, name, given))
        # Scripts know 1 of a copy that was refused.
        raise (HowdahError if command.spelt or isinstance(error, NotHere) else WrongLine)(text) from None


def spell(command: Command, values: "Mapping[str, Any]", name: str, given: "Mapping[str, object]") -> str:
    """An argument of the library as the option or the operand that sets it, with what was typed."""
    for rows in command.rows.values():
        for row in rows:
            if name in row.sets:
                called = row.flags[-1] if isinstance(row, Option) else str(row.metavar)
                if name not in given or row.metavar is None:
                    return called
                typed = values.get(row.key)
                typed = typed.text if isinstance(typed, Read) else typed
                value = typed if isinstance(typed, str) else given[name]
                unit = "s" if row.kind is duration else ""
                return f"{called} {value:g}{unit}" if isinstance(value, float) else f"{called} {value}"
    return name


def _known(flag: str, options: "Mapping[str, Option]") -> Option:
    if flag in HELP_ALL.flags and flag not in options:
        return HELP
    if flag not in options:
        raise UsageError(f"No such option '{flag}'{nearest(flag, options)}")
    return options[flag]


def nearest(name: str, known: "Mapping[str, object]") -> str:
    """What was perhaps meant, to go on a message that ``name`` is not known."""
    from difflib import get_close_matches  # noqa: PLC0415

    plain = {each.lstrip("-"): each for each in known}
    meant = get_close_matches(name.lstrip("-"), plain, n=1, cutoff=0.5)
    return f", nearest is '{plain[meant[0]]}'" if meant else ""


def _take(option: Option, text: str | None, rest: "Iterator[str]", found: "dict[str, Any]") -> None:
    if option in {HELP, HELP_ALL}:
        raise HelpWanted(everything=option is HELP_ALL)
    if option.metavar is None and not option.many:
        found[option.key] = True
        return
    text = "" if option.metavar is None else next(rest, None) if text is None else text
    if text is None:
        raise UsageError(f"Option {option.label} requires an argument")
    value = option.value(text)
    found[option.key] = [*found.get(option.key, []), value] if option.many else value


def _place(argument: Argument, operands: list[str], found: "dict[str, Any]") -> None:
    """Takes its values from the front of the operands."""
    if not operands:
        if argument.required:
            raise UsageError(f"Missing argument {argument.label}")
        found[argument.key] = argument.left_out()
    elif argument.many:
        found[argument.key] = list(map(argument.value, operands))
        operands.clear()
    else:
        found[argument.key] = argument.value(operands.pop(0))


def _left_out(option: Option, environment: "Mapping[str, str]") -> "Any":  # noqa: ANN401
    """Its value where the line has none. Raises UsageError."""
    text = environment.get(option.environment) if option.environment else None
    if text:
        return option.value(text)
    if option.required:
        variable = f" (or set {option.environment})" if option.environment else ""
        raise UsageError(f"Missing option {option.label}{variable}")
    return option.left_out()
