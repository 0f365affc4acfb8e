"""``howdah verify`` and ``howdah.verify``: lists that are found, results, refusals, and how a check ends."""

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from samples import howdah, record, run

from howdah import HowdahError, averify, verify
from howdah.archive import Archive
from howdah.library.copy import copy_request
from howdah.remote.endpoints import Endpoint
from howdah.transfer.display import Quiet
from howdah.transfer.rereading import Rereading
from howdah.values.verification import Counts, Finding, Verification
from howdah.verification.check import Listener, check
from howdah.verification.lists import NewList, algorithm_of, check_new, find, listed
from howdah.words.verification import Shown, in_short, of_copy

ODD = ["plain", "a b", "new\nline", "back\\slash", "below/deeper/file", "\udcff\udcfe"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of files with odd names; beside it ``tree.sha256``."""
    folder = tmp_path / "tree"
    for name in ODD:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(name) * 1000)
    with NewList(tmp_path / "tree.sha256") as new:
        for name in ODD:
            new.add(os.fsencode(name), hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return folder


def test_what_agrees_and_what_does_not(tree: Path, tmp_path: Path) -> None:
    whole = verify(tmp_path / "tree.sha256", tree)
    assert whole.agrees
    assert (whole.counts.files, whole.counts.bytes) == (6, sum(len(os.fsencode(name)) for name in ODD) * 1000)
    (tree / "plain").write_bytes(b"plaiN" * 1000)
    (tree / "new\nline").unlink()
    (tree / "more").touch()
    seen: list[Finding] = []
    result = verify(tmp_path / "tree.sha256", tree, on_finding=seen.append)
    assert not result.agrees
    found = {(each.name, each.what) for each in result.findings}
    assert found == {("plain", "differs"), ("new\\nline", "missing")}
    assert seen == result.findings
    strict = verify(tmp_path / "tree.sha256", str(tree), extra=True)
    assert {(each.name, each.what) for each in strict.findings} == found | {("more", "extra")}
    assert "1 with different content, 1 missing, 1 not in the list" in in_short(strict)


def test_other_tools_read_what_is_written_and_write_what_is_read(tree: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", tmp_path / "tree.sha256"], cwd=tree, check=False
    )
    assert done.returncode == 0
    for tool, options, name in [
        ("md5sum", [], "MD5SUMS"),
        ("sha256sum", ["--tag"], "list"),
        ("sha256sum", ["-z"], "zeros.sha256"),
        ("sha256sum", ["--tag", "--zero"], "zeros.md5"),
    ]:
        with (tmp_path / name).open("wb") as stream:
            subprocess.run([tool, *options, *map(os.fsencode, ODD)], cwd=tree, stdout=stream, check=True)
        checked = verify(tmp_path / name, tree)
        assert (checked.agrees, checked.counts.files) == (True, 6)
    zeros = tmp_path / "zeros.sha256"
    zeros.write_bytes(zeros.read_bytes() * 2 + b"nothing")
    with pytest.raises(HowdahError, match=r"zeros.sha256 is not a list of digests: line 13 is not a digest"):
        verify(zeros, tree)
    zeros.write_bytes(b"\0" + b"x" * 5_000_000)
    with pytest.raises(HowdahError, match=r"zeros.sha256 is not a list of digests: line 2 is not a digest"):
        verify(zeros, tree)


def test_a_record_keeps_a_list(tree: Path, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "records")
    made = record()
    digests = archive.new_digests(made.id)
    assert digests is not None
    archive.save(made)
    with pytest.raises(HowdahError, match="it names no file"):
        verify(made.id, tree, archive=archive)
    with NewList(tmp_path / "copy.b3sum") as new:
        new.add(b"plain", "ab" * 32)
    digests.write_bytes((tmp_path / "copy.b3sum").read_bytes())
    result = verify(made.id, tree, archive=archive)
    assert (result.manifest, result.algorithm, result.counts.differs) == (made.id, "blake3", 1)
    assert find("last", None, archive).file == digests
    digests.unlink()
    with pytest.raises(HowdahError, match=f"record {made.id} has no digests"):
        verify(made.id, tree, archive=archive)
    with pytest.raises(HowdahError, match="there is no file nothing; give a list"):
        verify("nothing", tree, archive=archive)


def test_last_is_the_newest_record_that_has_digests(tree: Path, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "records")
    with pytest.raises(HowdahError, match=r"no record has digests yet in .*: no copy has moved a file, or"):
        verify("last", tree, archive=archive)
    (moved, earlier, skipped, probed) = (record(after_s) for after_s in (10, 0, 20, 30))
    for each in (moved, earlier):
        kept = archive.new_digests(each.id)
        assert kept is not None
        kept.write_text(f"{'ab' * 32}  plain\n")
    # One that moved nothing, one that is no copy, and a copy that has not ended.
    assert archive.new_digests(skipped.id) is not None
    for each in (moved, earlier, skipped, probed):
        archive.save(each)
    begun = archive.new_digests(record(40).id)
    assert begun is not None
    begun.write_text(f"{'cd' * 32}  a b\n")
    result = verify("last", tree, archive=archive)
    assert (result.manifest, result.counts.files) == (moved.id, 1)
    assert f"as listed by record {moved.id} (blake3); " in in_short(
        msgspec.structs.replace(result, counts=Counts(files=1))
    )


def test_a_record_whose_list_was_cut_does_not_verify_the_copy(tree: Path, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "records")
    moved = run(0)
    assert moved.outcome is not None
    made = msgspec.structs.replace(moved, outcome=msgspec.structs.replace(moved.outcome, files=2))
    kept = archive.new_digests(made.id)
    assert kept is not None
    archive.save(made)
    lines = [
        f"{hashlib.sha256((tree / name).read_bytes()).hexdigest()}  {name}\n" for name in ("plain", "a b")
    ]

    def verified() -> Verification:
        return verify(made.id, tree, algorithm="sha256", archive=archive)

    kept.write_text("".join(lines))
    assert verified().agrees
    kept.write_text("".join(lines)[:-2])
    file = re.escape(f"; to check what it names, give its file: {kept}")
    with pytest.raises(HowdahError, match=f"^the list of record {made.id} .*: its last line is cut{file}$"):
        verified()
    kept.write_text(lines[0])
    result = verified()
    assert (result.counts.files, result.counts.disagreeing, result.unlisted) == (1, 0, 1)
    assert not result.agrees
    assert in_short(result).startswith(
        "The list is incomplete: 1 file that the copy moved is not in it. Verified: 1 file in "
    )
    assert verify(kept, tree, algorithm="sha256").agrees
    kept.write_text("")
    with pytest.raises(HowdahError, match="it names no file"):
        verified()


def test_a_list_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "list.md5"
    for text, why in [
        ("", "it names no file"),
        ("hello\n", "line 1 is not a digest and a name, as sha256sum writes them: hello"),
        (f"{'0' * 32}  a\n{'0' * 32}  ../b\n", r"line 2 names what is not inside a folder: \.\./b"),
        ("\x1b]0;x\x07\n", r"line 1 .*\\u\{1b\}\]0;x\\u\{7\}"),
    ]:
        file.write_text(text)
        with pytest.raises(HowdahError, match=f"list.md5 is not a list of digests: {why}"):
            verify(file, tmp_path)
    unsure = tmp_path / "list"
    unsure.write_text(f"{'0' * 64}  a\n")
    with pytest.raises(HowdahError, match="give --algorithm blake3 or sha256"):
        verify(unsure, tmp_path)
    assert verify(unsure, tmp_path, algorithm="sha256").counts.missing == 1


def test_a_file_that_is_listed_twice_counts_once(tree: Path, tmp_path: Path) -> None:
    def digest(name: str) -> str:
        return hashlib.sha256((tree / name).read_bytes()).hexdigest()

    manifest = tmp_path / "twice.sha256"
    lines = [
        *(tmp_path / "tree.sha256").read_bytes().split(b"\n"),
        b"# the same again, in other ways",
        f"{digest('plain')}  plain".encode(),
        f"{digest('plain').upper()} *./plain\r".encode(),
        f"SHA256 (below//deeper/./file) = {digest('below/deeper/file')}".encode(),
        f"\\SHA256 (new\\nline) = {digest(ODD[2])}".encode(),
        f"\\{digest(ODD[3])}  back\\\\slash".encode(),
        f"{digest('a b')} a b".encode(),
    ]
    manifest.write_bytes(b"\n".join(lines))
    result = verify(manifest, tree, extra=True)
    assert (result.counts.files, result.agrees) == (6, True)
    (tree / "plain").unlink()
    assert [each.name for each in verify(manifest, tree).findings] == ["plain"]
    manifest.write_bytes(b"\n".join([*lines, f"{'0' * 64}  a b".encode()]))
    with pytest.raises(
        HowdahError, match=r"it has two digests of a b, in lines 2 and 15; take the wrong one"
    ):
        verify(manifest, tree)


def test_the_command_names_what_does_not_agree(tree: Path, tmp_path: Path) -> None:
    data = str(tmp_path)
    manifest = str(tmp_path / "tree.sha256")
    done = howdah("verify", manifest, str(tree), XDG_DATA_HOME=data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Verified: 6 files in {tree} as listed (sha256); ")
    (tree / "plain").write_bytes(b"")
    done = howdah("verify", "--quiet", manifest, str(tree), XDG_DATA_HOME=data)
    assert (done.returncode, done.stdout, done.stderr) == (1, "differs: plain\n", "")
    done = howdah("verify", "--json", manifest, str(tree), XDG_DATA_HOME=data)
    assert done.returncode == 1
    assert json.loads(done.stdout)["counts"]["differs"] == 1
    for words, why in [
        (["/no/such", str(tree)], "there is no file /no/such"),
        ([manifest, "/no/such"], "cannot read /no/such: No such file or directory"),
        ([manifest, str(tree / "plain")], "is no folder; give the folder that the 6 names"),
    ]:
        done = howdah("verify", *words, XDG_DATA_HOME=data)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
        assert done.stderr.count("\n") == 1


def test_of_many_findings_the_first_are_named(tmp_path: Path) -> None:
    with NewList(tmp_path / "many.crc32c") as new:
        for number in range(1500):
            new.add(f"{number}".encode(), "00000000")
    seen: list[Finding] = []
    result = verify(tmp_path / "many.crc32c", tmp_path, on_finding=seen.append)
    assert (result.counts.missing, len(result.findings), result.findings_more) == (1500, 1000, 500)
    assert len(seen) == 1500


class Digests(Listener):
    def __init__(self) -> None:
        self.made: dict[bytes, str] = {}

    def digest(self, name: bytes, digest: str) -> None:
        self.made[name] = digest


def test_another_digest_is_made_of_the_same_read(tree: Path, tmp_path: Path) -> None:
    listener = Digests()
    found = listed("a list", tmp_path / "tree.sha256", None)
    result = check(found, Endpoint(None, os.fsencode(tree)), listener, also="md5")
    assert result.agrees
    contents = {os.fsencode(name): (tree / name).read_bytes() for name in ODD}
    assert listener.made == {
        name: hashlib.md5(text, usedforsecurity=False).hexdigest() for name, text in contents.items()
    }


def test_a_new_list_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.md5"
    check_new(file)
    with pytest.raises(RuntimeError), NewList(file) as new:
        new.add(b"x", "00" * 16)
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with NewList(file) as new:
        new.add(b"x", "00" * 16)
        assert not file.exists()
    assert file.read_text() == f"{'00' * 16}  x\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(HowdahError, match="exists already; give another name"):
        check_new(file)
    with pytest.raises(HowdahError, match=r"cannot write .*a\.md5: File exists"), NewList(file) as new:
        new.add(b"x", "00" * 16)
    with NewList(tmp_path / "empty.md5"):
        pass
    assert list(tmp_path.iterdir()) == [file], "a list of no file is none"
    with pytest.raises(HowdahError, match="there is no folder"):
        check_new(tmp_path / "none/a.md5")
    assert algorithm_of(Path("x/SHA256SUMS")) == "sha256"
    with pytest.raises(HowdahError, match=r"give it a name that ends in \.b3sum"):
        algorithm_of(Path("list.txt"))


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """The list of a file that takes minutes to read: a hole of 2 TiB."""
    with (tmp_path / "hole").open("wb") as stream:
        stream.truncate(2 << 40)
    with NewList(tmp_path / "slow.sha256") as new:
        new.add(b"hole", "00" * 32)
    return tmp_path / "slow.sha256"


def test_a_check_that_is_cancelled_ends_at_once(slow: Path) -> None:
    async def cancelled() -> float:
        task = asyncio.create_task(averify(slow, slow.parent))
        await asyncio.sleep(0.5)
        asked_s = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - asked_s

    assert asyncio.run(cancelled()) < 5


def test_what_progress_raises_ends_a_check(slow: Path) -> None:
    def stop(now: Counts) -> None:
        if now.bytes:
            raise KeyError

    with pytest.raises(KeyError):
        verify(slow, slow.parent, on_progress=stop)


def test_a_signal_ends_the_command(slow: Path) -> None:
    argv = [sys.executable, "-m", "howdah", "verify", str(slow), str(slow.parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 30
        # Handlers are installed before its threads begin.
        while len(list(Path(f"/proc/{process.pid}/task").iterdir())) < 4:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in error


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("again", "name"), [(True, None), (False, "x.sha256"), (False, "x.b3sum")])
def test_a_copy_that_moved_nothing_says_what_it_did_not_read(
    again: bool, name: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(1e9).outcome
    assert made is not None
    skipped = msgspec.structs.replace(made, files_skipped=11)
    file = None if name is None else tmp_path / name
    after = Rereading(copy_request(["far:run42", str(tmp_path)], [], verify=again, manifest=file))
    found = after.reread(None, skipped, Quiet())
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().err
    assert said == ("" if name is None else f"howdah: no file was moved, so {file} was not written\n")
    if name == "x.b3sum":
        assert found is None, "no list of these digests needs another read"
        return
    assert found is not None
    assert (found.counts, found.skipped, found.agrees) == (Counts(), 11, True)
    (told,) = of_copy(found, skips_as_asked=False)
    assert told == (
        "11 files were there already and were not read again; to compare them too, add --checksum"
    )
    assert of_copy(found, skips_as_asked=True) == ["11 files were skipped and not read again"]


def test_progress_has_a_line_of_its_own_and_findings_theirs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    log, screen = StringIO(), Screen()
    shown = [
        Shown(1200, findings=True, progress=True, stream=log),
        Shown(1200, findings=False, progress=True, stream=screen),
        Shown(1200, findings=False, progress=False, stream=log),
    ]
    for now_s[0] in (0.2, 11.0, 12.0):
        for each in shown:
            each.progress(Counts(files=700, bytes=10**6, missing=1))
    for each in shown:
        each.finding(Finding(name="a\\nb", what="unreadable", why="the disk cannot read it"))
        each.clear()
    line = "700 of 1,200 files, 1.00 MB, 1 do not agree"
    assert log.getvalue() == f"howdah: {line}\n"
    assert screen.getvalue() == f"\r\x1b[K{line}" * 2 + "\r\x1b[K"
    assert capsys.readouterr().out == "unreadable: a\\nb (the disk cannot read it)\n"
