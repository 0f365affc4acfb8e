"""A login for copies alone: ``howdah serve --root`` as the forced command of a key, behind a real sshd."""

import ctypes
import gzip
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from copying import SLACK_S, STOP_S, Copier, tree, wait_until
from requirement import missing

from howdah import lab
from howdah.lab import Lab, mounts
from howdah.remote.far_command import brought

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("landlock", "nothing_kept")]

HELD = "held by openat2, landlock "
CONFINED = {"NoNewPrivs": "1", "Seccomp": "2", "core": "0/0"}
OUT = "it leads out of the folder that this login reaches; name a path in it\n"
HOWDAH = Path(sys.executable).parent / "howdah"

_CREATE_RULESET = 444
"""landlock_create_ruleset(2), which says its version when that is asked for."""

Force = Callable[..., None]


@pytest.fixture(scope="module")
def landlock() -> None:
    """A kernel that has landlock, for what is said to hold."""
    version = 1
    if ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, version) < 1:
        missing("this kernel has no landlock")


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    with lab.started(lab.symmetric(1_000_000_000, 2_000_000), sshd=True) as up:
        yield up


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that is served, with links that lead out, and a secret beside it."""
    served, outside = tmp_path / "served", tmp_path / "outside"
    (served / "sub/empty").mkdir(parents=True)
    (served / "sub/data").write_bytes(bytes(range(256)) * 4000)
    outside.mkdir()
    (outside / "secret").write_bytes(b"what nobody may see or change")
    (served / "relative").symlink_to("../outside")
    (served / "absolute").symlink_to(outside)
    return served


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "source"
    for number in range(40):
        (top / f"{number}/sub").mkdir(parents=True)
        (top / f"{number}/sub/file").write_bytes(bytes([number]) * 10_000)
    (top / "big").write_bytes(bytes(range(251)) * 50_000)
    (top / "link").symlink_to("big")
    (top / "0/sub/file").chmod(0o640)
    return top


@pytest.fixture
def force(wan: Lab, root: Path) -> Iterator[Force]:
    """Gives the key of the lab a forced command of ``howdah serve --root`` with these options besides."""
    keys = mounts.PRIVATE / "authorized_keys"
    plain = wan.run("far", ["cat", str(keys)], capture_output=True, text=True, check=True).stdout

    def write(line: str) -> None:
        wan.run("far", ["tee", str(keys)], input=line, stdout=subprocess.DEVNULL, text=True, check=True)

    def forced(*options: str, howdah: Path = HOWDAH) -> None:
        command = shlex.join([str(howdah), "serve", "--root", str(root), *options])
        write(f'command="{command}",restrict {plain}')

    yield forced
    write(plain)


def refused(cp: Copier, *arguments: str | Path) -> str:
    """A copy that must fail in one line, besides that on what is served; that line."""
    done = cp(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 2, done.stderr
    served, failed = done.stderr.splitlines(keepends=True)
    assert served.startswith("far end: paths begin at the folder of this login")
    assert failed.startswith("howdah: ")
    return failed


def far_end(cp: Copier, *, processes: int = 1) -> int:
    """The process number of the far end that waits for the next copy. Its overseer is started after it."""

    def waiting() -> list[int]:
        listed = cp.processes().items()
        return [pid for pid, args in listed if "ssh" not in args and "howdah serve" in args]

    wait_until(lambda: len(waiting()) == processes, STOP_S + SLACK_S)
    return min(waiting())


def test_what_must_be_read_again_is_refused_before_the_first_byte(
    cp: Copier, force: Force, root: Path, source: Path, tmp_path: Path
) -> None:
    force()
    for number, again in enumerate((["--verify"], ["--manifest", str(tmp_path / "it.sha256")])):
        said = refused(cp, *again, source, f"far:{number}/")
        assert said.startswith(
            "howdah: far: this login is for copies by howdah cp alone, it reads nothing again"
        )
        assert "leave out --verify, and give --manifest a name that ends in .b3sum" in said
        assert not (root / f"{number}").exists()
        assert not list(tmp_path.glob("*it.*"))
    # Neither needs another read there.
    cp.good("--manifest", tmp_path / "it.b3sum", source, "far:there/")
    record = cp.good("--verify", "far:there/source", tmp_path / "back")
    assert record.verification is not None
    assert record.verification.agrees


def held(cp: Copier, pid: int) -> dict[str, str]:
    """What the kernel says holds a process, and how large a core dump of it may be."""
    asked = ["cat", f"/proc/{pid}/status", f"/proc/{pid}/limits"]
    shown = cp.lab.run("far", asked, capture_output=True, text=True, check=True).stdout.splitlines()
    status = {key: value.strip() for key, _, value in (line.partition(":") for line in shown)}
    core = next(line.split()[-3:-1] for line in shown if line.startswith("Max core file size"))
    return {"NoNewPrivs": status["NoNewPrivs"], "Seccomp": status["Seccomp"], "core": "/".join(core)}


def test_copies_go_into_the_folder_and_out_of_it_also_through_a_kept_login(
    cp: Copier, force: Force, root: Path, source: Path, tmp_path: Path
) -> None:
    force()
    done = cp(source, "far:/")
    assert done.returncode == 0, done.stderr
    assert "far end: paths begin at the folder of this login, to read and write; " + HELD in done.stderr
    assert tree(root / "source") == tree(source)
    waiting = far_end(cp, processes=2)
    # It is confined some moments after its overseer has begun.
    wait_until(lambda: held(cp, waiting) == CONFINED, STOP_S)
    # In the home folder of this login, which is the folder, and by the far end that waited.
    cp.good("far:source", tmp_path / "back")
    wait_until(lambda: far_end(cp, processes=2) != waiting, STOP_S + SLACK_S)
    assert tree(tmp_path / "back") == tree(source)
    # Nothing is sent again.
    assert cp.good(source, "far:").outcome.files_skipped == 41


def test_the_program_that_is_brought_serves_a_folder_as_well(
    cp: Copier, force: Force, root: Path, source: Path, tmp_path: Path
) -> None:
    packed = brought()
    if packed is None:
        missing("no far end to bring was built here; run scripts/far.sh")
    program = tmp_path / "howdah-far"
    program.write_bytes(gzip.decompress(Path(packed.path).read_bytes()))
    program.chmod(0o755)
    force(howdah=program)
    done = cp("--ports", "50000-50100", source, "far:/", HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 0, done.stderr
    assert "far end: paths begin at the folder of this login, to read and write; " + HELD in done.stderr
    assert tree(root / "source") == tree(source)
    assert refused(cp, source / "big", "far:relative/new").endswith(OUT)


def test_a_pipe_ends_in_the_folder_and_begins_there(cp: Copier, force: Force, root: Path) -> None:
    force()
    given = bytes(range(256)) * 20_000
    done = cp.piped("-", "far:sub/dump", given=given)
    assert done.returncode == 0, done.stderr
    assert (root / "sub/dump").read_bytes() == given
    assert cp.piped("far:/sub/dump", "-").stdout == given
    assert OUT.rstrip().encode() in cp.piped("-", "far:relative/dump", given=given).stderr
    assert OUT.rstrip().encode() in cp.piped("far:absolute/secret", "-").stderr


def test_wildcards_lead_nowhere_else(cp: Copier, force: Force, root: Path, tmp_path: Path) -> None:
    force()
    cp.good("far:s*/d?ta", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (root / "sub/data").read_bytes()
    for pattern in ("*/secret", "../*/secret", "relative/*", "/absolute/s?cret"):
        assert "nothing there matches" in refused(cp, f"far:{pattern}", tmp_path)


def test_no_path_leads_out(cp: Copier, force: Force, root: Path, source: Path, tmp_path: Path) -> None:
    force()
    outside = tree(tmp_path / "outside")
    got = tmp_path / "got"
    for path in ("../outside/new", "relative/new", "/absolute/new", "relative", "../new/"):
        said = refused(cp, source / "big", f"far:{path}")
        assert said.endswith(OUT), said
    for path in ("../outside/secret", "/../outside", "relative/secret", "absolute", "relative/."):
        said = refused(cp, f"far:{path}", got)
        assert said.endswith(OUT), said
    assert not got.exists()
    # Absolute paths are of the folder, also those that are there on the host.
    said = refused(cp, f"far:{tmp_path}/outside/secret", got)
    assert said.endswith("no such file or folder\n")
    done = cp(source / "big", "far:~/big")
    assert done.returncode == 0, done.stderr
    assert (root / "big").read_bytes() == (source / "big").read_bytes()
    assert tree(tmp_path / "outside") == outside
    assert not (tmp_path / "new").exists()


def test_a_login_that_reads_alone_takes_nothing(
    cp: Copier, force: Force, root: Path, source: Path, tmp_path: Path
) -> None:
    force("--read-only")
    before = tree(root)
    for arguments in ((source, "far:new"), ("--dry-run", source, "far:new"), ("--memory", "1MiB", "far:")):
        said = refused(cp, *arguments)
        assert "this login may only read here, so nothing is copied to it; copy from it" in said
        assert tree(root) == before
    done = cp("far:/sub", tmp_path / "sub")
    assert done.returncode == 0, done.stderr
    assert "of this login, to read alone; " + HELD in done.stderr
    assert tree(tmp_path / "sub") == tree(root / "sub")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((), "this login is for copies alone, without a shell"),
        (("true",), "it does not run: true"),
        (("touch WITNESS",), "it does not run: touch "),
        (("howdah serve; touch WITNESS",), "it does not run: howdah serve; touch "),
        (("howdah serve --root /",), "it does not run: howdah serve --root /"),
        (("$(touch WITNESS) serve",), "it does not run: $(touch "),
        (("howdah respond",), "it does not run: howdah respond"),
        (("'unclosed",), "it does not run: 'unclosed"),
    ],
)
def test_nothing_else_is_run(
    cp: Copier, force: Force, tmp_path: Path, asked: tuple[str, ...], says: str
) -> None:
    force()
    witness = tmp_path / "witness"
    words = [word.replace("WITNESS", str(witness)) for word in asked]
    done = cp.lab.run(
        "near", ["ssh", "-T", "far", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert not witness.exists()


def test_a_probe_is_refused_in_one_line(cp: Copier, force: Force) -> None:
    force()
    argv = [sys.executable, "-m", "howdah", "probe", "--udp", "far"]
    done = cp.lab.run("near", argv, env=cp.env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "far: this login is for copies by howdah cp alone, it does not run: howdah respond" in done.stderr


def test_a_folder_that_is_gone_is_named(cp: Copier, force: Force, root: Path, source: Path) -> None:
    force()
    root.rename(root.with_name("moved"))
    said = cp.refused(source, "far:")
    assert said == f"howdah: far: cannot serve {root}: No such file or directory\n"


def test_an_ordinary_far_end_is_hardened_as_well(cp: Copier, source: Path, tmp_path: Path) -> None:
    cp.good(source, f"far:{tmp_path}/new")
    waiting = far_end(cp)
    wait_until(lambda: held(cp, waiting) == CONFINED, STOP_S)
