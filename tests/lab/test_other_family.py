"""Copies where firewalls close the data port for IPv4 or IPv6 alone: the streams take the other family."""

import json
import re
import statistics
import sys
from pathlib import Path

import pytest
from copying import Copier, Wall, tree

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

ADDRESSES = {"ipv4": "10.77.0.2", "ipv6": "fd77::2"}
FAR = {"ipv4": "far", "ipv6": "[fd77::2]"}
WRITTEN = {"ipv4": "10.77.0.2", "ipv6": "[fd77::2]"}
OTHER = {"ipv4": "ipv6", "ipv6": "ipv4"}
CLOSED = {"drop": "no answer", "reject with tcp reset": "Connection refused"}
ALONE_S = 0.25
"""The family that ssh has used is dialled alone for this time."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    for number in range(40):
        (top / f"sub/{number}").write_bytes(bytes([number]) * 30_000)
    return top


@pytest.mark.parametrize("otherwise", CLOSED)
@pytest.mark.parametrize("closed", FAR)
def test_streams_take_the_family_that_is_open_and_it_is_said(  # noqa: PLR0917
    cp: Copier, wall: Wall, source: Path, tmp_path: Path, closed: str, otherwise: str
) -> None:
    wall(otherwise, family=closed, hosts=("far",))
    done = cp(f"{source}/.", f"{FAR[closed]}:{tmp_path}/there")
    assert done.returncode == 0, done.stderr
    assert tree(source) == tree(tmp_path / "there")
    there, shut = (re.escape(WRITTEN[family]) + r":\d+" for family in (OTHER[closed], closed))
    told = rf"{there} \({shut}: {CLOSED[otherwise]}\)$"
    assert re.search(rf"^howdah: the data goes to the far host's other address, {told}", done.stderr, re.M)
    assert re.search(rf"^To the far host's other address, {told}", done.stdout, re.M), done.stdout
    pulled = cp.good(f"{FAR[closed]}:{tmp_path}/there/.", tmp_path / "back")
    assert tree(source) == tree(tmp_path / "back")
    outcome = pulled.outcome
    assert outcome is not None
    assert outcome.other_address is not None
    assert re.fullmatch(told, outcome.other_address)
    assert (outcome.through_ssh, outcome.by_far_end, outcome.connections_replaced) == (None, None, 0)
    assert outcome.setup_s is not None
    assert outcome.setup_s < 1.0


@pytest.mark.parametrize("family", FAR)
def test_where_both_are_open_the_family_of_ssh_is_taken_without_a_wait(
    cp: Copier, tmp_path: Path, source: Path, family: str
) -> None:
    setups = []
    for number in range(5):
        outcome = cp.good(source, f"{FAR[family]}:{tmp_path}/{number}").outcome
        assert outcome is not None
        assert outcome.other_address is None
        assert outcome.setup_s is not None
        setups.append(outcome.setup_s)
    assert statistics.median(setups) < ALONE_S


def test_plaintext_goes_to_no_address_that_only_the_far_end_tells(
    cp: Copier, wall: Wall, source: Path, tmp_path: Path
) -> None:
    wall("drop", family="ipv4", hosts=("far",))
    outcome = cp.good("--plaintext", source, f"far:{tmp_path}/there").outcome
    assert outcome is not None
    assert outcome.other_address is None
    assert outcome.by_far_end is not None


def doctor(cp: Copier, host: str) -> dict[str, str]:
    """What the doctor finds of the data port of a host."""
    argv = [sys.executable, "-m", "howdah", "doctor", host, "--json"]
    done = cp.lab.run("near", argv, env=cp.env, capture_output=True, text=True, timeout=60)
    findings = json.loads(done.stdout)["hosts"][1]["findings"]
    (found,) = (each for each in findings if each["what"] == "data port")
    return dict(found)


@pytest.mark.parametrize("closed", FAR)
def test_the_doctor_judges_both_families(cp: Copier, wall: Wall, closed: str) -> None:
    other = ADDRESSES[OTHER[closed]]
    found = doctor(cp, FAR[closed])
    assert found["state"] == "good"
    assert found["found"].endswith(f"; so does {other}")
    wall("drop", family=closed, hosts=("far",))
    found = doctor(cp, FAR[closed])
    assert found["state"] == "note"
    assert found["cost"].startswith("each copy first tries what is closed, for 0.3 s; ask the administrator")
    assert found["found"].startswith(f"closed: {WRITTEN[closed]}:")
    assert found["found"].endswith(f": no answer, but {other} answers, so copies go there")
    found = doctor(cp, FAR[OTHER[closed]])
    assert found["state"] == "good"
    assert re.search(rf"; {re.escape(ADDRESSES[closed])} does not \(\d+: no answer\)$", found["found"])
