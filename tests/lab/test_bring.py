"""A far end that is brought: to a host with sshd, busybox and nothing else, behind a real sshd."""

import gzip
import hashlib
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from copying import SLACK_S, STOP_S, Copier, alive, tree, wait_until
from requirement import missing

from bench.bare import Bare
from howdah import __version__, lab
from howdah.lab import Lab
from howdah.remote.far_command import brought
from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

CACHE = "/home/.cache/howdah"


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    with lab.started(lab.symmetric(1_000_000_000, 2_000_000), sshd=True) as up:
        yield up


@pytest.fixture(scope="module")
def program() -> bytes:
    found = brought()
    if found is None:
        missing("no far end to bring was built here; run scripts/far.sh")
    return gzip.decompress(Path(found.path).read_bytes())


@pytest.fixture
def bare(wan: Lab, tmp_path: Path, program: bytes, cp: Copier) -> Iterator[Bare]:
    if shutil.which("busybox") is None:
        missing("busybox is not installed; apt install busybox-static")
    made = Bare(wan, tmp_path)
    with made.behind_the_key():
        yield made
        cp.forget_logins()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    for number in range(5):
        (top / f"sub/file-{number}").write_bytes(os.urandom(100_000))
    (top / "link").symlink_to("sub")
    return top


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def good(cp: Copier, *arguments: str | Path) -> str:
    """A copy that must succeed, through a login of its own; what it says on standard error."""
    done = cp(*arguments, HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 0, done.stderr
    return done.stderr


def refused(cp: Copier, *arguments: str | Path) -> str:
    return cp.refused(*arguments, HOWDAH_SSH_KEEP_S="0")


def test_it_is_brought_once_and_the_second_copy_sends_none_of_it(
    cp: Copier, bare: Bare, program: bytes, source: Path, tmp_path: Path
) -> None:
    good(cp, "--bring", "--verify", source, "far:/tmp/there")
    assert tree(bare.root / "tmp/there") == tree(source)
    (kept,) = bare.kept()
    assert kept.read_bytes() == program
    assert re.fullmatch(r"far-[0-9.]+-" + digest(kept)[:16], kept.name)
    assert (kept.stat().st_mode, kept.parent.stat().st_mode) == (0o100700, 0o40700)
    # Without --bring, and without a terminal, nothing can be brought.
    good(cp, "far:/tmp/there", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(source)
    assert bare.kept() == [kept]


def test_a_pipe_goes_to_a_far_end_that_is_brought_and_comes_from_it(cp: Copier, bare: Bare) -> None:
    given = os.urandom(3_000_000)
    done = cp.piped("--bring", "-", "far:/tmp/dump", given=given, HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 0, done.stderr
    assert (bare.root / "tmp/dump").read_bytes() == given
    assert cp.piped("far:/tmp/dump", "-", HOWDAH_SSH_KEEP_S="0").stdout == given


def test_the_next_far_end_waits_behind_a_kept_login_and_is_held_as_any_other(cp: Copier, bare: Bare) -> None:
    assert cp("--bring", "--memory", "1MB", "far:").returncode == 0

    def waiting() -> list[int]:
        listed = cp.processes().items()
        return [pid for pid, args in listed if args.startswith(f"{CACHE}/far-")]

    wait_until(lambda: len(waiting()) == 1, STOP_S + SLACK_S)
    asked = ["cat", f"/proc/{waiting()[0]}/status", f"/proc/{waiting()[0]}/limits"]
    status = cp.lab.run("far", asked, capture_output=True, text=True, check=True).stdout
    for held in (r"NoNewPrivs:\t1", r"Seccomp:\t2", r"Max core file size +0 +0"):
        assert re.search(held, status)
    assert cp("--memory", "1MB", "far:").returncode == 0


def test_nothing_is_brought_unless_somebody_agrees(cp: Copier, bare: Bare, source: Path) -> None:
    said = refused(cp, source, "far:/tmp/there")
    assert "howdah was not found on far; a far end of 2." in said
    assert f" can be brought into {CACHE} there, only for this user: give howdah cp --bring," in said
    assert bare.kept() == []


def test_on_a_terminal_it_asks_once(cp: Copier, bare: Bare, source: Path) -> None:
    for answer, kept in (("n", 0), ("y", 1)):
        ours, theirs = pty.openpty()
        argv = [*cp.argv("--quiet", source, "far:/tmp/there")]
        env = {**cp.env, "HOWDAH_SSH_KEEP_S": "0"}
        with alive(
            cp.lab.popen("near", argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        ) as process:
            os.close(theirs)
            shown = b""
            while not shown.endswith(b"Bring it? [y/N] "):
                shown += os.read(ours, 1000)
            os.write(ours, f"{answer}\n".encode())
            code = process.wait(20)
        os.close(ours)
        assert (code, len(bare.kept())) == (1 - kept, kept), shown
    good(cp, source, "far:/tmp/there")


def test_a_program_that_was_changed_is_brought_anew(cp: Copier, bare: Bare, program: bytes) -> None:
    good(cp, "--bring", "--memory", "1MB", "far:")
    (kept,) = bare.kept()
    changed = bytearray(program)
    changed[len(changed) // 2] ^= 1
    kept.write_bytes(changed)
    assert "howdah was not found on far" in refused(cp, "--memory", "1MB", "far:")
    good(cp, "--bring", "--memory", "1MB", "far:")
    assert kept.read_bytes() == program


NOEXEC = 'mount -t tmpfs -o noexec,mode=1777 none "$root/{0}"'
READ_ONLY = 'mount -t tmpfs -o ro none "$root/{0}"'


@pytest.mark.parametrize(
    ("mount", "why"),
    [(NOEXEC, "no program runs there (noexec)"), (READ_ONLY, "Read-only file system")],
)
def test_a_home_that_cannot_keep_it(cp: Copier, bare: Bare, mount: str, why: str) -> None:
    bare.mounts(mount.format("home"))
    good(cp, "--bring", "--memory", "1MB", "far:")
    assert [file.name[:4] for file in bare.kept("tmp/howdah-0")] == ["far-"]
    good(cp, "--memory", "1MB", "far:")
    # Others could change it.
    (bare.root / "tmp/howdah-0").chmod(0o777)
    said = refused(cp, "--bring", "--memory", "1MB", "far:")
    assert f"no folder there can hold it ({CACHE}: {why}; /tmp/howdah-0: others can enter it)" in said
    bare.mounts(mount.format("home"), mount.format("tmp"))
    said = refused(cp, "--bring", "--memory", "1MB", "far:")
    assert f"({CACHE}: {why}; /tmp/howdah-0: {why}); install howdah there, or set XDG_CACHE_HOME" in said


def test_a_host_whose_settings_cannot_be_written(
    cp: Copier, bare: Bare, source: Path, tmp_path: Path
) -> None:
    settings = '"$root/proc/sys"'
    bare.mounts(f"mount --bind {settings} {settings} && mount -o remount,bind,ro {settings} || exit 1")
    good(cp, "--bring", "--verify", source, "far:/tmp/there")
    assert tree(bare.root / "tmp/there") == tree(source)
    good(cp, "far:/tmp/there", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(source)


def test_a_processor_that_there_is_no_program_for(cp: Copier, bare: Bare) -> None:
    bare.mounts(machine="i686")
    said = refused(cp, "--bring", "--memory", "1MB", "far:")
    assert (
        "the far end that can be brought is only for x86_64, not for its processor (i686); install howdah"
        in said
    )


def test_a_home_without_room_is_passed_over(cp: Copier, bare: Bare) -> None:
    small = 'mount -t tmpfs -o size=3m,mode=1777 none "$root/{}"'
    bare.mounts(small.format("home"))
    good(cp, "--bring", "--memory", "1MB", "far:")
    assert [file.name[:4] for file in bare.kept("tmp/howdah-0")] == ["far-"]
    bare.mounts(small.format("home"), small.format("tmp"))
    said = refused(cp, "--bring", "--memory", "1MB", "far:")
    why = "No space left on device"
    assert f"no folder there can hold it ({CACHE}: {why}; /tmp/howdah-0: {why}); make room for " in said
    assert " MB there, install howdah there, or set XDG_CACHE_HOME there to a folder of your own" in said


def test_a_howdah_of_another_protocol_is_passed_over(cp: Copier, bare: Bare) -> None:
    bare.program("howdah", "#!/bin/sh\nprintf '\\211HOWDAH\\n\\2\\0\\0\\0'\n")
    said = refused(cp, "--memory", "1MB", "far:")
    assert "howdah on far has another version (the other end speaks protocol 2, this one " in said
    assert "give howdah cp --bring" in said
    good(cp, "--bring", "--memory", "1MB", "far:")
    # From now on it is not even tried.
    bare.program("howdah", "#!/bin/sh\necho tried >> /tmp/tried\n")
    good(cp, "--memory", "1MB", "far:")
    assert not (bare.root / "tmp/tried").exists()


def test_a_howdah_of_another_release_and_the_same_protocol_is_taken(
    cp: Copier, bare: Bare, program: bytes
) -> None:
    other = program.replace(__version__.encode(), b"0.0.9")
    assert other != program
    bare.program("howdah", other)
    assert (
        "0.0.9"
        in cp.lab.run("far", [bare.root / "bin/howdah", "--version"], capture_output=True, text=True).stdout
    )
    good(cp, "--memory", "1MB", "far:")
    assert bare.kept() == []


def test_it_keeps_to_the_policy_of_its_host(cp: Copier, bare: Bare, source: Path) -> None:
    policy = bare.root / "etc/howdah/policy.toml"
    policy.parent.mkdir()
    for text, words in (
        ("[data]\nplaintext = false", "plaintext data streams are forbidden by the policy of host"),
        (
            '[quota]\ncopy = "400kB"',
            "this copy moves more than 400 kB, the most that is allowed by the policy",
        ),
        ('[quota]\nday = "1MB"', "its /etc/passwd has no user of number 0, and a far end that was brought"),
        ('audit = "required"', "requires; nothing is copied; start journald or a syslog service"),
        (
            'audit = "required"\n[data]\nplaintext = false',
            "plaintext data streams are forbidden by the policy",
        ),
        ("[tls]", "/etc/howdah/policy.toml: unknown key tls; known are audit, ssh, data, programs, quota"),
    ):
        policy.write_text(text)
        policy.chmod(0o644)
        assert words in refused(cp, "--bring", "--plaintext", "--memory", "500kB", "far:")
    policy.write_text('[quota]\nday = "1MB"')
    (bare.root / "etc/passwd").write_text("root:x:0:0::/home:/bin/sh\n")
    good(cp, source, "far:/tmp/there")
    (counted,) = (bare.root / "home/.local/state/howdah/quota").iterdir()
    assert counted.read_text().endswith(" 00000000000000500000\n")


def test_each_copy_leaves_the_line_that_an_installed_far_end_leaves(
    cp: Copier, bare: Bare, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare.root / "etc/passwd").write_text("me:x:0:0::/home:/bin/sh\n")
    (bare.root / "log").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.settimeout(10)
        monkeypatch.chdir(bare.root / "log")
        # The name of a socket is at most 107 bytes long.
        journal.bind("socket")
        bare.mounts(
            'mkdir -p "$root/run/systemd/journal"', 'mount --bind "$root/log" "$root/run/systemd/journal"'
        )
        good(cp, "--bring", source, "far:/tmp/there")
        fields = dict(line.split("=", 1) for line in journal.recv(10_000).decode().splitlines())
    assert (fields["PRIORITY"], fields["SYSLOG_IDENTIFIER"], fields["HOWDAH_USER"]) == ("6", "howdah", "me")
    line = json.loads(fields["MESSAGE"].removeprefix("copy "))
    assert re.fullmatch("[0-9a-f]{64}", line.pop("digest_sum"))
    assert 0 < line.pop("elapsed_s") < 20
    assert line == {
        "schema": 1,
        "end": "far",
        "outcome": "complete",
        "error": None,
        "uid": 0,
        "user": "me",
        "peer": cp.lab.addresses["near"],
        "sends": False,
        "sources": [str(source)],
        "sources_more": 0,
        "destination": "/tmp/there",  # noqa: S108
        "encrypted": True,
        "dry_run": False,
        "bytes": 500_000,
        "files": 5,
        "removed": 0,
        "other": None,
        "digests_sha256": None,
        "record": None,
    }


def test_it_serves_what_goes_by_tcp_and_nothing_by_udp(cp: Copier, bare: Bare, tmp_path: Path) -> None:
    def howdah(*arguments: str) -> "subprocess.CompletedProcess[str]":
        argv, env = [sys.executable, "-m", "howdah", *arguments], {**cp.env, "HOWDAH_SSH_KEEP_S": "0"}
        return cp.lab.run("near", argv, env=env, capture_output=True, text=True, timeout=60)

    def traffic(load: str) -> "subprocess.CompletedProcess[str]":
        pattern = tmp_path / "pattern.toml"
        pattern.write_text(f'name = "one"\n[[load]]\nrate = "8Mbit"\n{load}\n')
        return howdah("traffic", str(pattern), "far", "--for", "1s", "--json")

    good(cp, "--bring", "--memory", "1MB", "far:")
    done = traffic('kind = "tcp"')
    assert done.returncode == 0, done.stderr
    record = msgspec.json.decode(done.stdout, type=Record)
    assert record.traffic is not None
    assert record.traffic["loads"][0]["received_bytes"] > 0
    done = howdah("probe", "--active", "--for", "6s", "--json", "far")
    assert done.returncode == 0, done.stderr
    for done in (
        traffic('kind = "udp"'),
        traffic('kind = "rbudp"\nsize = "1MB"'),
        howdah("probe", "--udp", "--for", "1s", "far"),
    ):
        assert done.returncode == 1, done.stdout
        assert "howdah was not found on far; install it there" in done.stderr
