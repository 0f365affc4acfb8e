"""Copies from one far host to another, started on a third: what goes where, and what comes of failures."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from copying import SLACK_S, STOP_S, Copier, alive, tree, wait_until
from requirement import missing

from howdah import lab
from howdah.lab import Lab, mounts

pytestmark = [pytest.mark.lab, pytest.mark.beside, pytest.mark.usefixtures("nothing_kept")]

MS = 1_000_000
SLOWLY = ("--streams", "2", "--pace", "20Mbit")
SOME_BYTES = 2_000_000
CLOSED = """\
table inet wall {
    chain input {
        type filter hook input priority filter;
        iif lo accept
        tcp dport 22 accept
        tcp flags & (syn | ack) == syn reject with tcp reset
    }
}
"""


@pytest.fixture(scope="module")
def wan(privilege: None) -> Iterator[Lab]:
    """The third host beside dtn1, and dtn2 behind 500 Mb/s and 20 ms."""
    hosts = lab.dumbbell(["near", "dtn1"], ["dtn2"])
    with lab.started(lab.symmetric(500_000_000, 20 * MS), hosts, sshd=True) as up:
        yield up


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = tmp_path / "src"
    (top / "sub").mkdir(parents=True)
    for number in range(30):
        (top / f"sub/{number}").write_bytes(bytes([number]) * 3000)
    (top / "big").write_bytes(os.urandom(20_000_000))
    (top / "link").symlink_to("big")
    return top


def test_wildcards_are_those_of_the_host_that_sends(cp: Copier, source: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    cp.good(f"dtn1:{source}/sub/[12]?", f"dtn2:{tmp_path}/there")
    assert tree(tmp_path / "there") == {
        name: node for name, node in tree(source / "sub").items() if len(name) == 2 and name[:1] in b"12"
    }


def test_with_delete_the_target_is_what_rsync_makes_of_it(cp: Copier, source: Path, tmp_path: Path) -> None:
    rsync, ours = tmp_path / "rsync", tmp_path / "ours"
    for target in (rsync, ours):
        subprocess.run(["rsync", "-a", f"{source}/", f"{target}/"], check=True)
        (target / "old folder/deep").mkdir(parents=True)
        for name in ("old folder/deep/x", "sub/extra", "kept.o"):
            (target / name).write_text("old")
            os.utime(target / name, (1_000_000_000, 1_000_000_000))
        (target / "old link").symlink_to(source)
    (source / "sub/7").unlink()
    (source / "new").write_text("new")
    words = ("-a", "--delete", "--exclude", "*.o")
    subprocess.run(["rsync", *words, f"{source}/", f"{rsync}/"], check=True)
    command = (*words, f"dtn1:{source}/.", f"dtn2:{ours}/")
    before = tree(ours)
    would = cp(*command, "--dry-run")
    assert would.returncode == 0, would.stderr
    assert "\nremove             old folder/deep/x\n" in would.stdout
    assert would.stdout.endswith("; remove 6.\n")
    assert tree(ours) == before
    bounded = cp(*command, "--max-delete", "5")
    assert bounded.returncode == 1
    assert "howdah: the target has 6 files, folders and links that the source does not have" in bounded.stderr
    assert tree(ours).keys() == before.keys() | {b"new"}
    removal = cp.good(*command).outcome.removal
    assert (removal.extraneous, removal.removed, removal.failed) == (6, 6, 0)
    assert tree(ours) == tree(rsync) | {b"link": tree(source)[b"link"]}, "but for the time of the link"


@pytest.fixture
def walls(cp: Copier) -> Iterator[None]:
    yield
    for host in ("dtn1", "dtn2"):
        cp.lab.run(host, ["nft", "flush", "ruleset"], check=True)


@pytest.fixture
def both_families(cp: Copier) -> Iterator[None]:
    """The names of the far hosts lead to both of their addresses, on the third host."""
    before = cp.lab.run("near", ["cat", "/etc/hosts"], capture_output=True, text=True, check=True).stdout
    rows = [row.split() for row in before.splitlines()]
    added = "".join(
        f"{row[0]} {row[1].removesuffix('-v6')}\n" for row in rows if row and row[1].endswith("-v6")
    )
    for text in (before + added, before):
        cp.lab.run("near", ["tee", "/etc/hosts"], input=text, capture_output=True, text=True, check=True)
        if text != before:
            yield


@pytest.mark.usefixtures("walls", "both_families")
@pytest.mark.parametrize("closed", ["ipv4", "ipv6"])
def test_of_a_name_with_both_families_the_open_one_is_taken(
    cp: Copier, source: Path, tmp_path: Path, closed: str
) -> None:
    rules = CLOSED.replace("tcp flags", f"meta nfproto {closed} tcp flags")
    for host in ("dtn1", "dtn2"):
        cp.lab.run(host, ["nft", "-f", "-"], input=rules, text=True, check=True)
    cp.good(f"dtn1:{source}/.", f"dtn2:{tmp_path}/there")
    assert tree(tmp_path / "there") == tree(source)


def carried_bytes(cp: Copier) -> int:
    """What has come to the third host and left it."""
    rows = cp.lab.run("near", ["cat", "/proc/net/dev"], capture_output=True, text=True).stdout.splitlines()[
        2:
    ]
    fields = [row.split(":")[1].split() for row in rows if not row.strip().startswith("lo:")]
    return sum(int(each[0]) + int(each[8]) for each in fields)


def test_a_tree_goes_straight_and_what_is_there_is_skipped(cp: Copier, source: Path, tmp_path: Path) -> None:
    there, list_of_it = tmp_path / "there", tmp_path / "it.sha256"
    command = (f"dtn1:{source}/.", f"dtn2:{there}")
    would = cp(*command, "--dry-run")
    assert would.returncode == 0, would.stderr
    assert "Would copy 31 files, 20.1 MB, 1 link, to dtn2:" in would.stdout
    assert not there.exists()
    before = carried_bytes(cp)
    record = cp.good(*command, "--verify", "--manifest", list_of_it)
    assert carried_bytes(cp) - before < SOME_BYTES
    assert tree(there) == tree(source)
    assert (record.host, record.origin) == ("dtn2", "dtn1")
    # The third host hears late that it has begun, and yet it was no faster than the path.
    assert record.outcome.moving_bps < 500e6
    assert record.bottleneck.rate_bps < 500e6
    assert record.rtt_s == pytest.approx(0.02, abs=0.003)
    assert record.environment.origin is not None
    assert record.verification is not None
    assert record.verification.agrees
    checked = subprocess.run(["sha256sum", "-c", list_of_it], cwd=there, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout
    again = cp(*command)
    assert "31 skipped, there already" in again.stdout, again.stderr
    assert f"To dtn2:{there}" in again.stdout


def test_the_other_end_connects_where_one_is_closed_and_both_are_said(
    cp: Copier, source: Path, tmp_path: Path, walls: None
) -> None:
    if cp.lab.run("near", ["which", "nft"], capture_output=True).returncode:
        missing("no nft; install nftables")
    there = tmp_path / "there"
    cp.lab.run("dtn2", ["nft", "-f", "-"], input=CLOSED, text=True, check=True)
    cp.good(f"dtn1:{source}/.", f"dtn2:{there}")
    assert tree(there) == tree(source)
    cp.lab.run("dtn1", ["nft", "-f", "-"], input=CLOSED, text=True, check=True)
    said = cp.refused(f"dtn1:{source}/big", "dtn2:new")
    assert said.startswith("howdah: dtn1 and dtn2 cannot reach each other's data port (dtn1 to dtn2: 10.77.")
    assert said.count("Connection refused") == 2
    way = f"howdah cp dtn1:{source}/big on-the-way/ && howdah cp on-the-way/* dtn2:new"
    assert said.endswith(f"or copy through this host: {way}\n")
    # What it says to type does it.
    words = shlex.join([sys.executable, "-m", "howdah"])
    typed = way.replace("howdah cp", f"{words} cp -q").replace("dtn2:new", f"dtn2:{tmp_path}/new")
    done = cp.lab.run("near", ["sh", "-c", typed], env=cp.env, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "new").read_bytes() == (source / "big").read_bytes()


def test_ctrl_c_ends_both_ends_and_the_same_command_goes_on(cp: Copier, source: Path, tmp_path: Path) -> None:
    big, there = source / "big", tmp_path / "there"
    command = (f"dtn1:{big}", f"dtn2:{there}")
    argv = [*cp.argv(*command), *SLOWLY]
    process = cp.lab.popen("near", argv, env=cp.env, stderr=subprocess.PIPE, text=True)
    part = tmp_path / ".there.howdah-part"
    with alive(process):
        wait_until(part.exists, 20)
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: process.poll() is not None, STOP_S + SLACK_S)
        assert process.returncode == 130
        assert process.stderr is not None
        assert process.stderr.read() == "howdah: interrupted by SIGINT\n"
    cp.wait_for_nothing_left()
    assert not there.exists()
    outcome = cp.good(*command).outcome
    assert outcome is not None
    assert outcome.bytes_resumed > 0
    assert there.read_bytes() == big.read_bytes()


def test_after_a_far_end_was_killed_the_copy_begins_again_with_both(
    cp: Copier, source: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    argv = [*cp.argv(f"dtn1:{source}/.", f"dtn2:{there}"), *SLOWLY]
    process = cp.lab.popen(
        "near", argv, env=cp.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with alive(process):
        part = there / ".big.howdah-part"
        wait_until(part.exists, 20)
        time.sleep(1.0)
        serving = cp.far_ends()
        assert len(serving) == 2
        cp.lab.run("near", ["kill", "-KILL", str(max(serving))], check=True)
        said, complained = process.communicate(timeout=30)
    assert process.returncode == 0, complained
    assert "far end started again once" in said.lower()
    assert tree(there) == tree(source)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--far-howdah", "/no/such"), "howdah: howdah was not found on dtn1; install it there"),
        (
            ("-e", "ssh -o UserKnownHostsFile=/dev/null"),
            "howdah: the host key of dtn1 is not known; check it and accept it once with: ssh dtn1 true",
        ),
        (("--path", "dedicated"), "howdah: --path dedicated is for copies from or to this host"),
    ],
)
def test_what_cannot_be_is_said_with_the_host(
    cp: Copier, source: Path, tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    assert cp.refused(f"dtn1:{source}", f"dtn2:{tmp_path}/new", *options).startswith(says)


def test_an_end_that_fails_is_named(cp: Copier, source: Path, tmp_path: Path) -> None:
    assert cp.refused("dtn1:/no/such", f"dtn2:{tmp_path}/new") == (
        "howdah: dtn1: cannot read /no/such: no such file or folder\n"
    )
    said = cp.refused(f"dtn1:{source}", "dtn2:/proc/new")
    assert said.startswith("howdah: dtn2: "), said


def test_two_logins_for_copies_alone_cannot_meet(cp: Copier, source: Path, tmp_path: Path) -> None:
    keys = mounts.PRIVATE / "authorized_keys"
    plain = cp.lab.run("dtn1", ["cat", str(keys)], capture_output=True, text=True, check=True).stdout
    howdah = Path(sys.executable).parent / "howdah"
    forced = shlex.join([str(howdah), "serve", "--root", str(tmp_path)])

    def write(line: str) -> None:
        cp.lab.run("dtn1", ["tee", str(keys)], input=line, stdout=subprocess.DEVNULL, text=True, check=True)

    write(f'command="{forced}",restrict {plain}')
    try:
        done = cp("dtn1:src", "dtn2:there")
    finally:
        write(plain)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["dtn1", "dtn2", "howdah"]
    assert lines[-1].count("this login is for copies alone and connects to no other host") == 2
    assert not (tmp_path / "there").exists()
