"""The command that starts a far end, in each shell that is here; tests/lab/test_bring.py is behind sshd."""

import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from requirement import missing

from howdah import HowdahError
from howdah._native import serve
from howdah.remote import far_command
from howdah.remote.bringing import offer
from howdah.remote.far_command import ANEW, BRING, MISSING, Brought

SHELLS = ("sh", "bash", "busybox sh", "tcsh", "fish", "zsh")
"""The shells that are on every machine that tests."""

PROGRAM = b"""#!/bin/sh
case $1 in
    sha256) sha256sum < "$0" ;;
    --version) echo far ;;
    *) umask; read -r said; echo "$* was told: $said" ;;
esac
"""
"""What is brought here in place of the far end."""


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Brought:
    packed = tmp_path / "far.gz"
    packed.write_bytes(
        subprocess.run(["gzip", "-9n"], input=PROGRAM, stdout=subprocess.PIPE, check=True).stdout
    )
    digest = hashlib.sha256(PROGRAM).hexdigest()
    made = Brought(os.uname().machine, str(packed), packed.stat().st_size, len(PROGRAM), digest)
    monkeypatch.setattr(far_command, "brought", lambda: made)
    return made


def start(shell: str, home: Path, sent: bytes, *words: str, path: str = "") -> str:
    """What the command prints when its login shell is ``shell``; ``words`` are the role, and how."""
    command = far_command.command(None, *(words or ("serve",)))
    env = {"HOME": str(home), "PATH": path + os.environ.get("PATH", os.defpath)}
    argv = [*shlex.split(shell), "-c", f"umask 022; {command}"]
    done = subprocess.run(argv, check=False, input=sent, capture_output=True, env=env, timeout=20)
    return (done.stdout + done.stderr).decode()


@pytest.fixture(autouse=True)
def without_howdah(monkeypatch: pytest.MonkeyPatch) -> None:
    folders = os.environ["PATH"].split(":")
    without = [folder for folder in folders if not Path(folder, "howdah").exists()]
    monkeypatch.setenv("PATH", ":".join(without))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_far_end_is_brought_kept_and_found_again(brought: Brought, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell.partition(" ")[0]) is None:
        missing(f"no {shell} here; run scripts/system.sh --tests")
    packed = Path(brought.path).read_bytes()
    folder = tmp_path / ".cache/howdah"
    answer = f"{MISSING} {brought.machine} in {folder}\n"
    strange = b"\x89HOWDAH\n\x09\0\0\0 greetings\n\n\xff"
    told = start(shell, tmp_path, strange + f"\n{BRING}\n".encode() + packed)
    assert told.partition("022\n")[0] in {answer, f"{answer}0"}
    (kept,) = folder.iterdir()
    assert kept.name == f"far-{far_command.__version__}-{brought.sha256[:16]}"
    assert kept.read_bytes() == PROGRAM
    assert start(shell, tmp_path, b"hello\n").endswith("\nserve was told: hello\n")
    assert start(shell, tmp_path, b"hello\n", "reread").endswith("\nreread was told: hello\n")
    kept.write_bytes(PROGRAM + b"# changed")
    assert start(shell, tmp_path, b"") == answer
    assert list(folder.iterdir()) == [kept]


def test_howdah_there_goes_before_what_was_brought_unless_it_speaks_another_protocol(
    brought: Brought, tmp_path: Path
) -> None:
    installed = tmp_path / "bin/howdah"
    installed.parent.mkdir()
    installed.write_text("#!/bin/sh\necho installed $*\n")
    installed.chmod(0o755)
    path = f"{installed.parent}:"
    assert start("sh", tmp_path, b"", path=path) == "installed serve\n"
    sent = f"\n{BRING}\n".encode() + Path(brought.path).read_bytes()
    assert MISSING in start("sh", tmp_path, sent, "serve", ANEW, path=path)
    # From then on the command need not be told.
    assert "serve was told: hello" in start("sh", tmp_path, b"hello\n", path=path)
    for kept in (tmp_path / ".cache/howdah").glob("far-*[0-9a-f]"):
        kept.unlink()
    assert start("sh", tmp_path, b"", path=path) == "installed serve\n"


def test_the_range_of_ports_reaches_howdah_and_what_was_brought(brought: Brought, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    howdah = folder / "howdah"
    howdah.write_text('#!/bin/sh\necho "installed $# $*"\n')
    howdah.chmod(0o755)
    path = f"{folder}:"
    assert start("sh", tmp_path, b"", "serve --ports 50-99", path=path) == "installed 3 serve --ports 50-99\n"
    sent = f"\n{BRING}\n".encode() + Path(brought.path).read_bytes()
    said = start("sh", tmp_path, sent, "serve --ports 50-99")
    assert said.splitlines()[-1].startswith("serve --ports 50-99 was told:")


def test_what_is_cut_is_not_kept(brought: Brought, tmp_path: Path) -> None:
    sent = f"\n{BRING}\n".encode() + Path(brought.path).read_bytes()[:-20]
    said = start("sh", tmp_path, sent)
    (_, why) = said.splitlines()
    assert why.startswith("howdah: the far end that was brought did not arrive whole in ")
    assert why.endswith(" (unexpected end of file); try again, or install howdah there")
    assert list((tmp_path / ".cache/howdah").iterdir()) == []


def bring(brought: Brought) -> bytes:
    """What a near end sends that brings its program."""
    return f"\n{BRING}\n".encode() + Path(brought.path).read_bytes()


@pytest.fixture(params=["sh", "busybox sh"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A start of PATH with which the command's own shell, and its tools, are those of a host."""
    if request.param == "sh":
        return ""
    folder = tmp_path / "busybox"
    folder.mkdir()
    there = shutil.which("busybox")
    if there is None:
        missing("no busybox here; run scripts/system.sh --tests")
    for name in ("sh", "head", "cat", "gzip", "find", "mv", "rm", "mkdir", "chmod", "ls", "sha256sum"):
        (folder / name).symlink_to(there)
    return f"{folder}:"


def test_what_was_tried_is_removed_where_nobody_reads_the_answer(
    brought: Brought, tmp_path: Path, inner: str
) -> None:
    command = far_command.command(None, "serve")
    env = {"HOME": str(tmp_path), "PATH": inner + os.environ["PATH"]}
    reads, writes = os.pipe()
    os.close(reads)
    argv = ["sh", "-c", command]
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, stdout=writes, env=env, timeout=20)
    os.close(writes)
    assert done.returncode != 0
    assert list((tmp_path / ".cache/howdah").iterdir()) == []


def test_what_an_earlier_try_left_is_removed_after_a_day(
    brought: Brought, tmp_path: Path, inner: str
) -> None:
    folder = tmp_path / ".cache/howdah"
    folder.mkdir(parents=True, mode=0o700)
    old, new, other = (folder / name for name in (".try1", ".try2", "far-0.0.1-x"))
    for file in (old, new, other):
        file.touch()
    for file in (old, other):
        then_s = file.stat().st_mtime - 2.5 * 86_400
        os.utime(file, (then_s, then_s))
    assert "serve was told: hello" not in start("sh", tmp_path, bring(brought), path=inner)
    assert start("sh", tmp_path, b"hello\n", path=inner).endswith("serve was told: hello\n")
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


CAT = """#!/bin/sh
case $(readlink /proc/$$/fd/1) in
    *{full}*) echo "cat: write error: No space left on device" >&2; exit 1 ;;
esac
exec {cat} "$@"
"""


def test_a_folder_without_room_is_passed_over(brought: Brought, tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    cat, there = folder / "cat", shutil.which("cat")
    other = Path(f"/tmp/howdah-{os.getuid()}")  # noqa: S108
    for full, says in (
        (".cache", f"in {other}\n"),
        ("howdah", f"nowhere {tmp_path}/.cache/howdah: No space left"),
    ):
        cat.write_text(CAT.format(full=full, cat=there))
        cat.chmod(0o755)
        said = start("sh", tmp_path, b"", path=f"{folder}:")
        assert said.startswith(f"{MISSING} {brought.machine} {says}")
    with pytest.raises(
        HowdahError, match=r"; make room for \d+ B there, install howdah there, or set XDG_CACHE"
    ):
        offer("far", said, "howdah was not found on far", brought)


def test_a_folder_of_the_programs_name_and_a_link_are_passed_over(
    brought: Brought, tmp_path: Path, inner: str
) -> None:
    folder = tmp_path / ".cache/howdah"
    name = f"far-{far_command.__version__}-{brought.sha256[:16]}"
    (folder / name).mkdir(parents=True)
    folder.chmod(0o700)
    said = start("sh", tmp_path, b"", path=inner)
    assert " in /tmp/howdah-" in said
    assert list((folder / name).iterdir()) == []
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rmdir()
    folder.rmdir()
    elsewhere.mkdir(mode=0o755)
    elsewhere.chmod(0o755)
    folder.symlink_to(elsewhere)
    said = start("sh", tmp_path, b"", path=inner)
    assert " in /tmp/howdah-" in said
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_what_was_brought_before_goes_before_a_howdah_that_failed(brought: Brought, tmp_path: Path) -> None:
    """The near end says ANEW then, and no later start has to be told."""
    start("sh", tmp_path, bring(brought))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "howdah").write_text("#!/bin/sh\nexit 1\n")
    (folder / "howdah").chmod(0o755)
    path = f"{folder}:"
    assert start("sh", tmp_path, b"hello\n", "reread", path=path) == ""
    assert start("sh", tmp_path, b"hello\n", "serve", ANEW, path=path).endswith("serve was told: hello\n")
    assert start("sh", tmp_path, b"hello\n", "reread", path=path).endswith("reread was told: hello\n")


def test_other_roles_and_programs_of_the_user_are_started_plainly(brought: Brought) -> None:
    assert far_command.command(None, "respond") == "howdah respond"
    assert far_command.command("/opt/my howdah", "serve") == "'/opt/my howdah' serve"
    assert not set("'\n!") & set(far_command.script(brought))


def test_without_a_program_to_bring_the_command_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(far_command, "brought", lambda: None)
    assert far_command.command(None, "serve") == "howdah serve"


def test_a_login_for_copies_knows_the_command(
    brought: Brought, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for asked in (
        far_command.command(None, "serve"),
        far_command.command(None, "serve --ports 50-99", ANEW),
        far_command.command("/opt/my howdah", "serve"),
    ):
        monkeypatch.setenv("SSH_ORIGINAL_COMMAND", asked)
        # It is looked at before the folder.
        assert serve(["--root", "/no/such"]) == 1
        assert "cannot serve /no/such" in capfd.readouterr().err
    for role, says in (
        (
            "reread",
            "it reads nothing again; howdah verify needs another login; for howdah cp leave out --verify",
        ),
        ("respond", "it does not run: howdah"),
    ):
        monkeypatch.setenv("SSH_ORIGINAL_COMMAND", far_command.command(None, role))
        assert serve(["--root", "/no/such"]) == 2
        assert says in capfd.readouterr().err


def test_what_cannot_be_brought_is_said_with_its_reason(brought: Brought) -> None:
    why = "howdah was not found on far"
    assert offer("far", f"it said: {MISSING} {brought.machine} in /a b/c", why, brought).folder == "/a b/c"
    for said, words in (
        (f"{MISSING} riscv64 nowhere ", r"for its processor \(riscv64\)"),
        (
            f"{MISSING} {brought.machine} nowhere /h: Read-only file system; ",
            r"hold it \(/h: Read-only file system\)",
        ),
        (MISSING, r"for its processor \(\)"),
    ):
        with pytest.raises(HowdahError, match=words):
            offer("far", said, why, brought)
