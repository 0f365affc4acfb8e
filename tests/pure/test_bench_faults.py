"""The cases of bench faults: all kinds come in turn, a seed replays, what did not strike is no kind."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from requirement import missing

import bench.faults.__main__ as faults
from bench.faults import late, trees
from bench.faults.cases import (
    FAILING,
    FAULTS,
    KINDS,
    LATE_FAILURES,
    LATE_FAULTS,
    LATE_MOMENTS,
    LIES,
    MOMENTS,
    SHAPES,
    TREES,
    Failure,
    Moment,
    case,
)
from bench.faults.disk import flip
from bench.faults.failing import FailingDisk
from bench.faults.look import BESIDE, FINDINGS, Finding, Look
from bench.faults.run import Outcome
from bench.faults.strikes import Scene
from bench.report import Row
from howdah import HowdahError, lab
from howdah.lab import Lab

MANY = 10_000


def outcome(seed: int, *findings: Finding, struck: bool = True) -> Outcome:
    fault, moment = case(seed).kind
    return Outcome(seed, fault, moment, struck, 0, "", 1, findings, 1.0)


def by_name(outcomes: list[Outcome]) -> dict[str, Row]:
    return {row.what: row for row in faults.rows(outcomes)}


@pytest.mark.parametrize("first", [0, 5, 770])
def test_all_kinds_come_in_turn_from_any_seed_on(first: int) -> None:
    drawn = [case(seed).kind for seed in range(first, first + len(KINDS))]
    assert Counter(drawn) == Counter(KINDS)
    assert {fault for fault, _ in drawn} == set(FAULTS)


def test_a_fault_comes_at_every_moment_and_a_lie_of_a_disk_when_all_is_written() -> None:
    for fault in FAULTS:
        moments = {moment for other, moment in KINDS if other == fault}
        late = set(LATE_MOMENTS) if fault in LATE_FAULTS else set()
        if fault in FAILING:
            late = {moment for moment, failures in LATE_FAILURES.items() if FAILING[fault].what in failures}
        assert moments == ({"written"} if fault in LIES else set(MOMENTS) | late)
    assert len(KINDS) >= faults.KINDS_MIN


def test_many_cases_go_both_ways_in_all_shapes_and_each_replays() -> None:
    cases = [case(seed) for seed in range(MANY)]
    assert cases == [case(seed) for seed in range(MANY)]
    for fault in FAULTS:
        of_it = [each for each in cases if each.fault == fault]
        makes_folders = fault in FAILING and FAILING[fault].what == "folders"
        assert {each.shape for each in of_it} == set(TREES if makes_folders else SHAPES)
        ways = {True} if fault == "disk flips a bit before it is read again" else {True, False}
        assert {each.push for each in of_it} == ways
    for moment, shapes in LATE_MOMENTS.items():
        assert {each.shape for each in cases if each.moment == moment} == set(shapes)
    assert {each.encrypt for each in cases} == {True, False}
    assert len({each.after_s for each in cases}) == MANY


def test_a_fault_that_did_not_strike_is_no_kind_of_point() -> None:
    whole = [outcome(seed) for seed in range(len(KINDS))]
    assert by_name(whole)["kinds of point in a transfer"].value == len(KINDS)
    some = [outcome(seed, struck=seed % 5 == 0) for seed in range(len(KINDS))]
    table = by_name(some)
    assert table["in which the fault met the copy"].value == table["kinds of point in a transfer"].value
    assert table["kinds of point in a transfer"].met is False
    assert "not struck" in faults.line(some[1])
    assert "not struck" not in faults.line(some[0])


def test_a_disk_fails_each_time_and_in_two_ways() -> None:
    assert Counter(failing.what for failing in FAILING.values()) == dict.fromkeys(get_args(Failure), 2)
    assert Counter(failing.once for failing in FAILING.values()) == {True: 7, False: 7}


@pytest.mark.parametrize("what", FINDINGS)
def test_each_finding_fails_the_bench(what: str) -> None:
    assert by_name([outcome(0)])[what].met is True
    assert by_name([outcome(0, Finding(what, "x"), struck=False)])[what].met is False


def test_a_case_that_breaks_is_a_finding_and_did_not_strike(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Outcome:
        raise HowdahError("no lab today")

    monkeypatch.setattr(faults, "carry_out", broken)
    found = faults.run(7)
    assert (found.struck, found.fault) == (False, case(7).fault)
    assert [each.what for each in found.findings] == ["no verdict"]
    assert "no lab today" in found.findings[0].detail


TOLD = (
    "howdah: far end: cannot write {}: its disk has failed (Input/output error); look into the kernel's log "
    "(dmesg), and run the same command again when the disk is well\n"
)


def test_a_disk_that_failed_is_told_of_by_the_words_for_it_and_a_place_on_it() -> None:
    room = Path("/room")
    disk = FailingDisk(room, Path("/failing"))
    names = {room / "target", room / "target/source/a b", Path("/sender/source/a b")}

    def untold(said: str, what: Failure = "writes", code: int = 1) -> bool:
        return disk.untold(what, code, said, names) is not None

    for place in ("target/source/a b", "target/source/.a b.howdah-part", "target/", "target"):
        assert not untold(TOLD.format(f"/failing/{place}"))
    for place in ("target/source/c", "", "target/source/a b/c"):
        assert untold(TOLD.format(f"/failing/{place}"))
    link = TOLD.replace("write", "link").format("/failing/target/source/{} to /failing/target/{}")
    assert not untold(link.format("a b", "c"))
    assert untold(link.format("c", "source/a b"))
    # Not by the path of the folder that the disk shows, which is well.
    assert untold(TOLD.format("/room/target/source/a b"))
    for said in (
        "",
        "howdah: its disk has failed",
        "howdah: cannot write /failing/target: no such file or folder",
    ):
        assert untold(said)
    # Bytes that were lost are never all well; what was tried again may be.
    assert [untold("", what, 0) for what in get_args(Failure)] == [True] * 3 + [False] * 4


def test_a_bit_is_flipped_where_the_image_has_the_part_and_nowhere_else(tmp_path: Path) -> None:
    image, part = tmp_path / "image", bytes(range(64))
    with image.open("wb") as stream:
        stream.truncate(8 << 20)
        stream.seek(5 << 20)
        stream.write(b"before" + part + b"after")
    before = image.read_bytes()
    assert not flip(image, bytes(reversed(part)))
    assert image.read_bytes() == before
    assert flip(image, part)
    after = image.read_bytes()
    differing = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert differing == [(5 << 20) + len(b"before")]
    assert after[differing[0]] == part[0] ^ 1
    assert not flip(image, part)


def test_the_biggest_file_and_the_bytes_of_a_source_are_of_its_files_alone(tmp_path: Path) -> None:
    trees.make(tmp_path, "tree", 3)
    source = tmp_path / "source"
    sizes = {
        each: each.stat().st_size for each in source.rglob("*") if each.is_file() and not each.is_symlink()
    }
    assert trees.size_bytes(source) == sum(sizes.values())
    assert sizes[trees.biggest_file(source)] == max(sizes.values())


@pytest.mark.parametrize("moment", LATE_MOMENTS)
def test_a_step_after_the_last_byte_is_in_its_middle_when_some_of_it_is_done(
    tmp_path: Path, moment: Moment
) -> None:
    where = tmp_path / "target" / "source"
    trees.make_extraneous(where, "beside")
    step = late.step(moment, where)
    first, second, *_ = step.names
    for name in (first, second):
        name.parent.mkdir(parents=True, exist_ok=True)
        if moment == "attributes of folders":
            name.mkdir()
        elif moment == "other names":
            name.touch()
    assert step.done() == 0.0
    match moment:
        case "removal":
            first.unlink()
        case "other names":
            os.link(first, tmp_path / "again")
        case _:
            os.utime(first, (trees.OLD, trees.OLD))
    assert step.done() == 1 / len(step.names)


def test_no_older_file_has_size_and_time_of_the_sources(tmp_path: Path) -> None:
    # By chance an older file of this seed has the size of the source's, so only its time tells them apart.
    source, target = tmp_path / "sender/source", tmp_path / "target/source"
    trees.make(source.parent, "tree over an older one", 489)
    trees.make_older(source, target, 489)
    there = [
        path for path in source.rglob("*") if path.is_file() and (target / path.relative_to(source)).exists()
    ]
    pairs = [(path.stat(), (target / path.relative_to(source)).stat()) for path in there]
    assert len([pair for pair in pairs if pair[0].st_size == pair[1].st_size]) == 1
    assert not [pair for pair in pairs if pair[0].st_mtime_ns == pair[1].st_mtime_ns]


def test_what_is_kept_is_compared_and_names_of_one_file_are(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("only root gives files to others; run as root")
    trees.make(tmp_path, "kept", 3)
    source = tmp_path / "source"
    before = trees.tree(source, kept=True)
    assert {node.kind for node in before.values()} == {"file", "folder", "link", "special"}
    named = before["names 1/1 0"] if "names 1/1 0" in before else before["names 2/1 1"]
    assert named.kept[-1] != "names 2/1 1"
    changes: list[Callable[[], object]] = [
        lambda: os.chown(source / "middle 6", 7, 7),
        lambda: os.chown(source / "link", 7, 7, follow_symlinks=False),
        lambda: os.setxattr(source / "middle 7", "user.other", b"x"),
        lambda: os.utime(source / "folders" / "1", (1, 1)),
    ]
    for change in changes:
        change()
        after = trees.tree(source, kept=True)
        assert len([name for name, node in after.items() if before[name] != node]) == 1
        before = after
    # A file of its own in place of a name, with all that the name had.
    (source / "names 2/1 1").unlink()
    subprocess.run(["cp", "--archive", source / "names 1/0", source / "names 2/1 1"], check=True)
    after = trees.tree(source, kept=True)
    assert "names 2/1 1" in {name for name, node in after.items() if before[name] != node}


def test_a_mirror_may_lose_what_the_source_has_not_when_all_it_has_is_there(tmp_path: Path) -> None:
    """Each way in which a mirror can have removed too much is found."""
    room = tmp_path / "receiver"
    mirrors = (each for each in map(case, range(MANY)) if each.shape == "mirror")
    mirror = next(each for each in mirrors if each.fault == "far killed")
    scene = Scene(
        mirror,
        Lab(lab.symmetric(1_000_000, 0)),
        tmp_path / "source",
        room / "target",
        room,
        None,
        room,
        0.0,
        0.0,
    )
    trees.make(tmp_path, "tree", mirror.seed)
    shutil.copytree(scene.source, scene.where, symlinks=True)
    trees.make_extraneous(scene.where, BESIDE)
    look = Look(scene)

    def found(exit_code: int) -> list[str]:
        return sorted(each.what for each in look.at_what_is_left(exit_code))

    assert found(0) == []
    trees.some_extraneous(scene.where)[0].unlink()
    assert found(1) == []
    assert [each.what for each in look.at_both_sides("now")] == ["leftover"]
    (scene.where / "middle 3").unlink()
    assert found(1) == ["lost", "removed too early"]
    (scene.where / "middle 3").write_bytes(b"neither the older nor the new one")
    assert found(1) == ["removed too early", "wrong bytes"]
    shutil.rmtree(scene.target / BESIDE)
    assert found(1) == ["lost", "removed too early", "wrong bytes"]
