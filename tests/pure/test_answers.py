"""Far hosts on which something else answers than howdah, as each command tells it."""

import os
from pathlib import Path

import pytest
from requirement import missing
from samples import howdah

from howdah.remote.far_command import brought

_SSH = """#!/bin/sh
case " $* " in *" -G "*) echo "hostname 127.0.0.1"; exit ;; esac
for last do :; done
{login}
"""
PATTERN = Path(__file__).parents[2] / "scenarios/traffic-constant-tcp.toml"


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    source, digests = tmp_path / "source", tmp_path / "list.b3sum"
    source.write_bytes(os.urandom(100))
    digests.write_text(f"{'ab' * 32}  source\n")
    return [
        ["cp", str(source), "far:target"],
        ["cp", "--bring", str(source), "far:target"],
        ["verify", str(digests), f"far:{tmp_path}"],
        ["probe", "--udp", "far"],
        ["traffic", str(PATTERN), "far"],
    ]


def said(tmp_path: Path, login: str, *words: str, code: int = 1) -> str:
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH.format(login=login))
    ssh.chmod(0o755)
    done = howdah(*words, HOWDAH_SSH=str(ssh), XDG_DATA_HOME=str(tmp_path), HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == code, done.stderr
    return done.stderr


def test_a_start_up_file_that_writes_is_named(tmp_path: Path, commands: list[list[str]]) -> None:
    for words in commands:
        assert said(tmp_path, 'echo "Welcome to far"; exec sh -c "$last"', *words) == (
            "howdah: far: the other end is not howdah; it said: Welcome to far; "
            "a start-up file of the shell on far (.bashrc, .profile) must write to standard output "
            "only where a terminal is there: if [ -t 1 ]\n"
        )


def test_a_shell_that_finds_no_sh_is_told_apart_from_a_host_without_howdah(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    login = 'PATH= exec /bin/bash -c "$last"'
    # A probe and traffic bring nothing.
    for words in commands[:3]:
        assert said(tmp_path, login, *words).splitlines()[-1] == (
            "howdah: the shell of a login on far finds no sh, so howdah can be neither found "
            "nor brought there; mend PATH in its start-up files (.bashrc, .profile), "
            "or give --far-howdah PATH"
        )


BROKEN = """#!/no/such/python
"""
FAILS = """#!/bin/sh
echo Traceback >&2
echo "ModuleNotFoundError: No module named howdah" >&2
exit 1
"""


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (
            BROKEN,
            "most likely because what its first line names is not there",
        ),
        (FAILS, "howdah on far ended before it answered (ModuleNotFoundError: No module named howdah)"),
    ],
)
def test_a_howdah_that_cannot_be_started_has_one_brought_in_its_place(
    tmp_path: Path, commands: list[list[str]], program: str, says: str
) -> None:
    if brought() is None:
        missing("no far end to bring was built here; run scripts/far.sh")
    home, folder = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    folder.mkdir()
    there = folder / "howdah"
    there.write_text(program)
    there.chmod(0o755)
    login = f'HOME={home} PATH={folder}:/usr/bin:/bin exec bash -c "$last"'
    plain, with_bring = commands[:2]
    plain[2] = with_bring[3] = f"far:{tmp_path}/target"
    complained = said(tmp_path, login, *plain)
    assert says in complained
    assert "not found on far" not in complained
    assert ", only for this user: give howdah cp --bring, or install howdah there, or give" in complained
    said(tmp_path, login, *with_bring, code=0)
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()
    (tmp_path / "target").unlink()
    # It is there now.
    said(tmp_path, login, *plain, code=0)
    assert (tmp_path / "target").exists()


def test_a_forced_command_that_is_not_there_is_for_the_administrator(
    tmp_path: Path, commands: list[list[str]]
) -> None:
    if brought() is None:
        missing("no far end to bring was built here; run scripts/far.sh")
    for words in commands[:2]:
        complained = said(tmp_path, "exec bash -c '/no/howdah serve --root /'", *words)
        assert (
            "the command that far runs for this login was not found (bash: line 1: /no/howdah: " in complained
        )
        assert complained.endswith("which the administrator of far can mend\n")


def test_what_howdah_there_says_itself_is_not_tried_again(tmp_path: Path, commands: list[list[str]]) -> None:
    starts = tmp_path / "starts"
    login = f"echo >> {starts}; echo 'howdah: the policy is no policy' >&2; exit 1"
    complained = said(tmp_path, login, *commands[0])
    assert complained.endswith("howdah: far: the policy is no policy\n")
    assert starts.read_text() == "\n"
