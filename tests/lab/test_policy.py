"""What a site forbids, at the near end and at the far end, and the line that each copy leaves in its log."""

import hashlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from copying import SLACK_S, STOP_S, Copier, alive, wait_until
from sites import Site

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

REQUIRED = 'audit = "required"\n'


@contextmanager
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="hd-") as folder:
        Path(folder).chmod(0o755)
        made = Site(Path(folder))
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def far() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture
def near() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture
def both(near: Site, far: Site) -> dict[str, Site]:
    return {"near": near, "far": far}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    top.mkdir()
    for number in range(4):
        (top / f"file-{number}").write_bytes(os.urandom(1_000_000))
    return top


def refused(cp: Copier, *arguments: str | Path, far: Site | None = None, near: Site | None = None) -> str:
    """A copy that is refused at one of two sites; its line on standard error."""
    if far is not None:
        arguments = ("--far-howdah", far.howdah, *arguments)
    return cp.refused(*arguments, prefix=near.prefix if near is not None else (), HOWDAH_SSH_KEEP_S="0")


def good(cp: Copier, *arguments: str | Path, far: Site, near: Site) -> None:
    done = cp("--far-howdah", far.howdah, *arguments, prefix=near.prefix, HOWDAH_SSH_KEEP_S="0")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("pull", [False, True])
def test_a_far_end_refuses_plaintext(cp: Copier, far: Site, source: Path, tmp_path: Path, pull: bool) -> None:
    far.says("[data]\nplaintext = false")
    there = tmp_path / "dst"
    names = (f"far:{source}", there) if pull else (source, f"far:{there}")
    said = refused(cp, "--plaintext", *names, far=far)
    assert "plaintext data streams are forbidden by the policy of host " in said
    assert "(/etc/howdah/policy.toml, data.plaintext); leave out --plaintext" in said
    assert not there.exists()
    assert cp("--far-howdah", far.howdah, *names, HOWDAH_SSH_KEEP_S="0").returncode == 0


def test_a_near_end_refuses_plaintext_whoever_asks_for_it(
    cp: Copier, near: Site, far: Site, source: Path, tmp_path: Path
) -> None:
    near.says("[data]\nplaintext = false")
    words = "forbidden by the policy of host "
    assert words in refused(cp, "--plaintext", source, f"far:{tmp_path}/dst", near=near)
    plan = tmp_path / "plan.json"
    plan.write_text('{"schema":1,"streams":1,"block_bytes":1048576,"encrypt":false}')
    said = refused(cp, "--plan", plan, source, f"far:{tmp_path}/dst", far=far, near=near)
    assert words in said
    assert not (tmp_path / "dst").exists()


def test_a_broken_policy_stops_either_end(
    cp: Copier, near: Site, far: Site, source: Path, tmp_path: Path
) -> None:
    far.says("[data]\nplain = false")
    broken = "/etc/howdah/policy.toml: data: unknown key plain; known are plaintext, delete, ports"
    assert f"howdah: far: {broken}" in refused(cp, source, f"far:{tmp_path}/dst", far=far)
    near.says("[data]\nplain = false")
    assert f"howdah: {broken}" in refused(cp, source, f"far:{tmp_path}/dst", near=near)
    assert not (tmp_path / "dst").exists()


@pytest.mark.parametrize("pull", [False, True])
def test_the_end_that_receives_refuses_to_remove_anything(
    cp: Copier, both: dict[str, Site], source: Path, tmp_path: Path, pull: bool
) -> None:
    there = tmp_path / "dst"
    there.mkdir()
    (there / "old").touch()
    names = (f"far:{source}/.", there) if pull else (f"{source}/.", f"far:{there}")
    both["near" if pull else "far"].says("[data]\ndelete = false")
    said = refused(cp, "--delete", *names, **both)
    assert "removing what is not at the source is forbidden by the policy of host " in said
    assert "(/etc/howdah/policy.toml, data.delete); leave out --delete" in said
    assert [path.name for path in there.iterdir()] == ["old"]


@pytest.mark.parametrize("pull", [False, True])
@pytest.mark.parametrize("end", ["near", "far"])
def test_a_copy_above_its_quota_is_ended(
    cp: Copier, both: dict[str, Site], tmp_path: Path, end: str, pull: bool
) -> None:
    both[end].says('[quota]\ncopy = "20MB"')
    source, there = tmp_path / "src", tmp_path / "dst"
    source.mkdir()
    (source / "big").write_bytes(bytes(200_000_000))
    names = (f"far:{source}", there) if pull else (source, f"far:{there}")
    said = refused(cp, "--quiet", "--pace", "100Mbit", *names, **both)
    assert "this copy moves more than 20.0 MB, the most that is allowed by the policy of host " in said
    assert not (there / "big").exists()


def test_what_is_known_to_be_too_big_moves_nothing(
    cp: Copier, near: Site, far: Site, source: Path, tmp_path: Path
) -> None:
    near.says('[quota]\ncopy = "999999B"')
    far.says('[quota]\ncopy = "20MB"')
    assert "moves more than" in refused(cp, source / "file-0", f"far:{tmp_path}/dst", near=near, far=far)
    assert "moves more than" in refused(cp, "--memory", "21MB", "far:", far=far)
    assert not (tmp_path / "dst").exists()


def test_a_far_end_listens_at_the_ports_of_its_site(cp: Copier, far: Site) -> None:
    far.says('[data]\nports = "50007-50008"')
    argv = [*cp.argv("--memory", "100GiB", "--far-howdah", far.howdah, "far:"), "--quiet"]

    def listening() -> set[int]:
        tables = cp.lab.run("far", ["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
        rows = [line.split() for line in tables.splitlines()]
        return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A"} - {22}

    with alive(cp.lab.popen("near", argv, env={**cp.env, "HOWDAH_SSH_KEEP_S": "0"})) as first:
        wait_until(lambda: len(listening()) == 1, 20)
        with alive(cp.lab.popen("near", argv, env={**cp.env, "HOWDAH_SSH_KEEP_S": "0"})) as second:
            wait_until(lambda: listening() == {50007, 50008}, 20)
            said = refused(cp, "--memory", "1MB", "far:", far=far)
            assert "far: no port of 50007-50008 is free for the data streams" in said
            for process in (first, second):
                process.send_signal(signal.SIGINT)
            wait_until(lambda: None not in {first.poll(), second.poll()}, STOP_S + SLACK_S)
    cp.wait_for_nothing_left()


def test_a_near_end_reaches_only_far_ends_that_are_allowed(cp: Copier, near: Site, far: Site) -> None:
    near.says('[ssh]\nfar_ends = ["dtn*.example.org", "192.0.2.0/24"]')
    said = refused(cp, "--memory", "1MB", "far:", near=near)
    assert "howdah: far is no far end that is allowed by the policy of host " in said
    near.says('[ssh]\nfar_ends = ["f?r"]')
    good(cp, "--memory", "1MB", "far:", near=near, far=far)


def test_programs_are_not_loaded_for_a_copy(cp: Copier, near: Site, far: Site) -> None:
    near.says("[programs]\nload = false")
    said = refused(cp, "--memory", "1MB", "--cc", "scalable", "far:", near=near, far=far)
    assert "loading programs into the kernel is forbidden by the policy of host " in said


def test_each_copy_leaves_a_line_at_both_ends(
    cp: Copier, near: Site, far: Site, source: Path, tmp_path: Path
) -> None:
    near.logs()
    far.logs()
    good(cp, source, f"far:{tmp_path}/dst", near=near, far=far)
    here, there = near.logged(), far.logged()
    for line in (here, there):
        assert (line["outcome"], line["error"]) == ("complete", None)
        assert (line["bytes"], line["files"]) == (4_000_000, 4)
        assert (line["uid"], line["user"], line["encrypted"]) == (0, "root", True)
        assert (line["sources"], line["destination"]) == ([str(source)], f"{tmp_path}/dst")
    assert (here["end"], here["peer"], here["sends"]) == ("near", "far", True)
    assert (there["end"], there["peer"], there["sends"]) == ("far", cp.lab.addresses["near"], False)
    assert here["digest_sum"] == there["digest_sum"] is not None
    (digests,) = (tmp_path / "data").rglob("*.b3sum")
    assert here["digests_sha256"] == hashlib.sha256(digests.read_bytes()).hexdigest()
    assert digests.name.startswith(str(here["record"]))


def test_copies_that_fail_or_are_stopped_leave_a_line_too(
    cp: Copier, near: Site, far: Site, tmp_path: Path
) -> None:
    near.logs()
    far.logs()
    refused(cp, f"far:{tmp_path}/none", tmp_path / "dst", near=near, far=far)
    for line in (near.logged(), far.logged()):
        assert line["outcome"] == "failed"
        assert f"{tmp_path}/none" in str(line["error"])
    for number, outcomes in (
        (signal.SIGINT, ("interrupted", "interrupted")),
        (signal.SIGKILL, (None, "failed")),
    ):
        argv = [*near.prefix, *cp.argv("--memory", "100GiB", "--far-howdah", far.howdah, "far:"), "--quiet"]
        with alive(cp.lab.popen("near", argv, env={**cp.env, "HOWDAH_SSH_KEEP_S": "0"})) as process:
            wait_until(lambda: any("howdah serve" in args for args in cp.processes().values()), 20)
            time.sleep(1)
            process.send_signal(number)
            process.wait(timeout=10)
        for at, outcome in zip((near, far), outcomes, strict=True):
            if outcome is not None:
                line = at.logged()
                assert line["outcome"] == outcome, line
                assert line["bytes"] > 0  # type: ignore[operator]
    cp.wait_for_nothing_left()


def test_what_a_far_end_refuses_is_in_its_log(cp: Copier, far: Site, tmp_path: Path, source: Path) -> None:
    far.says("[data]\nplaintext = false")
    far.logs()
    refused(cp, "--plaintext", source, f"far:{tmp_path}/dst", far=far)
    line = far.logged()
    assert (line["outcome"], line["bytes"]) == ("refused", 0)
    assert "plaintext data streams are forbidden" in str(line["error"])


@pytest.mark.parametrize("end", ["near", "far"])
def test_without_the_log_that_a_site_requires_nothing_is_copied(
    cp: Copier, both: dict[str, Site], source: Path, tmp_path: Path, end: str
) -> None:
    at = both[end]
    at.says(REQUIRED)
    said = refused(cp, source, f"far:{tmp_path}/dst", **both)
    assert "no log of this host takes a line" in said
    assert not (tmp_path / "dst").exists()
    at.logs()
    good(cp, source, f"far:{tmp_path}/dst", **both)
    assert [at.logged()["outcome"] for _ in range(2)] == ["begun", "complete"]


def test_a_user_of_the_far_host_can_be_stricter(cp: Copier, far: Site, source: Path, tmp_path: Path) -> None:
    far.says("[data]\nplaintext = true")
    own = tmp_path / "config" / "howdah" / "policy.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[data]\nplaintext = false")
    own.chmod(0o600)
    strict = tmp_path / "strict"
    strict.write_text(f'#!/bin/sh\nexport XDG_CONFIG_HOME={tmp_path}/config\nexec {far.howdah} "$@"\n')
    strict.chmod(0o755)
    said = cp.refused(
        "--plaintext", "--far-howdah", strict, source, f"far:{tmp_path}/dst", HOWDAH_SSH_KEEP_S="0"
    )
    assert "forbidden by your own policy on host " in said
