"""Whatever ends a copy, its record, its line in the host's log, its log file and its metrics come."""

import errno
from pathlib import Path

import pytest

import howdah
from howdah.archive import Archive
from howdah.library.copy import copy_request
from howdah.transfer import run
from howdah.transfer.display import Quiet
from howdah.transfer.request import Request


class Ends(BaseException):
    """What a program's own call may raise."""


class Fails(Quiet):
    """A display that cannot be closed."""

    def close(self) -> None:
        raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "a").write_bytes(b"x")
    return copy_request(
        [str(tmp_path / "a"), "far:"],
        ["howdah"],
        log_file=tmp_path / "log",
        metrics=str(tmp_path / "metrics"),
    )


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        (OSError(errno.EIO, "Input/output error"), "OSError: [Errno 5] Input/output error"),
        (KeyError("x"), "KeyError: 'x'"),
        (Ends("of its own"), "Ends: of its own"),
    ],
)
def test_an_error_that_nobody_thought_of_leaves_all_that_a_failed_copy_leaves(
    request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, says: str
) -> None:
    def transfer(*_: object) -> None:
        raise ends

    logged: list[tuple[str, str | None]] = []
    monkeypatch.setattr(run, "_transfer", transfer)
    monkeypatch.setattr(run.State, "log", lambda _, outcome, error: logged.append((outcome, error)))
    done = run.run(request_, Fails(), Archive(tmp_path / "records"))
    assert done.stopped is ends
    assert (done.exit_code, done.record.error) == (1, says)
    assert logged == [("failed", says)]
    assert (tmp_path / "log").read_text().endswith(f" end failed: {says}\n")
    assert 'state="failed"} 1.0' in (tmp_path / "metrics").read_text()


def test_an_error_of_a_program_s_own_call_comes_back_to_it(
    request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def transfer(*_: object) -> None:
        raise Ends("of its own")

    monkeypatch.setattr(run, "_transfer", transfer)
    with pytest.raises(Ends):
        howdah.copy(tmp_path / "a", "far:", archive=Archive(tmp_path / "records"))


def test_a_display_that_cannot_be_closed_ends_no_copy(
    request_: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_transfer", lambda *_: None)
    done = run.run(request_, Fails(), Archive(tmp_path / "records"))
    assert (done.exit_code, done.record.error, done.stopped) == (0, None, None)
