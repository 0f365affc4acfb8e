"""Scripts that make shells complete commands and options, made of the tables of all commands."""

import shlex

from howdah.cli import app
from howdah.cli.pages import walk
from howdah.cli.table import Command

_BASH = """\
# Completion of howdah for {shell}. Written by: howdah completion {shell}
{start}_howdah() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" called=howdah at=1 offered= options=
    while [ $at -lt $COMP_CWORD ]; do
        case "$called ${{COMP_WORDS[at]}}" in
            {commands}) called="$called ${{COMP_WORDS[at]}}" ;;
        esac
        at=$((at + 1))
    done
    case "$called ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    if [ -z "$offered" ]; then
        case "$called" in
{words}
        esac
        case "$current" in -*) offered="$options" ;; esac
    fi
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -o default -F _howdah howdah
"""


def show(shell: str) -> None:
    """Prints the script for a shell, which is bash, zsh or fish."""
    print(fish() if shell == "fish" else bash(shell), end="")


def bash(shell: str = "bash") -> str:
    """The completion for bash, and for zsh by its emulation of bash's. All else is a file's name."""
    commands, words, values = [], [], []
    for called, command in walk(app.howdah()):
        name = shlex.quote(" ".join(called))
        if len(called) > 1:
            commands.append(name)
        options = " ".join(flag for option in command.options() for flag in option.flags)
        offered = [*command.named(), *(each for row in command.arguments() for each in row.choices)]
        words.append(f"            {name}) offered={shlex.quote(' '.join(offered))} options='{options}' ;;")
        for option in command.options():
            if option.choices:
                keys = "|".join(shlex.quote(" ".join([*called, flag])) for flag in option.flags)
                values.append(f"        {keys}) offered={shlex.quote(' '.join(option.choices))} ;;")
    return _BASH.format(
        shell=shell,
        start="autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "",
        commands="|".join(commands),
        words="\n".join(words),
        values="\n".join(values),
    )


def fish() -> str:
    """The completion for fish, with what each command and option does."""
    lines = ["# Completion of howdah for fish. Written by: howdah completion fish"]
    for called, command in walk(app.howdah()):
        lines += _fish(called[1:], command)
    return "\n".join(lines) + "\n"


def _fish(called: list[str], command: Command) -> list[str]:
    seen = [f"__fish_seen_subcommand_from {word}" for word in called]
    known = " ".join(command.named())
    alone = [f"not __fish_seen_subcommand_from {known}"] if known else []
    lines = []

    def offer(condition: list[str], *rest: str) -> None:
        when = f" -n {shlex.quote('; and '.join(condition))}" if condition else ""
        lines.append(" ".join((f"complete -c howdah{when}", *rest)))

    for each in command.named().values():
        offer([*seen, *alone], "-f", "-a", each.name, "-d", shlex.quote(each.summary))
    for option in command.options():
        flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
        takes = ["-r"] if option.metavar else []
        takes += ["-f", "-a", shlex.quote(" ".join(option.choices))] if option.choices else []
        offer([*seen, *alone], *flags, *takes, "-d", shlex.quote(option.text))
    for argument in command.arguments():
        if argument.choices:
            offer(seen, "-f", "-a", shlex.quote(" ".join(argument.choices)))
    return lines
