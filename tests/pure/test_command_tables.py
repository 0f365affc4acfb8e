"""The tables of all commands: how a line is read by them, and the pages and completions made of them."""

import importlib
import inspect
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from requirement import missing
from samples import howdah

from howdah._native import HowdahError
from howdah.bounds import Bounds, times
from howdah.cli import app, completion, pages
from howdah.cli.results import KINDS
from howdah.cli.table import (
    HELP,
    HELP_ALL,
    Argument,
    Command,
    HelpWanted,
    Option,
    UsageError,
    duration,
    path,
    rate,
    read,
)
from howdah.control.http.address import DEFAULT_ADDRESS
from howdah.control.policy import terms
from howdah.values.plan import PathKind
from howdah.values.record import Record

ALL = [(tuple(called), command) for called, command in pages.walk(app.howdah())]
EACH = pytest.mark.parametrize(("called", "command"), ALL, ids=[" ".join(called) for called, _ in ALL])


def table(*rows: Argument | Option, **more: bool) -> Command:
    return Command("try", "Try it.", run="try.it", rows={"Options": rows}, **more)


COPY = table(
    Argument("SRC... DST", "", key="names", many=True),
    Option("--streams N", ""),
    Option("-n, --most N", "", kind=int, within=Bounds(1), default=20),
    Option("-q, --quiet", ""),
    Option("-v", "", key="verbose"),
    Option("--set KEY", "", many=True),
    Option("--role ROLE", "", choices=("read", "operate"), default="read"),
    Option("--bus URL", "", environment="BUS"),
    Option("--dry-run", ""),
)
PLAIN = dict.fromkeys(["streams", "set", "bus"]) | {"most": 20, "role": "read"}
PLAIN |= dict.fromkeys(["quiet", "verbose", "dry_run"], False)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a far:d", {"names": ["a", "far:d"]}),
        ("--streams x:y a -q far:d", {"names": ["a", "far:d"], "streams": "x:y", "quiet": True}),
        ("--streams=2 a --dry-run far:d", {"names": ["a", "far:d"], "streams": "2", "dry_run": True}),
        ("--streams= a", {"names": ["a"], "streams": ""}),
        ("--streams --quiet a", {"names": ["a"], "streams": "--quiet"}),
        ("--streams 1 --streams 2 a", {"names": ["a"], "streams": "2"}),
        ("-- -a far:d", {"names": ["-a", "far:d"]}),
        ("-q -- a --quiet -- b", {"names": ["a", "--quiet", "--", "b"], "quiet": True}),
        ("a - b", {"names": ["a", "-", "b"]}),
        ("-n 3 a", {"names": ["a"], "most": 3}),
        ("-qvn3 a", {"names": ["a"], "most": 3, "quiet": True, "verbose": True}),
        ("--set a=1 x --set=b", {"names": ["x"], "set": ["a=1", "b"]}),
        ("--role operate a", {"names": ["a"], "role": "operate"}),
    ],
)
def test_a_line_is_read(line: str, found: dict[str, object]) -> None:
    assert read(COPY, line.split(" "), {}) == PLAIN | found


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "Missing argument 'SRC... DST'"),
        ("--stream 2 a", "No such option '--stream', nearest is '--streams'"),
        ("--xyz a", "No such option '--xyz'"),
        ("-qx a", "No such option '-x'"),
        ("a --streams", "Option '--streams' requires an argument"),
        ("a -n", "Option '--most' requires an argument"),
        ("--quiet=1 a", "Option '--quiet' does not take a value"),
        ("-n many a", "Invalid value for '--most': many is not a whole number"),
        ("-n 0 a", "Invalid value for '--most': 0 is below 1"),
        ("--role x a", "Invalid value for '--role': x is not one of read, operate"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_in_words(line: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(COPY, line.split(), {})
    assert str(refused.value) == says


@pytest.mark.parametrize("line", ["-h", "--help", "a --help", "-qh a", "--streams 2 -h"])
def test_help_is_asked_for(line: str) -> None:
    with pytest.raises(HelpWanted):
        read(COPY, line.split(), {})


def test_what_stands_behind_two_dashes_or_is_a_value_asks_for_no_help() -> None:
    assert read(COPY, ["--", "-h"], {})["names"] == ["-h"]
    assert read(COPY, ["--streams", "-h", "a"], {})["streams"] == "-h"


NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)


@given(st.lists(NAMES, min_size=1), st.booleans())
def test_any_names_are_taken_as_they_are_behind_two_dashes(names: list[str], quiet: bool) -> None:
    words = [*(["-q"] if quiet else []), "--", *names]
    assert read(COPY, words, {}) == PLAIN | {"names": names, "quiet": quiet}


@given(st.lists(NAMES.filter(lambda name: not name.startswith("-")), min_size=1), st.randoms())
def test_options_may_stand_between_names(names: list[str], random: Random) -> None:
    words = [*names]
    words.insert(random.randint(0, len(words)), "--dry-run")
    words.insert(random.randint(0, len(words)), "--streams=--")
    assert read(COPY, words, {}) == PLAIN | {"names": names, "dry_run": True, "streams": "--"}


def test_what_another_program_is_given_is_not_looked_at() -> None:
    lab = table(
        Argument("NAME", "", key="name"),
        Argument("COMMAND", "", key="command", many=True),
        Option("--json", ""),
        runs_another=True,
    )
    words = ["--json", "wan", "ls", "--json", "--", "-h"]
    assert read(lab, words, {}) == {"name": "wan", "command": ["ls", "--json", "--", "-h"], "json": True}


def test_places_are_filled_in_order() -> None:
    two = table(
        Argument("A", "", key="a", kind=path), Argument("B", "", key="b", required=False, default="none")
    )
    assert read(two, ["x"], {}) == {"a": Path("x"), "b": "none"}
    assert read(two, ["x", "y"], {}) == {"a": Path("x"), "b": "y"}
    with pytest.raises(UsageError, match=r"Got unexpected extra arguments \(z w\)"):
        read(two, ["x", "y", "z", "w"], {})


def test_a_variable_stands_in_for_an_option() -> None:
    assert read(COPY, ["a"], {"BUS": "nats://x"})["bus"] == "nats://x"
    assert read(COPY, ["a", "--bus", "nats://y"], {"BUS": "nats://x"})["bus"] == "nats://y"
    assert read(COPY, ["a"], {"BUS": ""})["bus"] is None
    needed = table(Option("--bus URL", "", environment="BUS", required=True))
    with pytest.raises(UsageError, match=r"^Missing option '--bus' \(or set BUS\)$"):
        read(needed, [], {})


@EACH
def test_a_table_is_whole_and_its_function_takes_what_is_read(
    called: tuple[str, ...], command: Command
) -> None:
    rows = [row for rows in command.rows.values() for row in rows]
    assert command.summary.endswith(".")
    single = [row.key for row in rows if not row.many]
    assert len(set(single)) == len(single)
    assert not {row.key for row in rows if row.many} & set(single)
    flags = [flag for option in command.options() for flag in option.flags]
    assert len(set(flags)) == len(flags)
    assert all(row.text == "" or row.text.endswith((".", ":")) for row in rows), (
        "a sentence, or nouns, and a stop"
    )
    assert all(row.text or row.choices for row in rows)
    assert [argument.many for argument in command.arguments()][:-1].count(True) == 0
    if command.run is None:
        assert command.commands
        return
    module, _, name = command.run.rpartition(".")
    function = getattr(importlib.import_module(f"howdah.cli.{module}"), name)
    parameters = inspect.signature(function).parameters.values()
    named = {each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD}
    keys = {row.key for row in rows}
    assert named <= keys
    assert keys == named or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def test_a_value_that_a_kind_refuses_is_a_mistake_of_the_line() -> None:
    line = table(
        Option("--for TIME", "", kind=duration, within=times("1 s", "1 h"), default="2s", key="lasting"),
        Option("--rate RATE", "", kind=rate),
    )
    assert read(line, [], {}) == {"lasting": 2.0, "rate": None}
    assert read(line, ["--for", "1min", "--rate=1Gbit"], {}) == {"lasting": 60.0, "rate": 10**9}
    for words, says in (
        (["--for", "0.9s"], "Invalid value for '--for': 0.9s is not from 1 s to 1 h"),
        (["--for=61min"], "Invalid value for '--for': 61min is not from 1 s to 1 h"),
        (["--rate", "10"], "Invalid value for '--rate': rate \"10\" has no unit"),
    ):
        with pytest.raises(UsageError) as refused:
            read(line, words, {})
        assert str(refused.value).startswith(says)


def test_choices_and_ranges_are_those_of_what_takes_them() -> None:
    rows = {row.key: row for rows in dict(ALL)["howdah", "control", "set"].rows.values() for row in rows}
    schema = msgspec.json.schema(terms.TermsText)["$defs"]["TermsText"]["properties"]
    for key in ("weight", "priority"):
        taken, within = schema[key]["anyOf"][0], rows[key].within
        assert within is not None
        assert (taken["minimum"], taken["maximum"]) == (within.least, within.most)
    assert get_args(get_type_hints(Record)["kind"]) == KINDS


def test_rows_beyond_the_named_ones_are_those_of_what_takes_them() -> None:
    from howdah.cli import cc_command, control_command, copy_command, results_command, shared_command
    from howdah.lab import labfile
    from howdah.library import congestion, recognition, report
    from howdah.library.copy import copy_request
    from howdah.library.profile import profile as study
    from howdah.library.select import select

    def keys(*called: str) -> set[str]:
        command = dict(ALL)[("howdah", *called)]
        return {row.key for rows in command.rows.values() for row in rows}

    def named(function: object) -> set[str]:
        assert callable(function)
        return {
            name
            for name, each in inspect.signature(function).parameters.items()
            if each.kind.name != "VAR_KEYWORD"
        }

    lab = set(labfile.LabOptions.__struct_fields__)
    for name in ("run", "up"):
        function = getattr(importlib.import_module("howdah.cli.lab_command"), name)
        assert keys("lab", name) - named(function) == lab
    own = named(copy_command.copy) | named(copy_command.request)
    assert own <= keys("cp")
    others = (row for rows in dict(ALL)["howdah", "cp"].rows.values() for row in rows)
    assert {tuple(row.sets) for row in others if row.key not in own | {"rsh"}} <= {
        (name,) for name in named(copy_request)
    }
    for name, function in (("serve", control_command.serve_policy), ("agent", control_command.agent)):
        assert keys("control", name) - named(function) == named(control_command._access)
    assert keys("control", "set") - named(control_command.set_terms) == set(terms.TERMS)
    for name, function, own, beside in (
        (("profile",), study, results_command.profile, {"intervals"}),
        (("profile", "plot"), report.plot, results_command.plot, {"figure", "file"}),
        (("select",), select, results_command.select, set()),
        (("shared", "train"), recognition.train, shared_command.make, {"model", "on_step"}),
        (("shared", "compare"), recognition.compare, shared_command.compare, {"on_step"}),
        (("cc", "attach"), congestion.attach, cc_command.attach, {"control"}),
        (("cc", "detach"), congestion.detach, cc_command.detach, set()),
    ):
        assert keys(*name) - named(own) == named(function) - {"archive"} - beside


def test_only_the_module_of_the_command_is_loaded() -> None:
    for name in app.howdah().named():
        assert name in app.howdah(name).named()
        assert len(app.howdah(name).commands) == 1


def test_help_says_what_is_known_elsewhere() -> None:
    assert all(kind in " ".join(pages.page(*_page("cp")).split()) for kind in get_args(PathKind))
    assert DEFAULT_ADDRESS in pages.page(*_page("control", "serve"))
    assert DEFAULT_ADDRESS in pages.page(*_page("control", "status"))


def _page(*called: str) -> tuple[Command, list[str]]:
    return dict(ALL)[("howdah", *called)], ["howdah", *called]


@EACH
def test_every_row_is_in_help_in_man_and_in_completion(called: tuple[str, ...], command: Command) -> None:
    page, manual = pages.page(command, called, everything=True), pages.manual(command, called)
    bash, fish = completion.bash(), completion.fish()
    words = re.search(
        rf"^ *'?{' '.join(called)}'?\) offered='?(.*?)'? options='(.*)' ;;$", bash, re.MULTILINE
    )
    assert words, bash
    offered, options = words[1].split(), words[2].split()
    for option in command.options():
        label = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
        assert f"\n  {label}" in page
        assert f"\n.TP\n{pages._bold(label)}\n" in manual
        assert set(option.flags) <= set(options)
        long = option.flags[-1]
        shown = f" -l {long[2:]} " if long.startswith("--") else f" -s {long[1:]} "
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in called[1:])
        assert any(seen in line and shown in line for line in fish.splitlines())
    for argument in command.arguments():
        assert f"\n  {argument.metavar}" in page
        assert f"\n{pages._bold(argument.metavar or '')}\n" in manual
        assert set(argument.choices) <= set(offered)
    for name, below in command.named().items():
        assert f"\n  {name}" in page
        assert name in offered
        assert pages._roff(below.summary) in manual
    for line, _ in pages._examples(command):
        assert line in page.replace(" \\\n    ", " ")
        assert pages._roff(line) in manual


@EACH
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_fits_the_terminal(
    called: tuple[str, ...], command: Command, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_width", lambda: columns)
    fixed = {
        line for block in command.notes.split("\n\n") if block.startswith(" ") for line in block.split("\n")
    }
    words = {word for line in command.examples.splitlines() for word in line.split()}
    for line in pages.page(command, called, everything=True).splitlines():
        assert len(line) <= columns or line in fixed or line.split()[0] in words


MOST = 12
"""Options that a reader of ``--help`` looks through."""


def test_help_shows_what_readers_need_and_help_all_the_rest() -> None:
    copy, called = _page("cp")
    brief, whole = pages.page(copy, called), pages.page(copy, called, everything=True)
    rare = [row for rows in copy.rows.values() for row in rows if row.rare]
    shown = [option for option in copy.options() if f"\n  {', '.join(option.flags)}" in brief]
    assert 8 <= len(shown) <= MOST
    assert HELP_ALL in shown
    assert len(shown) + len(rare) == len([*copy.options()])
    for row in rare:
        assert row.label.strip("'") not in brief.partition("Examples:")[0]
        assert not set(row.flags).intersection(brief.partition("Examples:")[2].split())
        assert row.label.strip("'") in whole
    assert HELP_ALL not in _page("verify")[0].options(), "where all is shown there is no more to show"
    assert howdah("cp", "--help-all").stdout == f"{whole}\n"


@pytest.mark.parametrize("words", [[], ["verify"], ["lab"], ["lab", "run"]])
def test_where_all_is_shown_help_all_shows_the_same_as_help(words: list[str]) -> None:
    whole, shown = howdah(*words, "--help-all"), howdah(*words, "--help")
    assert (whole.returncode, whole.stdout) == (0, shown.stdout)


def test_without_a_terminal_help_is_80_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages._width() == 80
    monkeypatch.setattr(pages.os, "get_terminal_size", lambda _: os.terminal_size((133, 24)))
    monkeypatch.setattr(pages.sys.stdout, "fileno", lambda: 1, raising=False)
    assert pages._width() == 133


@EACH
def test_manual_pages_are_plain(called: tuple[str, ...], command: Command) -> None:
    manual = pages.manual(command, called)
    assert manual.isascii()
    assert not re.search(r"^['.](?!TH|SH|SS|PP|TP|EX|EE)", manual, re.MULTILINE)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("man", ["--warnings", "-l"]),
        ("groff", ["-man", "-ww", "-Tutf8"]),
        ("mandoc", ["-T", "lint", "-W", "warning"]),
    ],
)
def test_readers_of_manual_pages_find_nothing_wrong(program: str, words: list[str], tmp_path: Path) -> None:
    if shutil.which(program) is None:
        missing(f"{program} is not installed")
    for called, command in ALL:
        (tmp_path / f"{'-'.join(called)}.1").write_text(pages.manual(command, called))
    files = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [program, *words, *files],
        capture_output=True,
        text=True,
        env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
        timeout=60,
        check=False,
    )
    # Tables have no date, and neither have pages that are made of them.
    said = "".join(
        line for line in f"{done.stderr}{done.stdout}".splitlines(True) if "missing date" not in line
    )
    if program == "mandoc":
        assert said == ""
        return
    assert (done.returncode, done.stderr) == (0, "")
    assert [command.summary.split()[0] for _, command in ALL if command.summary.split()[0] not in said] == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("c", {"cp", "cc", "continue", "control", "completion"}),
        ("lab ", {"run", "up", "exec", "stats", "list", "down"}),
        ("lab run --sch", {"--schedule"}),
        ("control urgent st", {"start", "stop"}),
        ("cp --pl", {"--plan", "--plaintext"}),
        ("cp lab --pl", {"--plan", "--plaintext"}),
        ("control token me --role ", {"read", "operate"}),
        ("profile --l", {"--late"}),
        ("profile plot --l", set()),
        ("profile plot tr", {"transitions", "traces"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("completion -", {"-h", "--help"}),
        ("cp ", set()),
        ("cp no-such-thing", set()),
    ],
)
def test_bash_completes(words: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "howdah").write_text(howdah("completion", "bash").stdout)
    line = ["howdah", *words.split(" ")]
    script = textwrap.dedent(
        """
        set -eu
        source ./howdah
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        $(complete -p howdah | sed 's/.* -F \\([^ ]*\\).*/\\1/') || true
        [ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
        """
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *line],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert set(done.stdout.split()) == offered


def test_zsh_takes_bashs_by_its_emulation() -> None:
    zsh = howdah("completion", "zsh").stdout
    assert zsh.splitlines()[1] == "autoload -U +X bashcompinit && bashcompinit"
    assert zsh.splitlines()[2:] == completion.bash().splitlines()[1:]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_reads_its_completion(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        missing(f"{shell} is not installed")
    script = tmp_path / "howdah"
    script.write_text(howdah("completion", shell).stdout)
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("lab ", {"run", "up", "exec", "stats", "list", "down"}),
        ("lab run --sch", {"--schedule"}),
        ("control urgent st", {"start", "stop"}),
        ("cp --pl", {"--plan", "--plaintext"}),
        ("control token me --role ", {"read", "operate"}),
        ("completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_fish_completes(line: str, offered: set[str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        missing("fish is not installed")
    (tmp_path / "howdah").write_text(completion.fish())
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./howdah; complete -C 'howdah {line}'"],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    assert {each.split("\t")[0] for each in done.stdout.splitlines()} == offered


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["help", "lab", "run"], "Usage: howdah lab run [OPTIONS] COMMAND...\n"),
        (["help"], "Usage: howdah [OPTIONS] COMMAND ..."),
        (["cp", "--help"], "Usage: howdah cp [OPTIONS] SRC... DST\n"),
        (["help", "help"], "Usage: howdah help [OPTIONS] [WORD...]\n"),
        (["help", "units"], "1 Gbit is 10⁹ bits"),
        (["help", "exit-codes"], "130, 143 and"),
        (["help", "environment"], "HOWDAH_CONTROL_TOKEN"),
        (["help", "--man", "archive", "ls"], ".TH HOWDAH\\-ARCHIVE\\-LS 1"),
        (["-h"], "Usage: howdah [OPTIONS] COMMAND ..."),
        (["lab", "run", "-h"], "Usage: howdah lab run [OPTIONS] COMMAND...\n"),
        (["control", "urgent", "-h"], "Usage: howdah control urgent [OPTIONS] COMMAND ..."),
        (["profile", "plot", "x", "-h"], "Usage: howdah profile plot [OPTIONS] FIGURE FILE"),
    ],
)
def test_help_is_printed(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(words) == 0
    assert says in capsys.readouterr().out


def test_a_group_alone_answers_with_its_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["lab"], ["control", "urgent"], ["shared"]):
        assert app.main(words) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(" ".join(["Usage: howdah", *words]))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["coppy"], "howdah: No such command 'coppy', nearest is 'cp'; see: howdah --help"),
        (["lab", "rn"], "howdah: No such command 'rn', nearest is 'run'; see: howdah lab --help"),
        (["lab", "--no"], "howdah: No such option '--no'; see: howdah lab --help"),
        (["control", "urgent", "x"], "howdah: No such command 'x'; see: howdah control urgent --help"),
        (["profile", "x"], "howdah: Got unexpected extra argument (x); see: howdah profile --help"),
        (["cp", "a\x1b[31m", "--\x1b"], "howdah: No such option '--\\u{1b}'; see: howdah cp --help"),
    ],
)
def test_mistakes_name_what_is_nearest(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(words) == 2
    assert capsys.readouterr().err == f"{says}\n"


def test_help_on_nothing_known_names_what_is_nearest() -> None:
    with pytest.raises(
        HowdahError, match=r"^there is no help on unit, nearest is 'units'; see: howdah help$"
    ):
        app.main(["help", "unit"])
    with pytest.raises(HowdahError, match=r"^there is no help on lab rn, nearest is 'run'"):
        app.main(["help", "lab", "rn"])


def test_every_command_shows_help_under_a_heading() -> None:
    assert HELP.flags == ("-h", "--help")
    headings: Mapping[str, object] = app.howdah().commands
    page = pages.page(app.howdah(), ["howdah"])
    assert all(f"\n{heading}:\n" in page for heading in headings)
