"""Far hosts on which something else answers than howdah, as each command tells it."""

import os
from pathlib import Path

import pytest
from samples import howdah

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


def said(tmp_path: Path, login: str, *words: str) -> str:
    ssh = tmp_path / "ssh"
    ssh.write_text(_SSH.format(login=login))
    ssh.chmod(0o755)
    done = howdah(*words, HOWDAH_SSH=str(ssh), XDG_DATA_HOME=str(tmp_path), HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 1
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
