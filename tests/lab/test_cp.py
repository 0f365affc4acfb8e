import json
import os
import re
import stat
from pathlib import Path

import msgspec
import pytest
from copying import Copier, tree

from howdah.lab.topology import ADDRESSES6

pytestmark = [pytest.mark.lab, pytest.mark.beside]

NAMES = [
    b"plain",
    b"new\nline",
    b"\xff\xfe not utf-8",
    "häß".encode(),
    b"a:b",
    b"-dash",
    b" space ",
    b"q'\"\\$",
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A tree with one of everything."""
    top = tmp_path / "src"
    (top / "deep" / "er").mkdir(parents=True)
    (top / "empty folder").mkdir(mode=0o750)
    (top / "big").write_bytes(os.urandom(3_000_001))
    (top / "none").write_bytes(b"")
    (top / "deep" / "er" / "run").write_text("#!/bin/sh\n")
    (top / "deep" / "er" / "run").chmod(0o755)
    for number, name in enumerate(NAMES):
        (top / "deep" / os.fsdecode(name)).write_bytes(b"x" * number * 1000)
    for number in range(200):
        (top / "deep" / "er" / f"small-{number}").write_bytes(os.urandom(number * 7))
    (top / "deep" / "secret").write_text("s")
    (top / "deep" / "secret").chmod(0o600)
    (top / "link").symlink_to("deep/er/run")
    (top / "dangling").symlink_to("nowhere")
    (top / "up").symlink_to("../..")
    os.utime(top / "big", ns=(1_000_000_000_123_456_789, 1_234_567_890_123_456_789))
    os.utime(top / "link", ns=(1, 1_111_111_111_000_000_001), follow_symlinks=False)
    return top


def test_more_sources_than_a_shell_lets_open(cp: Copier, tmp_path: Path) -> None:
    sources = [tmp_path / f"file-{number}" for number in range(300)]
    for each in sources:
        each.write_text(each.name)
    done = cp(*sources, f"far:{tmp_path}/dst/", prefix=("prlimit", "--nofile=200:1000"))
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_text() for path in (tmp_path / "dst").iterdir()} == {
        path.name: path.name for path in sources
    }


@pytest.mark.parametrize("plaintext", [False, True])
def test_a_tree_arrives_as_it_is(cp: Copier, source: Path, tmp_path: Path, plaintext: bool) -> None:
    record = cp.good(source, f"far:{tmp_path}/dst", *(["--plaintext"] if plaintext else []))
    assert tree(tmp_path / "dst") == tree(source)
    outcome = record.outcome
    assert outcome is not None
    assert outcome.files == sum(node[0] == "file" for node in tree(source).values())
    assert outcome.links == 3
    assert outcome.bytes == sum(len(node[3]) for node in tree(source).values() if node[0] == "file")
    assert outcome.encrypted is not plaintext
    assert record.link_stats is not None
    assert record.link_stats["directions"]["near_to_far"]["wire_bytes"] > outcome.bytes
    assert ("lateness" in record.flags) is record.link_stats["lateness"]["spoilt"]
    assert record.digests is not None
    digests = dict(reversed(line.split(b"  ", 1)) for line in Path(record.digests).read_bytes().splitlines())
    assert len(digests) == outcome.files
    assert len(digests[b"big"]) == len(digests[b"deep/\xff\xfe not utf-8"]) == 64
    assert digests[b"deep/new\\nline"].startswith(b"\\")
    # b3sum </dev/null
    empty = b"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert digests[b"none"] == digests[b"deep/plain"] == empty


def test_a_tree_comes_here_as_it_is(cp: Copier, source: Path, tmp_path: Path) -> None:
    record = cp.good(f"far:{source}", tmp_path / "dst")
    assert tree(tmp_path / "dst") == tree(source)
    assert record.outcome is not None
    assert record.outcome.direction == "pull"


def test_where_it_lands_is_where_cp_r_would_put_it(cp: Copier, source: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    cp.good(source, f"far:{there}")
    assert tree(there / "src") == tree(source)
    cp.good(f"{source}/.", f"far:{tmp_path}/content/")
    assert tree(tmp_path / "content") == tree(source)
    cp.good(source / "big", f"far:{tmp_path}/renamed")
    assert (tmp_path / "renamed").read_bytes() == (source / "big").read_bytes()
    cp.good(source / "big", source / "none", f"far:{tmp_path}/made")
    assert set(tree(tmp_path / "made")) == {b"big", b"none"}


def test_the_options_of_rsync_are_taken_and_a_slash_is_explained(
    cp: Copier, source: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    dry = cp("-avn", f"{source}/", f"far:{there}")
    listed = re.findall(r"^copy +(?:folder|link|[\d.]+ \w+)  (.*)$", dry.stdout, re.MULTILINE)
    assert len(listed) == len(["src/", *tree(source)])
    plain = [name for name in listed if "\\" not in name]
    assert plain == sorted(plain, key=lambda name: name.replace("/", "\0"))
    assert f", 3 links, to far:{there}/src; skip 0." in dry.stdout.splitlines()[-2]
    done = cp("-avzP", "-e", "ssh -p 22 -o LogLevel=ERROR", f"{source}/", f"far:{there}")
    assert tree(there / "src") == tree(source)
    assert f"\nTo far:{there}/src\n" in done.stdout
    said = (
        f"note: {source}/ is the folder itself, with or without the slash; for its content write {source}/.\n"
    )
    assert dry.stdout.endswith(said)
    assert done.stdout.endswith(said)
    assert done.stderr.splitlines()[0].startswith("howdah: note: -z: nothing is compressed")
    back = cp("-n", f"far:{there}/src", tmp_path / "back")
    assert f", 3 links, to {tmp_path}/back; skip 0." in back.stdout


def test_what_is_there_is_skipped_and_what_changed_is_not(cp: Copier, source: Path, tmp_path: Path) -> None:
    first = cp.good(f"{source}/.", f"far:{tmp_path}/dst/")
    again = cp.good(f"{source}/.", f"far:{tmp_path}/dst/")
    assert first.outcome is not None
    assert again.outcome is not None
    assert again.outcome.files_skipped == first.outcome.files
    assert again.outcome.bytes_skipped == first.outcome.bytes
    assert again.outcome.bytes == 0
    assert again.digests is None
    (source / "none").write_text("no longer empty")
    changed = cp.good(f"{source}/.", f"far:{tmp_path}/dst/")
    assert changed.outcome is not None
    assert changed.outcome.files_skipped == first.outcome.files - 1
    assert tree(tmp_path / "dst") == tree(source)


def test_a_dry_run_tells_and_touches_nothing(cp: Copier, source: Path, tmp_path: Path) -> None:
    done = cp("--dry-run", source, f"far:{tmp_path}/dst")
    assert done.returncode == 0, done.stderr
    assert "Plan (shared path)" in done.stdout
    assert "The round trip is 2" in done.stdout
    assert "deep/new\\nline" in done.stdout
    assert "deep/\\xff\\xfe not utf-8" in done.stdout
    assert "\ncopy     folder  deep/\n" in done.stdout
    assert "; skip 0." in done.stdout
    assert not (tmp_path / "dst").exists()
    record = cp.good("--dry-run", source, f"far:{tmp_path}/dst")
    assert record.flags == ["dry-run"]
    assert record.outcome is not None and record.outcome.dry_run_plan is not None
    listed = {each.path.rstrip(b"/"): each.kind for each in record.outcome.dry_run_plan}
    kinds = {"folder": "folder", "link": "link", "file": "file"}
    assert listed == {b".": "folder"} | {name: kinds[node[0]] for name, node in tree(source).items()}
    assert not (tmp_path / "data").exists()


def test_the_document_is_the_record_in_the_archive(cp: Copier, source: Path, tmp_path: Path) -> None:
    record = cp.good(source / "big", f"far:{tmp_path}/dst")
    (kept,) = (tmp_path / "data" / "howdah" / "records").rglob("*.json")
    assert kept.stem == record.id
    assert msgspec.json.decode(kept.read_bytes(), type=type(record)) == record
    assert record.host == "far"
    assert record.rtt_s == pytest.approx(0.02, rel=0.5)
    assert record.environment.link == json.loads(cp.lab.env["HOWDAH_LAB_LINK"])
    assert record.environment.far is not None
    assert record.connect_s is not None
    assert record.connect_s > record.rtt_s
    assert record.plan is not None
    outcome = record.outcome
    assert outcome is not None
    assert len(outcome.streams) == record.plan.streams
    assert outcome.setup_s is not None
    assert 0 < outcome.setup_s <= outcome.elapsed_s
    assert sum(stream.bytes for stream in outcome.streams) >= outcome.bytes == 3_000_001


def test_the_streams_of_a_small_copy_share_it(cp: Copier, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(os.urandom(512 << 10))
    # A copy that listens begins with one stream where others seem to send, which a busy machine resembles.
    record = cp.good("--no-listen", small, f"far:{tmp_path}/dst")
    assert record.plan is not None
    assert record.outcome is not None
    assert record.plan.streams == 8
    # A block each, unless they connect at different times.
    assert max(stream.bytes for stream in record.outcome.streams) <= 256 << 10


def test_the_summary_names_size_rate_plan_and_record(cp: Copier, source: Path, tmp_path: Path) -> None:
    done = cp(source, f"far:{tmp_path}/dst")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for part in (" in ", "b/s", "files", "3 links", "Plan: ", "cubic", "RTT 2", "howdah archive show"):
        assert part in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines() if not line.startswith("To "))
    quiet = cp("-q", source, f"far:{tmp_path}/quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_memory_to_memory(cp: Copier) -> None:
    record = cp.good("--memory", "20MiB", "far:")
    assert record.outcome is not None
    assert record.outcome.bytes == 20 * 2**20
    assert record.outcome.files == 0
    assert record.outcome.moving_bps is not None
    assert record.outcome.moving_bps < 1e9


def test_what_the_user_says_is_what_the_sockets_get(cp: Copier) -> None:
    record = cp.good(
        "--memory", "4MiB", "--streams", "3", "--cc", "reno", "--buffer", "2MB", "--pace", "1Gbit", "far:"
    )
    assert record.plan is not None
    assert record.outcome is not None
    assert (record.plan.streams, record.plan.buffer_bytes, record.plan.pacing_bps) == (3, 2_000_000, 10**9)
    assert record.outcome.congestion_control == "reno"
    assert [stream.congestion_control for stream in record.outcome.streams] == ["reno"] * 3
    assert any("--streams" in sentence for sentence in record.plan.why.summary)


def test_a_plan_is_handed_back(cp: Copier, tmp_path: Path) -> None:
    first = cp("--memory", "1MiB", "--streams", "5", "--json", "far:")
    (tmp_path / "record.json").write_text(first.stdout)
    again = cp.good("--memory", "1MiB", "--plan", tmp_path / "record.json", "far:")
    assert again.plan is not None
    assert again.plan.streams == 5


def test_ipv6_and_login_names(cp: Copier, source: Path, tmp_path: Path) -> None:
    cp.good(source / "big", f"root@far:{tmp_path}/four")
    cp.good(source / "big", f"root@[{ADDRESSES6['far']}]:{tmp_path}/six")
    assert (
        (tmp_path / "six").read_bytes() == (tmp_path / "four").read_bytes() == (source / "big").read_bytes()
    )


def test_files_appear_with_their_permissions_even_under_a_narrow_umask(
    cp: Copier, source: Path, tmp_path: Path
) -> None:
    (source / "big").chmod(0o646)
    cp.good(f"far:{source}/big", tmp_path / "dst")
    assert stat.S_IMODE((tmp_path / "dst").stat().st_mode) == 0o646


def test_what_the_filters_name_is_left_out_by_either_end(cp: Copier, source: Path, tmp_path: Path) -> None:
    (source / "deep" / ".rsync-filter").write_text("- /er/small-1*\n- .rsync-filter\n")
    rules = ["--exclude", "/src/big", "-F", "-f", "- plain"]
    dry = cp.good(*rules, "--dry-run", f"far:{source}", tmp_path / "pulled")
    assert dry.outcome is not None and dry.outcome.dry_run_plan is not None
    cp.good(*rules, source, f"far:{tmp_path}/pushed")
    pulled = cp.good(*rules, f"far:{source}", tmp_path / "pulled")
    assert pulled.outcome is not None
    assert sum(each.kind == "file" for each in dry.outcome.dry_run_plan) == pulled.outcome.files
    assert pulled.filters == ["- /src/big", ": .rsync-filter", "- plain"]
    expected = {
        path: node
        for path, node in tree(source).items()
        if path not in (b"big", b"deep/plain", b"deep/.rsync-filter")
        and not path.startswith(b"deep/er/small-1")
    }
    assert len(expected) < len(tree(source)) - 100
    assert tree(tmp_path / "pushed") == tree(tmp_path / "pulled") == expected
    (source / "deep" / ".rsync-filter").write_text("nonsense\n")
    refused = cp.refused("-F", f"far:{source}", tmp_path / "again")
    assert "far end: " in refused
    assert "deep/.rsync-filter: filter rule 'nonsense'" in refused


def test_what_a_list_names_is_copied_and_nothing_else(cp: Copier, source: Path, tmp_path: Path) -> None:
    names = [b"big", b"deep/er/", b"deep/new\nline", b"empty folder", b"./link", b"missing"]
    names += [os.fsencode(f"deep/er/small-{number}") for number in range(200)] * 30
    (tmp_path / "list").write_bytes(b"\0".join(names))
    expected = {
        path: node
        for path, node in tree(source).items()
        if path in (b"big", b"deep", b"deep/er", b"deep/new\nline", b"empty folder", b"link")
        or path.startswith(b"deep/er/")
    }
    option = ["-0", "--files-from", tmp_path / "list"]
    for copy in ([source, f"far:{tmp_path}/pushed"], [f"far:{source}", tmp_path / "pulled"]):
        done = cp(*option, *copy)
        assert done.returncode == 1
        assert "/missing: no such file or folder" in done.stderr
    assert tree(tmp_path / "pushed") == tree(tmp_path / "pulled") == expected


def test_what_the_source_has_not_is_removed_at_either_end(cp: Copier, source: Path, tmp_path: Path) -> None:
    for copy, target in (
        ([f"{source}/.", f"far:{tmp_path}/pushed/"], tmp_path / "pushed"),
        ([f"far:{source}/.", tmp_path / "pulled/"], tmp_path / "pulled"),
    ):
        cp.good(*copy)
        (target / "old folder/deep").mkdir(parents=True)
        for name in ("old folder/deep/x", "deep/extra", "kept.o"):
            (target / name).write_text("old")
        (target / "old link").symlink_to(source)
        option = ["--delete", "--exclude", "*.o"]
        dry = cp(*option, "-n", *copy)
        assert dry.returncode == 0, dry.stderr
        assert "\nremove             old folder/deep/x\n" in dry.stdout
        assert dry.stdout.endswith("; remove 5.\n")
        bounded = cp(*option, "--max-delete", "4", *copy)
        assert bounded.returncode == 1
        assert (
            "howdah: the target has 5 files, folders and links that the source does not have"
            in bounded.stderr
        )
        assert (target / "deep/extra").exists()
        done = cp.good(*option, *copy)
        assert done.outcome is not None and done.outcome.removal is not None
        assert (done.outcome.removal.removed, done.outcome.removal.failed) == (5, 0)
        assert tree(target) == tree(source) | {b"kept.o": tree(target)[b"kept.o"]}
        assert cp.good("--delete-excluded", "--exclude", "*.o", *copy).outcome.removal.removed == 1
        assert tree(target) == tree(source)
