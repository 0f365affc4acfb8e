"""What leaves an archive and comes into another is the same."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import msgspec
import pytest
from samples import howdah, record, run, sample
from test_archive_store import expected_traces, traces, whole

from howdah import HowdahError
from howdah.archive import Archive
from howdah.archive.exchange import Exported, Received, export, import_, merge
from howdah.archive.store import Selection
from howdah.values.record import Record, dumps

ALL = Selection()


def filled(root: Path, count: int = 3) -> tuple[Archive, list[Record]]:
    """An archive of runs in several months, with traces and without, one of them with digests."""
    archive = Archive(root)
    records = [record(0)]
    for i in range(count):
        samples = [sample(t / 10, t % 2, ssthresh=t or None, limited="app") for t in range(3 * i)]
        records.append(run((i + 1) * 20 * 86400, samples=samples, buffer_bytes=4096 * i or None))
    for each in records:
        archive.save(each)
    archive.inbox.digests(records[0].id).write_text("00  a\n")
    return archive, records


def by_export(source: Archive, target: Archive, tmp_path: Path) -> Received:
    export(source.inbox, ALL, tmp_path / "exported")
    return import_(target.inbox, tmp_path / "exported")


def by_merge(source: Archive, target: Archive, tmp_path: Path) -> Received:
    return merge(target.inbox, source.root)


@pytest.fixture(params=[by_export, by_merge])
def carry(request: pytest.FixtureRequest) -> Callable[[Archive, Archive, Path], Received]:
    carried: Callable[[Archive, Archive, Path], Received] = request.param
    return carried


def files(root: Path) -> dict[Path, bytes]:
    return {file.relative_to(root): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_what_is_carried_over_is_the_same(
    tmp_path: Path, carry: Callable[[Archive, Archive, Path], Received]
) -> None:
    source, records = filled(tmp_path / "source")
    target = Archive(tmp_path / "target")
    own = run(7)
    target.save(own)
    assert carry(source, target, tmp_path) == Received(new=4, known=0, unreadable=[])
    assert whole(target) == sorted([*records, own], key=lambda each: each.id)
    assert traces(target) == expected_traces(records)
    assert target.inbox.digests(records[0].id).read_text() == "00  a\n"


def test_carried_over_again_nothing_is_new(
    tmp_path: Path, carry: Callable[[Archive, Archive, Path], Received]
) -> None:
    source, records = filled(tmp_path / "source")
    target = Archive(tmp_path / "target")
    target.save(records[2])
    assert carry(source, target, tmp_path) == Received(new=3, known=1, unreadable=[])
    before = traces(target)
    assert merge(target.inbox, source.root) == Received(new=0, known=4, unreadable=[])
    assert traces(target) == before


@pytest.mark.parametrize("taken_in", [True, False])
def test_merging_leaves_the_other_archive_as_it_is(tmp_path: Path, taken_in: bool) -> None:
    source, records = filled(tmp_path / "source")
    if taken_in:
        assert len(list(source.newest())) == 4
    later = run(99)
    source.save(later)
    before = files(source.root)
    assert merge(Archive(tmp_path / "target").inbox, source.root).new == 5
    assert files(source.root) == before
    assert whole(Archive(tmp_path / "target")) == sorted([*records, later], key=lambda each: each.id)


def test_a_record_of_a_newer_schema_is_named_and_the_rest_carried_over(tmp_path: Path) -> None:
    source, _ = filled(tmp_path / "source")
    newer = record(5)
    source.save(newer).write_bytes(dumps(newer).replace(b'"schema": 1', b'"schema": 2', 1))
    received = merge(Archive(tmp_path / "target").inbox, source.root)
    assert received.new == 4
    (problem,) = received.unreadable
    assert newer.id in problem
    assert "schema 2" in problem


def test_the_exported_table_is_for_others_to_read(tmp_path: Path) -> None:
    source, records = filled(tmp_path / "source")
    exported = export(source.inbox, ALL, tmp_path / "out")
    assert exported.runs == 4
    with duckdb.connect() as engine:
        rows = engine.execute(
            "SELECT id, kind, streams, buffer_bytes, rate_bps, late, memory, json ->> '$.id' FROM "
            "read_parquet($1) ORDER BY id",
            [str(tmp_path / "out" / "runs.parquet")],
        ).fetchall()
        counts = engine.execute(
            "SELECT id, count(*) FROM read_parquet($1) GROUP BY ALL ORDER BY ALL",
            [str(tmp_path / "out" / "traces" / "*" / "*" / "*.parquet")],
        ).fetchall()
    bare, *runs = records
    assert rows[0] == (bare.id, "transfer", None, None, None, False, None, bare.id)
    buffers = [each.plan.buffer_bytes for each in runs if each.plan]
    assert rows[1:] == [
        (each.id, "transfer", 2, size, 1e9, False, True, each.id)
        for each, size in zip(runs, buffers, strict=True)
    ]
    assert counts == [(runs[1].id, 3), (runs[2].id, 6)]


def test_only_what_was_selected_is_exported(tmp_path: Path) -> None:
    source, records = filled(tmp_path / "source")
    export(source.inbox, Selection(since=records[2].id), tmp_path / "out")
    target = Archive(tmp_path / "target")
    assert import_(target.inbox, tmp_path / "out").new == 2
    assert whole(target) == records[2:]
    with pytest.raises(HowdahError, match="no record of the sweep 'nosuch' matches"):
        export(source.inbox, Selection(sweep="nosuch"), tmp_path / "nosuch")
    assert not (tmp_path / "nosuch").exists()
    export(source.inbox, Selection(kind="bench"), tmp_path / "none")
    assert import_(target.inbox, tmp_path / "none").new == 0


def test_what_cannot_be_carried_over_is_told(tmp_path: Path) -> None:
    source, _ = filled(tmp_path / "source")
    out = tmp_path / "out"
    export(source.inbox, ALL, out)
    with pytest.raises(HowdahError, match="exists; export to a folder that does not exist yet"):
        export(source.inbox, ALL, out)
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    with pytest.raises(HowdahError, match="link exists; export to a folder that does not exist yet"):
        export(source.inbox, ALL, link)
    with pytest.raises(HowdahError, match="it is an archive, merge it"):
        import_(Archive(tmp_path / "target").inbox, source.root)
    with pytest.raises(HowdahError, match="it is an exported folder, import it"):
        merge(Archive(tmp_path / "target").inbox, out)
    with pytest.raises(HowdahError, match="this archive itself"):
        merge(source.inbox, source.root)
    with pytest.raises(HowdahError, match="has no records"):
        merge(source.inbox, tmp_path / "nowhere")
    table = (out / "runs.parquet").read_bytes()
    footer = int.from_bytes(table[-8:-4], "little")
    no_schema = table[: -8 - footer] + bytes(footer) + table[-8:]
    for damaged in (b"", b"no Parquet", table[: len(table) // 2], no_schema):
        (out / "runs.parquet").write_bytes(damaged)
        with pytest.raises(
            HowdahError, match=r"runs.parquet is damaged, .*; copy the exported folder again"
        ) as problem:
            import_(Archive(tmp_path / "target").inbox, out)
        assert "\n" not in str(problem.value)


def removed(trace: Path) -> None:
    trace.unlink()


def folder_removed(trace: Path) -> None:
    shutil.rmtree(trace.parents[2])


def cut_short(trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[:-100])


def one_sample_missing(trace: Path) -> None:
    with duckdb.connect() as engine:
        engine.read_parquet(str(trace)).filter("sample > 0").create("kept")
        engine.table("kept").write_parquet(str(trace))


@pytest.mark.parametrize("lose", [removed, folder_removed, cut_short, one_sample_missing])
def test_a_run_whose_samples_are_lost_is_left_out_until_they_are_there(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    source, records = filled(tmp_path / "source", count=2)
    target = Archive(tmp_path / "target")
    out = tmp_path / "out"
    export(source.inbox, ALL, out)
    shutil.copytree(out, tmp_path / "again")
    (trace,) = out.rglob("samples-0.parquet")
    lose(trace)
    received = import_(target.inbox, out)
    assert (received.new, received.known) == (2, 0)
    assert whole(target) == records[:2]
    (problem,) = received.unreadable
    assert f"left out 1 run, {records[2].id}: " in problem
    assert problem.endswith("; copy the exported folder again, then import it")
    assert ("is damaged" in problem) == (lose is cut_short)
    assert import_(target.inbox, tmp_path / "again") == Received(new=1, known=2, unreadable=[])
    assert whole(target) == records


def test_the_commands_say_what_they_did(tmp_path: Path) -> None:
    filled(tmp_path / "a" / "howdah" / "records")
    a, b = ({"XDG_DATA_HOME": str(tmp_path / name)} for name in "ab")
    out = str(tmp_path / "out")
    written = howdah("archive", "export", "--json", out, **a)
    assert written.stderr == ""
    exported = msgspec.json.decode(written.stdout, type=Exported)
    assert (exported.runs, exported.folder) == (4, out)
    assert exported.size_bytes == sum(len(content) for content in files(Path(out)).values())
    imported = howdah("archive", "import", out, **b)
    assert (imported.stdout, imported.stderr) == ("Imported 4 runs; 0 were here already\n", "")
    merged = howdah("archive", "merge", str(tmp_path / "a" / "howdah" / "records"), **b)
    assert merged.stdout == "Imported 0 runs; 4 were here already\n"
    shutil.rmtree(Path(out) / "traces")
    lacking = howdah("archive", "import", out, XDG_DATA_HOME=str(tmp_path / "c"))
    assert (lacking.returncode, lacking.stdout) == (1, "Imported 2 runs; 0 were here already\n")
    assert lacking.stderr.count("howdah: left out 1 run, ") == 2
    again = howdah("archive", "export", out, **a)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert (
        "x is not one of transfer, traffic, probe, link, bench; see: howdah archive ls --help"
        in howdah("archive", "ls", "--kind", "x", **a).stderr
    )
