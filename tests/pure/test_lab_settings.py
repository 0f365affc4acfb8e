"""Claims on the host's settings, on a folder that stands in for /."""

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from howdah._native import HowdahError
from howdah.lab.processes import Identity
from howdah.lab.settings import BUFFERS, CONGESTION_CONTROLS, MEMORY, PAGE_REPORTING, Settings, needed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name, value in {
        CONGESTION_CONTROLS: "reno bbr",
        MEMORY: "10 20 900000000",
        **dict.fromkeys(BUFFERS, "4194304"),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(value + "\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path, root: Path) -> Settings:
    return Settings(tmp_path / "run", root)


@pytest.fixture
def other() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def identity(pid: int) -> Identity:
    found = Identity.of(pid)
    assert found is not None
    return found


def current(root: Path) -> tuple[list[str], str]:
    return (root / CONGESTION_CONTROLS).read_text().split(), (root / BUFFERS[0]).read_text().strip()


def test_one_lab_sets_and_puts_back(settings: Settings, root: Path, tmp_path: Path) -> None:
    own = identity(os.getpid())
    assert settings.claim(own, needed("cubic", 10**8)) == []
    assert current(root) == (["reno", "bbr", "cubic"], "100000000")
    settings.release(own)
    assert current(root) == (["reno", "bbr"], "4194304")
    assert list((tmp_path / "run").iterdir()) == []


def test_what_is_enough_already_is_left_alone(settings: Settings, root: Path) -> None:
    settings.claim(identity(os.getpid()), needed("bbr", 1000))
    assert current(root) == (["reno", "bbr"], "4194304")


def test_memory_is_the_larger_of_each_number(settings: Settings, root: Path) -> None:
    own = identity(os.getpid())
    settings.claim(own, needed("cubic", 10**8))
    rest, pressure, most = map(int, (root / MEMORY).read_text().split())
    assert 10 < rest < pressure < 4 * 10**8 // mmap.PAGESIZE
    assert most == 900_000_000
    settings.release(own)
    assert (root / MEMORY).read_text().split() == ["10", "20", "900000000"]


def test_the_first_that_ends_takes_nothing_from_the_other(
    settings: Settings, root: Path, other: "subprocess.Popen[bytes]"
) -> None:
    first, second = identity(os.getpid()), identity(other.pid)
    settings.claim(first, needed("cubic", 3 * 10**8))
    settings.claim(second, needed("cubic", 10**8))
    assert current(root)[1] == "300000000"
    settings.release(first)
    assert current(root) == (["reno", "bbr", "cubic"], "100000000")
    settings.release(second)
    assert current(root) == (["reno", "bbr"], "4194304")


def test_claims_of_the_dead_are_dropped_by_whoever_comes_next(
    settings: Settings, root: Path, other: "subprocess.Popen[bytes]"
) -> None:
    settings.claim(identity(other.pid), needed("cubic", 10**8))
    other.kill()
    other.wait()
    settings.prune()
    assert current(root) == (["reno", "bbr"], "4194304")


def test_a_reused_process_number_is_another_process() -> None:
    own = identity(os.getpid())
    assert own.alive()
    assert not msgspec.structs.replace(own, start_ticks=own.start_ticks + 1).alive()
    assert not msgspec.structs.replace(own, boot_id="another").alive()


def test_a_process_of_another_namespace_is_taken_for_alive() -> None:
    own = identity(os.getpid())
    assert msgspec.structs.replace(own, namespace=own.namespace + 1, start_ticks=0).alive()


def test_a_change_by_somebody_else_is_theirs(settings: Settings, root: Path) -> None:
    own = identity(os.getpid())
    settings.claim(own, needed("cubic", 10**8))
    (root / BUFFERS[0]).write_text("7777777")
    settings.release(own)
    assert current(root) == (["reno", "bbr"], "7777777")


def test_claims_of_an_earlier_boot_mean_nothing(settings: Settings, root: Path, tmp_path: Path) -> None:
    settings.claim(identity(os.getpid()), needed("cubic", 10**8))
    file = tmp_path / "run" / "claims.json"
    ledger = msgspec.json.decode(file.read_bytes())
    file.write_bytes(msgspec.json.encode(ledger | {"boot_id": "before"}))
    (root / BUFFERS[0]).write_text("5000000")
    settings.prune()
    assert current(root)[1] == "5000000"
    assert not file.exists()


def test_a_missing_setting_is_told(settings: Settings, root: Path) -> None:
    (root / BUFFERS[1]).unlink()
    problems = settings.claim(identity(os.getpid()), needed("cubic", 10**8))
    assert problems == [f"/{BUFFERS[1]} could not be set: No such file or directory"]
    assert current(root)[1] == "100000000"


def test_pages_are_kept_from_the_hypervisor_where_they_would_go_to_it(settings: Settings, root: Path) -> None:
    own = identity(os.getpid())
    assert settings.claim(own, needed("cubic", 1)) == []
    assert not (root / PAGE_REPORTING).exists()
    settings.release(own)
    (root / PAGE_REPORTING).parent.mkdir(parents=True)
    (root / PAGE_REPORTING).write_text("9\n")
    settings.claim(own, needed("cubic", 1))
    assert (root / PAGE_REPORTING).read_text() == "11"
    settings.release(own)
    assert (root / PAGE_REPORTING).read_text() == "9"


def test_a_damaged_file_is_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "claims.json").write_text("{")
    with pytest.raises(HowdahError, match=r"claims\.json is damaged"):
        settings.claim(identity(os.getpid()), needed("cubic", 1))
