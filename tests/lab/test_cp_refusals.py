import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from copying import Copier, tree

from howdah import lab
from howdah.lab import Lab
from howdah.values.record import Record

pytestmark = [pytest.mark.lab, pytest.mark.beside]

POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
"""Root to whom file permissions apply."""


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    with lab.started(lab.symmetric(1_000_000_000, 2_000_000), sshd=True) as up:
        yield up


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    top.mkdir()
    for number in range(20):
        (top / f"file-{number}").write_bytes(os.urandom(300_000))
    return top


@pytest.fixture
def small(cp: Copier, tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB, seen in the lab only."""
    mount = tmp_path / "small"
    mount.mkdir()
    cp.lab.run("far", ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mount)], check=True)
    yield mount
    cp.lab.run("far", ["umount", str(mount)], check=True)


def test_an_unknown_host(cp: Copier, source: Path) -> None:
    said = cp.refused(source, "nowhere.invalid:/tmp/x")
    assert "unknown host nowhere.invalid; check the name" in said


def test_a_host_that_refuses_ssh(cp: Copier, source: Path) -> None:
    said = cp.refused(source, "far:/tmp/x", HOWDAH_SSH="ssh -p 1")
    assert "far refuses ssh: nothing listens on port 1 there; start sshd" in said


def test_a_login_that_is_refused(cp: Copier, source: Path) -> None:
    said = cp.refused(source, "far:/tmp/x", HOWDAH_SSH="ssh -o PubkeyAuthentication=no")
    assert "far refuses the login; first make this work: ssh far true" in said


def test_a_host_key_nobody_knows(cp: Copier, source: Path) -> None:
    said = cp.refused(source, "far:/tmp/x", HOWDAH_SSH="ssh -o UserKnownHostsFile=/dev/null")
    assert "the host key of far is not known" in said


def test_no_ssh_here(cp: Copier, source: Path) -> None:
    assert "no-such-ssh is not installed on this host" in cp.refused(
        source, "far:/tmp/x", HOWDAH_SSH="no-such-ssh"
    )


def test_no_howdah_there(cp: Copier, source: Path) -> None:
    said = cp.refused(source, "far:/tmp/x", "--far-howdah", "/opt/none/howdah")
    assert "howdah was not found on far; install it there as docs/install.md says" in said


def test_something_else_there(cp: Copier, source: Path) -> None:
    for other in ("/bin/echo", "/bin/cat", "/bin/true", "/bin/false"):
        assert "far" in cp.refused(source, "far:/tmp/x", "--far-howdah", other)


@pytest.mark.parametrize("pull", [False, True])
def test_no_such_source(cp: Copier, tmp_path: Path, pull: bool) -> None:
    names = (f"far:{tmp_path}/none", tmp_path / "dst") if pull else (tmp_path / "none", f"far:{tmp_path}/dst")
    said = cp.refused(*names)
    assert f"{tmp_path}/none" in said
    assert "no such file" in said.lower()
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize("pull", [False, True])
def test_a_tree_onto_a_file(cp: Copier, source: Path, tmp_path: Path, pull: bool) -> None:
    (tmp_path / "dst").write_text("mine")
    said = (
        cp.refused(f"far:{source}", tmp_path / "dst") if pull else cp.refused(source, f"far:{tmp_path}/dst")
    )
    assert f"{tmp_path}/dst" in said
    assert (tmp_path / "dst").read_text() == "mine"


def test_a_folder_on_the_way_that_is_a_file(cp: Copier, source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "file" in cp.refused(source, f"far:{tmp_path}/file/")
    assert "file" in cp.refused(source, f"far:{tmp_path}/file/deeper")


def test_a_parent_that_is_missing(cp: Copier, source: Path, tmp_path: Path) -> None:
    cp.refused(source, f"far:{tmp_path}/none/dst")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("pull", [False, True])
def test_a_file_system_that_is_read_only(cp: Copier, source: Path, small: Path, pull: bool) -> None:
    cp.lab.run("far", ["mount", "-o", "remount,ro", str(small)], check=True)
    for what in (source, source / "file-0"):
        said = cp.refused(f"far:{what}", small) if pull else cp.refused(what, f"far:{small}")
        assert f"{small}/{what.name}: its file system is read-only" in said


@pytest.mark.parametrize("pull", [False, True])
def test_no_space(cp: Copier, source: Path, small: Path, pull: bool) -> None:
    said = cp.refused(f"far:{source}", small) if pull else cp.refused(source, f"far:{small}")
    assert "o space left" in said
    listed = cp.lab.run(
        "far", ["find", str(small), "-type", "f", "-size", "-300000c"], capture_output=True, text=True
    )
    assert listed.stdout == "", "something half-written"


def test_no_permission_to_read(cp: Copier, source: Path, tmp_path: Path) -> None:
    (source / "file-3").chmod(0)
    (source / "closed").mkdir(mode=0)
    done = cp(source, f"far:{tmp_path}/dst", "--json", prefix=POWERLESS)
    assert done.returncode == 1
    record = msgspec.json.decode(done.stdout, type=Record)
    assert record.outcome is not None
    said = record.outcome.left_out
    assert {line.partition(";")[0] for line in said} == {
        f"no permission to read folder {source}/closed",
        f"no permission to read {source}/file-3",
    }
    assert record.error == (
        "2 files or folders could not be read or placed, or not kept as asked; everything else was copied"
    )
    assert sorted(done.stderr.splitlines()) == sorted(f"howdah: {line}" for line in [*said, record.error])
    there = tree(source)
    del there[b"file-3"]
    assert tree(tmp_path / "dst") == there


def test_no_permission_to_read_anything(cp: Copier, source: Path, tmp_path: Path) -> None:
    source.chmod(0)
    said = cp.refused(source, f"far:{tmp_path}/dst", prefix=POWERLESS)
    assert f"no permission to read {source}" in said
    assert not (tmp_path / "dst").exists()


def test_no_permission_to_write(cp: Copier, source: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    said = cp.refused(f"far:{source}", tmp_path / "closed", prefix=POWERLESS)
    assert "no permission to" in said
    assert not list((tmp_path / "closed").iterdir())


def test_no_permission_to_write_in_one_folder(cp: Copier, source: Path, tmp_path: Path) -> None:
    for name in ("kept/old", "kept/new", "kept/below/new"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("new")
    target = tmp_path / "dst"
    (target / "kept").mkdir(parents=True)
    (target / "kept" / "old").write_text("an old one")
    os.chown(target / "kept", 12345, 12345)
    for files in (20, 0):
        done = cp(f"far:{source}/.", target, "--json", prefix=POWERLESS)
        assert done.returncode == 1
        record = msgspec.json.decode(done.stdout, type=Record)
        assert record.outcome is not None
        refused = f"no permission to write into folder {target}/kept; check its owner and mode"
        assert record.outcome.left_out == [refused]
        assert record.outcome.files == files
        there, here = (
            {path: node for path, node in tree(root).items() if not path.startswith(b"kept")}
            for root in (source, target)
        )
        assert here == there
        assert [path.name for path in (target / "kept").iterdir()] == ["old"]
        assert (target / "kept" / "old").read_text() == "an old one"


def test_more_sources_than_one_copy_takes(cp: Copier, source: Path, tmp_path: Path) -> None:
    assert "4097 sources are too many for one copy; name up to 4096" in cp.refused(
        *[source / "file-0"] * 4097, f"far:{tmp_path}/dst/"
    )


def test_a_control_the_kernel_has_not(cp: Copier) -> None:
    assert "--cc vegas42: the kernel of the sender, this host" in cp.refused(
        "--memory", "1MiB", "--cc", "vegas42", "far:"
    )


def test_a_guaranteed_path_without_a_class(cp: Copier) -> None:
    assert "--class images" in cp.refused("--memory", "1MiB", "--path", "guaranteed", "far:")


def test_numbers_without_units_or_out_of_range(cp: Copier) -> None:
    unread = cp("--memory", "10", "far:")
    assert (unread.returncode, unread.stdout, unread.stderr.count("\n")) == (2, "", 1)
    assert "10" in unread.stderr
    assert "--streams 0" in cp.refused("--memory", "1MiB", "--streams", "0", "far:")
    assert "--buffer 1" in cp.refused("--memory", "1MiB", "--buffer", "1B", "far:")


def test_a_plan_that_is_none(cp: Copier, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"schema":1,"streams":"many","block_bytes":1048576}')
    said = cp.refused("--memory", "1MiB", "--plan", tmp_path / "plan.json", "far:")
    assert "plan.json is not a plan: key streams: expected int, got str" in said


def test_with_json_the_error_is_in_the_record(cp: Copier, source: Path) -> None:
    done = cp(source, "nowhere.invalid:/tmp/x", "--json")
    assert done.returncode == 1
    record = msgspec.json.decode(done.stdout, type=Record)
    assert record.error is not None
    assert "unknown host" in record.error
    assert record.outcome is None
    assert record.error in done.stderr


def test_a_failed_copy_leaves_no_process_and_keeps_nothing_half(
    cp: Copier, source: Path, small: Path
) -> None:
    before = cp.processes().keys()
    cp.refused(source, f"far:{small}")
    assert not {pid: args for pid, args in cp.processes().items() if pid not in before}
    assert tree(small) == {}


def test_a_dry_run_needs_no_address_for_data(cp: Copier, source: Path, tmp_path: Path) -> None:
    """The name that ssh reaches the far host by is one that this host does not resolve."""
    ssh = tmp_path / "ssh"
    asks = '*" -G "*) exec ssh -o HostName=nowhere.invalid "$@";;'
    ssh.write_text(f'#!/bin/sh\ncase " $* " in {asks} esac\nexec ssh "$@"\n')
    ssh.chmod(0o700)
    planned = cp.good("--dry-run", source, f"far:{tmp_path}/x", HOWDAH_SSH=str(ssh))
    assert planned.outcome is not None and planned.outcome.dry_run_plan is not None
    files = [each for each in planned.outcome.dry_run_plan if each.kind == "file"]
    assert len(files) == 20
