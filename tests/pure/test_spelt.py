"""Options of rsync and scp, as ``howdah cp`` takes them: the same, done anyway, with a note, or refused."""

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import howdah

from howdah import HowdahError
from howdah.cli import app, cp, pages
from howdah.cli.spelt import ANYWAY, NOTED, REFUSED, ROWS, SAME, known, ours
from howdah.cli.table import HelpWanted, UsageError, read
from howdah.remote import far_command, ssh

(CP,) = cp.COMMANDS
OPTIONS = {flag: option for option in CP.options() for flag in option.flags}
DOCS = Path(__file__).parents[2] / "docs" / "rsync.md"


def taken(line: str) -> dict[str, object]:
    """What a line of cp is read as, without what it does not give."""
    words, _ = ours(shlex.split(line), OPTIONS)
    return {key: value for key, value in read(CP, words, {}).items() if value not in (None, False)}


def test_the_table_is_true_of_the_options_there_are() -> None:
    flags = [flag for row in ROWS for flag in row.flags]
    assert len(set(flags)) == len(flags)
    for row in ROWS:
        assert row.means in {SAME, ANYWAY, NOTED, REFUSED}
        if row.means == SAME:
            assert (
                row.flags
                == next(option for option in OPTIONS.values() if row.flags[-1] in option.flags).flags
            )
        else:
            assert OPTIONS.keys().isdisjoint(row.flags), f"{row.names} is an option of cp"


NAMES = {"names": ["src/", "far:dst/"]}
RSYNC_AND_SCP = [
    ("-r src/ far:dst/", {}),
    ("-a src/ far:dst/", {"keep": ["archive"]}),
    ("-av src/ far:dst/", {"keep": ["archive"]}),
    ("-avz src/ far:dst/", {"keep": ["archive"]}),
    ("-avzP src/ far:dst/", {"keep": ["archive"]}),
    ("-avP src/ far:dst/", {"keep": ["archive"]}),
    ("-avh --progress src/ far:dst/", {"keep": ["archive"]}),
    ("-avhP src/ far:dst/", {"keep": ["archive"]}),
    ("-ah --info=progress2 src/ far:dst/", {"keep": ["archive"]}),
    ("-avn src/ far:dst/", {"keep": ["archive"], "dry_run": True}),
    ("-av --dry-run src/ far:dst/", {"keep": ["archive"], "dry_run": True}),
    ("-rtv src/ far:dst/", {"keep": ["times"]}),
    ("-rlpt src/ far:dst/", {"keep": ["perms", "times"]}),
    ("-avz -e ssh src/ far:dst/", {"keep": ["archive"], "rsh": "ssh"}),
    ("-avz -e 'ssh -p 2222' src/ far:dst/", {"keep": ["archive"], "rsh": "ssh -p 2222"}),
    ("-avze 'ssh -p 2222 -J jump' src/ far:dst/", {"keep": ["archive"], "rsh": "ssh -p 2222 -J jump"}),
    ("-av --rsh='ssh -i key' src/ far:dst/", {"keep": ["archive"], "rsh": "ssh -i key"}),
    ("--archive --verbose --compress --partial --progress --stats src/ far:dst/", {"keep": ["archive"]}),
    (
        "-avW --no-owner --no-group --human-readable src/ far:dst/",
        {"keep": ["archive", "no_owner", "no_group"]},
    ),
    ("-aq --append-verify src/ far:dst/", {"keep": ["archive"], "quiet": True}),
    ("-a --partial-dir .parts src/ far:dst/", {"keep": ["archive"]}),
    ("-aHAXS src/ far:dst/", {"keep": ["archive", "hard_links", "acls", "xattrs", "sparse"]}),
    ("-a --no-perms src/ far:dst/", {"keep": ["archive", "no_perms"]}),
    ("-rvO --no-p --no-t src/ far:dst/", {"keep": ["omit_dir_times", "no_perms", "no_times"]}),
    ("-avz --delete src/ far:dst/", {"keep": ["archive"], "delete": True}),
    ("-avz --del src/ far:dst/", {"keep": ["archive"], "delete": True}),
    (
        "-av --delete-after --max-delete=100 src/ far:dst/",
        {"keep": ["archive"], "delete": True, "max_delete": 100},
    ),
    (
        "-avn --delete --delete-excluded src/ far:dst/",
        {"keep": ["archive"], "delete": True, "delete_excluded": True, "dry_run": True},
    ),
    ("-avu src/ far:dst/", {"keep": ["archive"], "update": True}),
    (
        "-avI --ignore-existing src/ far:dst/",
        {"keep": ["archive"], "ignore_times": True, "ignore_existing": True},
    ),
    (
        "-a --size-only --ignore-non-existing src/ far:dst/",
        {"keep": ["archive"], "size_only": True, "existing": True},
    ),
    ("-avc src/ far:dst/", {"keep": ["archive"], "checksum": True}),
    ("-av --bwlimit=1000 src/ far:dst/", {"keep": ["archive"], "limit": "8192000bit"}),
    ("-av --bwlimit 1.5m src/ far:dst/", {"keep": ["archive"], "limit": "12582912bit"}),
    ("-av --bwlimit=10MB src/ far:dst/", {"keep": ["archive"], "limit": "80000000bit"}),
    ("-av --bwlimit=0 src/ far:dst/", {"keep": ["archive"], "limit": "none"}),
    (
        "-av --bwlimit=fast src/ far:dst/",
        "--bwlimit fast: not a rate in rsync's units; use for example --limit 100Mbit",
    ),
    ("-av --remove-source-files src/ far:dst/", "--remove-source-files: sources are never removed"),
    ("-av --files-from=list src/ far:dst/", {"keep": ["archive"], "files_from": "list"}),
    ("-av --exclude '*.o' src/ far:dst/", {"keep": ["archive"], "filters": [("exclude", "*.o")]}),
    ("-av --rsync-path='sudo rsync' src/ far:dst/", "--rsync-path: use --far-howdah PATH"),
    ("-av --timeout=60 src/ far:dst/", "--timeout: use --patience"),
    ("-avi src/ far:dst/", "-i: use --dry-run"),
    ("-avx src/ far:dst/", {"keep": ["archive"], "one_file_system": True}),
    ("-avL src/ far:dst/", {"keep": ["archive"], "copy_links": True}),
    ("-av --safe-links src/ far:dst/", {"keep": ["archive"], "safe_links": True}),
    ("-P 2222 src/ far:dst/", {"rsh": "ssh -p 2222"}),
    ("-rP2222 src/ far:dst/", {"rsh": "ssh -p 2222"}),
    ("-rp src/ far:dst/", {"keep": ["perms"]}),
    ("-r -q src/ far:dst/", {"quiet": True}),
    ("-i key -r src/ far:dst/", "-i: .*for scp's -i KEY write -e 'ssh -i KEY'"),
    ("-o Port=22 -r src/ far:dst/", "-o Port=22: give it to ssh, as -e 'ssh -o Port=22'"),
    ("-oPort=22 -r src/ far:dst/", "-o Port=22: give it to ssh"),
    ("-rog src/ far:dst/", {"keep": ["owner", "group"]}),
    ("-aD --no-devices src/ far:dst/", {"keep": ["archive", "D", "no_devices"]}),
    ("-J jump -r src/ far:dst/", "-J: .*for scp's -J HOST write -e 'ssh -J HOST'"),
    ("-l 1000 -r src/ far:dst/", {"limit": "1000kbit"}),
    ("-rC src/ far:dst/", "-C: .*scp's -C would compress, and nothing is compressed"),
    ("-3 -r src/ far:dst/", {}),
    ("-r --files-from list src/ far:dst/", "-r: folders that --files-from lists are copied without"),
    ("-a --no-i-r --no-compress -y src/ far:dst/", {"keep": ["archive"]}),
    ("-am src/ far:dst/", "-m: name the files with --files-from"),
    ("-a --delay-updates src/ far:dst/", "--delay-updates: each file gets its name when it is whole"),
    ("-B -r src/ far:dst/", "-B: .*for scp's -B write -e 'ssh -o BatchMode=yes'"),
]
"""The command lines that people use most, by what comes of them: values beside the names, or a refusal."""


@pytest.mark.parametrize(("line", "comes_of_it"), RSYNC_AND_SCP, ids=[line for line, _ in RSYNC_AND_SCP])
def test_what_people_type_is_taken_or_answered(line: str, comes_of_it: dict[str, object] | str) -> None:
    if isinstance(comes_of_it, str):
        with pytest.raises(UsageError, match=comes_of_it) as refused:
            ours(shlex.split(line), OPTIONS)
        assert refused.value.see == "howdah help rsync"
        assert "\n" not in str(refused.value)
    else:
        assert taken(line) == NAMES | comes_of_it


def test_a_port_is_told_from_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2222").touch()
    assert taken("-P 2222 far:") == {"names": ["2222", "far:"]}
    assert taken("-P2222 x far:") == {"names": ["x", "far:"], "rsh": "ssh -p 2222"}
    with pytest.raises(UsageError, match=r"^-P 22: give the port in -e, as -e 'ssh -p 22'$"):
        ours(["-e", "ssh -J jump", "-P", "22", "a", "far:"], OPTIONS)


@pytest.mark.parametrize(
    "line", ["-P 22 -e 'ssh -J jump'", "-P22 '-essh -J jump'", "--rsh='ssh -J jump' -P 22"]
)
def test_no_order_of_a_port_and_a_command_loses_one_of_them(line: str) -> None:
    with pytest.raises(UsageError, match=r"^-P 22: give the port in -e, as -e 'ssh -p 22'$"):
        ours([*shlex.split(line), "a", "far:"], OPTIONS)


def test_h_alone_asks_for_help_and_among_others_is_rsyncs() -> None:
    with pytest.raises(HelpWanted) as wanted:
        taken("-a -h a far:")
    assert not wanted.value.everything
    with pytest.raises(HelpWanted) as wanted:
        taken("--help-all")
    assert wanted.value.everything
    assert taken("-ah a far:") == {"keep": ["archive"], "names": ["a", "far:"]}


def test_values_and_names_are_left_as_they_are() -> None:
    assert taken("--manifest -a a far:") == {"names": ["a", "far:"], "manifest": "-a"}
    assert taken("--cc=--delete a far:") == {"names": ["a", "far:"], "cc": "--delete"}
    assert taken("-r -- -a --delete far:") == {"names": ["-a", "--delete", "far:"]}
    assert taken("-e --delete a far:") == {"names": ["a", "far:"], "rsh": "--delete"}
    assert taken("a - far:") == {"names": ["a", "-", "far:"]}


@given(
    st.lists(st.sampled_from(["a", "far:x", "--json", "-q", "--plan", "--plan=-r", "--odd", "--", "-", "-h"]))
)
def test_a_line_without_them_stays_as_it_is(words: list[str]) -> None:
    assert ours(words, OPTIONS) == (words, [])


def test_a_note_is_said_once_and_not_to_the_quiet() -> None:
    _, notes = ours(["-az", "--compress", "-z", "a", "far:"], OPTIONS)
    assert [note.partition(":")[0] for note in notes] == ["-z", "--compress"]
    loud = howdah("cp", "-az", "/no/such", "far:", HOWDAH_SSH="false")
    assert loud.stderr.splitlines()[:-1] == [
        "howdah: note: -z: nothing is compressed",
    ]
    quiet = howdah("cp", "-azq", "/no/such", "far:", HOWDAH_SSH="false")
    assert (
        quiet.stderr
        == "howdah: cannot read /no/such: No such file or directory; check the name and its permissions\n"
    )


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        ("-E", []),
        ("-E --no-perms", ["-E: files that are there keep their modes with --no-perms"]),
        (
            "-a --no-p --executability",
            ["--executability: files that are there keep their modes with --no-perms"],
        ),
        ("--no-perms -aE", []),
    ],
)
def test_e_says_what_it_does_not_do(line: str, notes: list[str]) -> None:
    assert ours([*line.split(), "a", "far:"], OPTIONS)[1] == notes


def test_what_is_refused_is_one_line_and_says_where_the_table_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["cp", "-av", "--inplace", "a", "far:"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "howdah: --inplace: a file gets its name when it is whole; a copy that was cut goes on anyway; "
        "see: howdah help rsync\n",
    )


SSH = """#!/bin/sh
for each in "$@"; do printf "%s|" "$each"; done >>"$0.lines"
echo >>"$0.lines"
exit 255
"""
"""It writes a line of the words that it is given."""


def test_ssh_is_started_as_e_says(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    done = howdah(
        "cp", "-avz", "-e", f"{program} -p 2222 -o 'ProxyCommand nc %h %p'", "/etc/hostname", "far:/x"
    )
    assert done.returncode == 1
    lines = (tmp_path / "ssh.lines").read_text().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("-p|2222|-o|ProxyCommand nc %h %p|") for line in lines)
    assert lines[-1].endswith(f"|--|far|{far_command.command(None, 'serve')}|")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("rsh", "^-e rsh is not ssh, which howdah needs; give for example -e 'ssh -p 2222 -J jump'$"),
        ("ssh -o 'x", r"^cannot read the ssh command ssh -o 'x: .*; check its quotes$"),
    ],
)
def test_a_shell_that_is_none_is_refused(command: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOWDAH_SSH", "")
    with pytest.raises(HowdahError, match=says):
        cp.use_ssh(command)
        ssh.Login("far")


@pytest.mark.parametrize(
    ("command", "keeps"),
    [
        ("ssh", True),
        ("ssh -p 2222", True),
        ("ssh -l me -p 2222", True),
        ("ssh -J jump", False),
        ("ssh -p", False),
        ("ssh -p 2222 -i key", False),
        ("/usr/bin/ssh -p 2222", False),
    ],
)
def test_a_login_is_kept_where_its_socket_names_all_that_was_said(
    command: str, keeps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOWDAH_SSH", command)
    monkeypatch.setenv("HOWDAH_SSH_KEEP_S", "300")
    monkeypatch.setattr(ssh, "private_folder", lambda: "/run/short")
    login = ssh.Login("far.invalid")
    assert (login.control is not None) == keeps
    if keeps and "-p" in command:
        assert login.config["port"] == "2222"


@pytest.mark.parametrize("host", ["", "me@", "-oProxyCommand=x", "a b"])
def test_what_is_no_host_never_comes_to_ssh(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOWDAH_SSH", "/bin/false")
    with pytest.raises(HowdahError, match="is not a host; give a name that ssh knows"):
        ssh.Login(host)


def test_the_page_is_the_table() -> None:
    lines = ["| option | here |", "| --- | --- |"]
    for means, heading in pages.SPELT.items():
        lines.append(f"| **{heading}** | |")
        lines += [
            f"| {', '.join(f'`{name}`' for name in row.names.split(', '))} | {row.text} |"
            for row in ROWS
            if row.means == means
        ]
    table = "\n".join(lines)
    assert table in DOCS.read_text(encoding="utf-8"), f"docs/rsync.md needs this table:\n\n{table}\n"


def test_help_on_rsync_names_them_all() -> None:
    shown = howdah("help", "rsync").stdout
    assert all(flag in shown for flag in known())
    assert os.linesep + "Refused:" in shown
