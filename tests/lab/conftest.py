"""A lab that many tests use, the check that a test leaves nothing behind, and what a paused machine means.

Bounds on time hold where the machine runs. Where the hypervisor took it away for a part of a test that
failed, the test is run again, twice at most, and the summary tells it. Where it ran, nothing is run again.
"""

import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pytest
from copying import Copier, Wall
from pauses import MUCH, Pauses
from requirement import missing
from traces import Traces
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from howdah import lab

AGAIN = 2
PROGRAMS = (
    "/test_cc.py",
    "/test_cc_trust.py",
    "/test_control_privilege.py",
    "/test_shares.py",
    "/test_sweep.py",
    "::test_programs_are_not_loaded_for_a_copy",
)
"""Tests that need a kernel in which nobody else loads congestion controls."""
PAUSES = pytest.StashKey[Pauses]()


class ByLab(LoadScopeScheduling):
    """A process has the tests of a file, which share a lab, or all that load programs into the kernel."""

    def _split_scope(self, nodeid: str) -> str:
        return "programs" if any(name in nodeid for name in PROGRAMS) else nodeid.partition("::")[0]


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByLab:
    return ByLab(config, log)


@pytest.hookimpl
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    if not here or os.geteuid() != 0:
        return
    pauses = Pauses()
    config.add_cleanup(pauses.close)
    config.stash[PAUSES] = pauses
    for item in here:
        item.add_marker(pytest.mark.flaky(reruns=AGAIN, condition=lambda: pauses.share() > MUCH))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if PAUSES in item.config.stash:
        item.config.stash[PAUSES].begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and PAUSES in item.config.stash:
        lost = item.config.stash[PAUSES].share()
        report.sections.append(
            ("the machine", f"taken away {lost:.1%} of the time (run again above {MUCH:.0%})")
        )
    return report


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


_WALL = """\
table inet wall {{
    chain input {{
        type filter hook input priority filter;
        iif lo accept
        tcp dport {{ {open} }} accept
        {family} tcp flags & (syn | ack) == syn {otherwise}
    }}
}}
"""


@pytest.fixture
def wall(cp: Copier) -> Iterator[Wall]:
    """Puts a firewall in front of hosts, which lets in ssh, these ports, and all families but ``family``."""
    if shutil.which("nft") is None:
        missing("no nft; install nftables")

    def put(
        otherwise: str, *ports: str, family: str | None = None, hosts: Sequence[str] = ("far", "near")
    ) -> None:
        only = "" if family is None else f"meta nfproto {family}"
        rules = _WALL.format(open=", ".join(["22", *ports]), family=only, otherwise=otherwise)
        for host in hosts:
            cp.lab.run(host, ["nft", "-f", "-"], input=rules, text=True, check=True)

    yield put
    for host in ("far", "near"):
        cp.lab.run(host, ["nft", "flush", "ruleset"], check=True)


@pytest.fixture
def traces(privilege: None) -> Iterator[Traces]:
    """Runs howdah; whatever it leaves behind fails the test."""
    made = Traces()
    yield made
    try:
        made.assert_none()
    finally:
        made.kill_all()
