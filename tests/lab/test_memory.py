"""A second copy begins with what the first one carried, over a real path."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from controls import clean_kernel
from copying import Copier

from howdah import lab
from howdah.cc import resume

pytestmark = pytest.mark.lab


@pytest.fixture
def kernel(privilege: None) -> Iterator[None]:
    yield from clean_kernel()


@pytest.fixture
def cp(kernel: None, tmp_path: Path) -> Iterator[Copier]:
    """Copies in a lab that begins when the BPF file system is mounted, so that it has the same one.

    In a lab from before, a copy mounts one of its own, and nobody outside can unload what it loads.
    """
    with lab.started(lab.symmetric(1_000_000_000, 20_000_000), sshd=True) as wan:
        yield Copier(wan, tmp_path)


def test_a_second_copy_sends_at_once_what_the_first_one_carried(cp: Copier) -> None:
    first = cp.good("--memory", "2.3s", "far:", "--no-listen")
    assert first.plan is not None
    assert first.plan.why.memory is None
    assert first.plan.resume is None
    assert first.carried is not None
    assert 0.5e9 < first.carried.rate_bps < 1e9

    second = cp.good("--memory", "60MB", "far:", "--no-listen")
    assert second.plan is not None
    remembered = second.plan.why.memory
    assert remembered is not None
    assert (remembered.copies, remembered.same_route, remembered.direction) == (1, True, "push")
    assert remembered.rate_mid_bps == first.carried.rate_bps
    assert any("The archive remembers" in sentence for sentence in second.plan.why.summary)
    assert second.plan.resume is not None, second.plan.why.summary
    assert second.plan.resume.part == 0.5
    came = second.resumed
    assert came is not None
    assert came.connections == second.plan.streams
    assert came.jumps > 0
    assert came.jumped_bytes <= second.plan.resume.jump_bytes * 1.01
    # What went on afterwards is the plan's.
    assert second.plan.congestion_control == "cubic"
    assert second.outcome is not None
    assert second.outcome.congestion_control == "cubic"
    assert resume.memories() == []

    # A limit that only the user's file has counts for the plan as one on the command line does.
    (cp.folder / "config/howdah").mkdir(parents=True)
    (cp.folder / "config/howdah/config.toml").write_text('[host.far]\nlimit = "100Mbit"\n')
    limited = cp.good("--memory", "3MB", "far:", "--no-listen", XDG_CONFIG_HOME=str(cp.folder / "config"))
    assert limited.limited is not None
    assert limited.limited.most_bps == 100_000_000
    assert limited.plan is not None
    assert (limited.plan.resume, limited.resumed) == (None, None)

    shown = cp.lab.run(
        "near", [*cp.argv()[:-1], "archive", "paths"], env=cp.env, capture_output=True, text=True
    )
    assert "lab 1 Gb/s" in shown.stdout, shown
