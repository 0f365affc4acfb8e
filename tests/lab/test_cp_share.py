"""``howdah cp --path guaranteed``: asks for its share, is held to it, and gives it back, however it ends."""

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from controls import clean_kernel
from copying import Copier, alive, wait_until
from traces import HOWDAH

from howdah import lab
from howdah.control.status import Status
from howdah.lab import Lab
from howdah.values.bottleneck import Cause
from howdah.words.copy import summary

pytestmark = pytest.mark.lab

SHARE_BPS = 60_000_000
MINIMUM_BPS = 5_000_000
PAYLOAD = 1448 / 1538
"""Of the rate on the wire."""
POLICY = f"""
name = "small"
guarantee = "80Mbit"
lease = "1s"
[class.background]
[[class.background.member]]
host = "base20"
to = "10.99.0.0/16"
[class.images]
minimum = "{MINIMUM_BPS}bit"
maximum = "{SHARE_BPS}bit"
priority = 1
active = "asked"
[[class.images.member]]
host = "base20"
to = "{Lab.far_address}/32"
"""


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    """100 Mb/s, 20 ms, in a kernel that has no program of howdah's."""
    with (
        contextlib.contextmanager(clean_kernel)(),
        lab.started(lab.symmetric(100_000_000, 20_000_000), sshd=True) as up,
    ):
        yield up


@pytest.fixture(scope="module")
def served(wan: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A controller and the agent of the near host, on the near host."""
    policy = tmp_path_factory.mktemp("policy") / "small.toml"
    policy.write_text(POLICY)
    words = [*HOWDAH, "control", "serve", policy, "--host", "base20=/proc/self/ns/net", "--json"]
    with alive(wan.popen("near", words, stdout=subprocess.PIPE, text=True)) as process:
        assert json.loads(_document(process))["hosts"] == ["base20"]
        wait_until(lambda: _status(wan).settled, 20)
        yield
        process.terminate()
        assert process.wait(20) == 143


def _document(process: "subprocess.Popen[str]") -> str:
    """The JSON it prints first, over several lines."""
    assert process.stdout
    text = ""
    for line in process.stdout:
        text += line
        if line == "}\n":
            break
    return text


def _status(wan: Lab) -> Status:
    done = wan.run("near", [*HOWDAH, "control", "status", "--json"], capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Status)


def test_a_copy_has_its_share_and_gives_it_back(served: None, cp: Copier, wan: Lab) -> None:
    record = cp.good("--path", "guaranteed", "--class", "images", "--memory", "3s", "far:")
    assert _status(wan).asked == []
    assert record.share is not None
    assert record.outcome is not None
    assert record.outcome.moving_bps is not None
    assert (record.share.flow, record.share.asked) == ("images/base20", True)
    assert record.share.range_bps == (SHARE_BPS, SHARE_BPS)
    assert "Share: images/base20 of small, 60.0 Mb/s on the wire, " in summary(record, None)
    assert record.outcome.congestion_control == "hd_hold"
    # How near it comes is the machine's matter; without the share it would be a twelfth.
    assert 0.5 * PAYLOAD * SHARE_BPS < record.outcome.moving_bps < 1.01 * PAYLOAD * SHARE_BPS


def test_a_copy_that_a_rule_holds_is_not_steered_out_of_its_share(
    served: None, cp: Copier, wan: Lab, tmp_path: Path
) -> None:
    """The copy knows nothing of the share: only the rule of its host holds it."""
    plan = tmp_path / "plan.json"
    plan.write_text(
        '{"schema": 1, "streams": 2, "congestion_control": "cubic", "block_bytes": 1048576, '
        '"changes": [{"at_s": 1.0, "congestion_control": "reno"}]}'
    )
    record = cp.good("--plan", plan, "--memory", "3s", "far:")
    assert record.outcome is not None
    assert record.outcome.congestion_control == "hd_hold"
    [change] = record.outcome.changes
    assert change.held_by_rule
    assert "holds the connections to a share" in str(change.refused)
    assert record.outcome.moving_bps is not None
    assert record.outcome.moving_bps < 1.5 * PAYLOAD * MINIMUM_BPS
    assert record.bottleneck is not None
    assert record.bottleneck.main is not None
    assert record.bottleneck.main.cause is Cause.PACING


def test_an_interrupted_copy_gives_it_back(served: None, cp: Copier, wan: Lab) -> None:
    argv = cp.argv("--path", "guaranteed", "--class", "images", "--memory", "60s", "far:", "-q")
    with alive(wan.popen("near", argv, env=cp.env, stderr=subprocess.PIPE, text=True)) as copy:
        wait_until(lambda: bool(_status(wan).asked), 10)
        copy.send_signal(signal.SIGINT)
        assert copy.wait(10) == 130
    assert _status(wan).asked == []


def test_a_copy_that_nothing_would_hold_is_refused(served: None, cp: Copier) -> None:
    said = cp.refused("--path", "guaranteed", "--class", "background", "--memory", "1s", "far:")
    assert "no rule on this host holds connections to 10.77.0.2 to a share of background" in said
