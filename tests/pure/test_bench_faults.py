"""The cases of bench faults: all kinds come in turn, a seed replays, what did not strike is no kind."""

from collections import Counter
from pathlib import Path

import pytest

import bench.faults.__main__ as faults
from bench.faults import trees
from bench.faults.cases import FAULTS, KINDS, LIES, MOMENTS, SHAPES, case
from bench.faults.disk import flip
from bench.faults.run import FINDINGS, Finding, Outcome
from bench.report import Row
from howdah import HowdahError

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
        assert moments == ({"written"} if fault in LIES else set(MOMENTS))
    assert len(KINDS) >= faults.KINDS_MIN


def test_many_cases_go_both_ways_in_all_shapes_and_each_replays() -> None:
    cases = [case(seed) for seed in range(MANY)]
    assert cases == [case(seed) for seed in range(MANY)]
    for fault in FAULTS:
        of_it = [each for each in cases if each.fault == fault]
        assert {each.shape for each in of_it} == set(SHAPES)
        ways = {True} if fault == "disk flips a bit before it is read again" else {True, False}
        assert {each.push for each in of_it} == ways
    assert {each.encrypt for each in cases} == {True, False}
    assert len({each.after_s for each in cases}) == MANY


def test_a_fault_that_did_not_strike_is_no_kind_of_point() -> None:
    whole = [outcome(seed) for seed in range(len(KINDS))]
    assert by_name(whole)["kinds of point in a transfer"].value == len(KINDS)
    half = [outcome(seed, struck=seed % 2 == 0) for seed in range(len(KINDS))]
    table = by_name(half)
    assert table["in which the fault met the copy"].value == table["kinds of point in a transfer"].value
    assert table["kinds of point in a transfer"].met is False
    assert "not struck" in faults.line(half[1])
    assert "not struck" not in faults.line(half[0])


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
