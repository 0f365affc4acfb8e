"""What is read about a command, all made of its table: the page of ``--help``, and its manual page."""

import os
import sys
import textwrap
from collections.abc import Iterator, Sequence

from howdah import __version__
from howdah.cli import app, spelt
from howdah.cli.table import HELP, HELP_ALL, Argument, Command, Option, Row, nearest
from howdah.wrong import WrongLine

COMMANDS = (
    Command(
        "help",
        "Print the help of a command or a topic.",
        run="pages.show",
        rows={
            "Arguments": [
                Argument("WORD", "A command, as lab run, or a topic.", key="words", many=True, required=False)
            ],
            "Output": [Option("--man", "Print the command's manual page, in roff.")],
        },
        examples="""\
howdah help lab run              the same as howdah lab run --help
howdah help units                how to write rates, sizes and times
howdah help --man cp | man -l -  the manual page""",
        notes="Topics are units, environment, exit-codes and rsync.",
    ),
    Command(
        "completion",
        "Print a script that lets a shell complete howdah's commands and options.",
        run="completion.show",
        rows={"Arguments": [Argument("SHELL", "", key="shell", choices=("bash", "zsh", "fish"))]},
        examples="""\
howdah completion bash > ~/.local/share/bash-completion/completions/howdah
howdah completion fish > ~/.config/fish/completions/howdah.fish
source <(howdah completion zsh)  in ~/.zshrc, after compinit""",
    ),
)

TOPICS = {
    "units": """\
Rates are bits per second with a unit, as 400Mbit or 10Gbit: 1 Gbit is 10⁹ bits. Sizes are bytes, as 256MB
(10⁶ bytes each) or 10GiB (2³⁰). Times are 50ms, 10s, 20min, 2h, 7d or 1w. Shares are 5% or 0.05.

Streams are TCP connections. The RTT is the round trip time. The base RTT is the RTT without a queue.""",
    "environment": """\
HOWDAH_CONTROL is the address of the controller of guaranteed paths, HOWDAH_CONTROL_TOKEN its token, and
HOWDAH_NATS the servers of its bus.

HOWDAH_SSH is the command to run in place of ssh, like howdah cp -e. The archive is in the folder howdah below
XDG_DATA_HOME, by default ~/.local/share/howdah. HOWDAH_DEBUG=1 shows where in howdah a bug happened.""",
    "exit-codes": """\
0: done. 1: it failed, and one line on standard error says why: it is due to this host, its files or another
host. 2: the command line itself is wrong: a command, an option or a word is unknown or missing, or a value
cannot be read or is out of its range; for such a value howdah cp ends with 1. 130, 143 and 129:
stopped by Ctrl-C, TERM or HUP. howdah lab run and exec end with the code of their command.""",
    "rsync": """\
howdah cp takes the options of rsync, and those of scp that rsync does not use. It refuses an option whose
effect would be missing. A slash after a folder changes nothing, as in cp: rsync's run42/ is run42/. here.""",
}
"""What is true of every command."""

SPELT = {
    spelt.SAME: "The same",
    spelt.ANYWAY: "Accepted, and done anyway",
    spelt.NOTED: "Accepted, with a note",
    spelt.REFUSED: "Refused",
}
"""The headings of options of rsync and scp, by what they mean here."""

_COLUMN = 26
"""Where texts begin, unless all labels are shorter."""


def show(words: list[str] | None, *, man: bool) -> None:
    """Prints the page of a command or a topic. Raises WrongLine for what is neither."""
    command, called = app.howdah(), ["howdah"]
    for word in words or []:
        known = command.named()
        if word not in known:
            if len(called) == 1 and word in TOPICS:
                print(_topic(word))
                return
            meant = nearest(word, {**known, **(TOPICS if len(called) == 1 else {})})
            raise WrongLine(f"there is no help on {' '.join([*called[1:], word])}{meant}; see: howdah help")
        command = known[word]
        called.append(word)
    print(manual(command, called) if man else page(command, called))


def walk(command: Command, called: Sequence[str] = ("howdah",)) -> Iterator[tuple[list[str], Command]]:
    """A command and all below it, each with the words that call it."""
    yield [*called], command
    for each in command.named().values():
        yield from walk(each, [*called, each.name])


def _topic(word: str) -> str:
    width = _width()
    parts = [_wrapped(TOPICS[word], width)]
    if word == "rsync":
        for means, heading in SPELT.items():
            rows = [row for row in spelt.ROWS if row.means == means]
            shown = (_beside([row.names], row.text, _COLUMN, width) for row in rows)
            parts.append("\n".join([f"{heading}:", *shown]))
    return "\n\n".join(parts)


def page(command: Command, called: Sequence[str], *, everything: bool = False) -> str:
    """What ``--help`` prints, as wide as the terminal; ``everything``: what ``--help-all`` does."""
    width = _width()
    topics = [
        (topic, [(each.name, each.summary) for each in commands])
        for topic, commands in command.commands.items()
    ]
    rows = [(topic, [row for row in rows if everything or not row.rare]) for topic, rows in _topics(command)]
    topics += [(topic, list(map(_entry, shown))) for topic, shown in rows if shown]
    column = min(_COLUMN, max(len(label) for _, entries in topics for label, _ in entries) + 4)
    parts = [
        textwrap.fill(f"Usage: {_usage(command, called)}", width, subsequent_indent="         "),
        _wrapped(f"{command.summary}\n\n{command.text}".rstrip(), width),
    ]
    for topic, entries in topics:
        parts.append(
            "\n".join([f"{topic}:", *(_beside([label], text, column, width) for label, text in entries)])
        )
    if command.notes:
        parts.append(_wrapped(command.notes, width))
    if command.examples:
        rare = () if everything else [flag for row in command.options() if row.rare for flag in row.flags]
        examples = [each for each in _examples(command) if not set(each[0].split()).intersection(rare)]
        column = (
            max((len(line) for line, what in examples if what and len(line) <= width // 2), default=4) + 4
        )
        shown = [_beside(_broken(line, width), what, column, width) for line, what in examples]
        parts.append("\n".join(["Examples:", *shown]))
    return "\n\n".join(parts)


def manual(command: Command, called: Sequence[str]) -> str:
    """The manual page, in roff with the macros of man."""
    name = "-".join(called)
    lines = [
        f'.TH {_roff(name.upper())} 1 "" "howdah {__version__}" "Howdah"',
        *(".SH NAME", f"{_roff(name)} \\- {_roff(command.summary)}"),
        *(".SH SYNOPSIS", _roff(_usage(command, called))),
        *(".SH DESCRIPTION", *_paragraphs(f"{command.summary}\n\n{command.text}".rstrip())),
    ]
    for topic, commands in command.commands.items():
        lines.append(f".SH {_roff(topic.upper())}")
        for each in commands:
            lines += [".TP", _bold(each.name), _roff(each.summary)]
    lines.append(".SH OPTIONS")
    for topic, rows in _topics(command):
        lines.append(f".SS {_roff(topic)}")
        for row in rows:
            label, text = _entry(row)
            lines += [".TP", _bold(label), _roff(text)]
    if command.examples:
        lines.append(".SH EXAMPLES")
        for number, (line, what) in enumerate(_examples(command)):
            lines += [".TP", _bold(line), _roff(what)] if what else [*[".PP"] * (number > 0), _bold(line)]
    lines += [".SH NOTES", *_paragraphs(command.notes)] if command.notes else []
    for heading, topic in (("EXIT STATUS", "exit-codes"), ("ENVIRONMENT", "environment")):
        lines += [f".SH {heading}", *_paragraphs(TOPICS[topic])]
    return "\n".join(lines)


def _topics(command: Command) -> list[tuple[str, list[Row]]]:
    """The rows under their headings, with those that show help under the last."""
    found = [(topic, list(rows)) for topic, rows in command.rows.items()] or [("Options", [])]
    found[-1][1].extend(option for option in command.options() if option in {HELP, HELP_ALL})
    return found


def _usage(command: Command, called: Sequence[str]) -> str:
    words = []
    for argument in command.arguments():
        word = (
            f"{argument.metavar}..."
            if argument.many and "..." not in str(argument.metavar)
            else argument.metavar
        )
        words.append(word if argument.required else f"[{word}]")
    words += ["COMMAND ..."] if command.run is None else []
    return " ".join([*called, "[OPTIONS]", *map(str, words)])


def _entry(row: Row) -> tuple[str, str]:
    """A row's name, and all that is to be said about it."""
    flags = ", ".join(row.flags) if isinstance(row, Option) else ""
    said = [row.text] if row.text else []
    said += [f"One of {', '.join(row.choices)}."] if row.choices else []
    said += ["Can be given several times."] if row.many and flags and row.metavar else []
    said += [f"At least {row.least}."] if row.least is not None else []
    said += [f"At most {row.most}."] if row.most is not None else []
    said += [f"Default: the value of {row.environment}."] if row.environment else []
    said += ["Required."] if row.required and flags else []
    said += [f"Default: {row.default}."] if row.metavar and row.default is not None else []
    return " ".join(filter(None, (flags, row.metavar))), " ".join(said)


def _width() -> int:
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return 80


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Paragraphs; true before those whose lines stay as they are."""
    for block in text.split("\n\n"):
        yield block.startswith(" "), block


def _wrapped(text: str, width: int) -> str:
    return "\n\n".join(block if fixed else textwrap.fill(block, width) for fixed, block in _blocks(text))


def _beside(lines: list[str], text: str, column: int, width: int) -> str:
    """Lines with a text that begins at a column, beside the last where that ends before it."""
    *first, last = [f"  {line}" for line in lines]
    if text and len(last) + 2 > column:
        first, last = [*first, last], ""
    if text:
        start = last.ljust(column)
        last = textwrap.fill(text, width, initial_indent=start, subsequent_indent=" " * column)
    return "\n".join([*first, last])


def _examples(command: Command) -> list[tuple[str, str]]:
    """Command lines, each with what it does."""
    parts = [line.partition("  ") for line in command.examples.splitlines()]
    return [(line, what.strip()) for line, _, what in parts]


def _broken(line: str, width: int) -> list[str]:
    """A command in lines that a shell takes for one."""
    parts = textwrap.wrap(
        line, width - 6, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


def _paragraphs(text: str) -> Iterator[str]:
    """The lines of a section, whose first paragraph its heading begins."""
    for number, (fixed, block) in enumerate(_blocks(text)):
        yield from [".PP"] * (number > 0)
        if fixed:
            yield from (".EX", *map(_roff, block.splitlines()), ".EE")
        else:
            yield _roff(" ".join(block.split()))


def _bold(text: str) -> str:
    return f"\\fB{_roff(text)}\\fR"


def _roff(text: str) -> str:
    """Plain text that no formatter takes for a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in plain)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain
