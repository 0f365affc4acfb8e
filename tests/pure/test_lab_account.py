"""The account of a lab's link, for whoever may ask for it and for others."""

import os
from pathlib import Path

import pytest

from howdah.lab import mounts, session

NOBODY = 65534


def test_a_user_who_may_not_ask_the_lab_goes_on_without_an_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    control = folder / "control"
    control.touch()
    monkeypatch.setattr(mounts, "CONTROL", control)
    folder.chmod(0)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setresuid(NOBODY, NOBODY, NOBODY)
            code = 0 if session.account_here() is None else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    folder.chmod(0o700)
    assert os.waitstatus_to_exitcode(status) == 0
