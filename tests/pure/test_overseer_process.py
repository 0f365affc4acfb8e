"""The overseer of a confined far end: a process of its own that decides, counts and logs."""

import os
from pathlib import Path

import msgspec
import pytest

from howdah import HowdahError
from howdah.remote.messages import FarAccount, FarJob
from howdah.remote.overseer_process import beneath, started

PUSH = FarJob(
    direction="push", sources=[b"run 42"], destination=b"/in", from_memory=False, dry_run=False, encrypt=False
)
PULL = msgspec.structs.replace(PUSH, direction="pull", sources=[b"~/a", b"/b", b"c"], encrypt=True)
DONE = FarAccount(bytes=7, files=1, cancelled=False)


@pytest.fixture
def forbids_plaintext(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "howdah").mkdir()
    (tmp_path / "howdah/policy.toml").write_text("[data]\nplaintext = false\n")


def test_the_policy_is_kept_in_another_process(forbids_plaintext: None, tmp_path: Path) -> None:
    with started(str(tmp_path)) as overseer:
        with pytest.raises(HowdahError, match="plaintext"):
            overseer.accept(msgspec.json.encode(PUSH))
        overseer.accept(msgspec.json.encode(PULL))
        overseer.moved(3, 7)
        overseer.ended(msgspec.json.encode(DONE))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_it_takes_nothing_before_a_job(tmp_path: Path) -> None:
    with started(str(tmp_path)) as overseer:
        for ask in (lambda: overseer.moved(1, 1), lambda: overseer.ended(msgspec.json.encode(DONE))):
            with pytest.raises(HowdahError, match="before a job"):
                ask()


def test_a_job_larger_than_a_socket_holds_is_taken(tmp_path: Path) -> None:
    many = msgspec.structs.replace(PULL, sources=[b"x" * 200] * 12_000)
    with started(str(tmp_path)) as overseer:
        overseer.accept(msgspec.json.encode(many))


def test_its_end_is_an_error_in_one_line(tmp_path: Path) -> None:
    with started(str(tmp_path)) as overseer:
        overseer._channel.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(HowdahError, match="the overseer of this copy"):
            overseer.accept(msgspec.json.encode(PUSH))


def test_paths_are_those_of_the_host(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/srv")
    pushed = msgspec.json.decode(beneath(str(link), msgspec.json.encode(PUSH)), type=FarJob)
    assert (pushed.sources, pushed.destination) == ([b"run 42"], b"/srv/in")
    pulled = msgspec.json.decode(beneath("/", msgspec.json.encode(PULL)), type=FarJob)
    assert pulled.sources == [b"/a", b"/b", b"/c"]
