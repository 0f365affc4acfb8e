"""A lab that many tests use, and the check that a test leaves nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from copying import Copier
from traces import Traces

from howdah import lab


@pytest.fixture(scope="session")
def wan(privilege: None) -> Iterator[lab.Lab]:
    """1 Gb/s, 20 ms, with an OpenSSH server on the far host."""
    with lab.started(lab.symmetric(1_000_000_000, 20_000_000), sshd=True) as running:
        yield running


@pytest.fixture
def cp(wan: lab.Lab, tmp_path: Path) -> Copier:
    """``howdah cp`` on the near host of the module's lab."""
    return Copier(wan, tmp_path)


@pytest.fixture
def nothing_kept(cp: Copier) -> None:
    """Ends what earlier copies left ready for the next one."""
    cp.forget_logins()


@pytest.fixture
def traces(privilege: None) -> Iterator[Traces]:
    """Runs howdah; whatever it leaves behind fails the test."""
    made = Traces()
    yield made
    try:
        made.assert_none()
    finally:
        made.kill_all()
