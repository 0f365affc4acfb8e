"""One case of ``bench.faults``: a copy in a lab of its own, a fault, what it left, the same command again."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench import memory
from bench.faults import lies, tap, trees
from bench.faults.cases import (
    DISK_FAULTS,
    FAILING,
    KEPT,
    LIES,
    LINK_FAULTS,
    MIRRORS,
    OVER_OLDER,
    PARTS,
    SOURCE_FAULTS,
    Case,
)
from bench.faults.disk import Disk
from bench.faults.failing import FailingDisk
from bench.faults.look import BESIDE, Finding, Look
from bench.faults.strikes import Scene, strike
from howdah import lab
from howdah.lab import Change, LinkSpec
from howdah.lab.session import Process

RATE_BPS = 200_000_000
RTT_NS = 10_000_000
FINISHES_WITHIN = 3
"""Runs of the same command that finish a copy at the latest."""
_HANGS_S = 150.0
_LOGIN_S = 1.0
"""Some time that a copy takes from its start to its first byte."""
_HEADERS = 1.02
"""Bytes that cross the link for each of a file, at the least: 1,448 come with 52 of headers."""
_DAMAGED = ("damaged", "changed on the way", "a record", "malformed", "with an alert")
"""What an error says of bytes that were changed on the way."""
_ROOM_BYTES = 1 << 30


class Outcome(msgspec.Struct, frozen=True):
    """What became of a case."""

    seed: int
    fault: str
    moment: str
    struck: bool
    """The fault met the copy: it came while it ran, and had something to act upon."""
    exit_code: int
    said: str
    """The last line of the copy that failed."""
    runs: int
    """Runs of the same command after it, until one ended with 0."""
    findings: tuple[Finding, ...]
    lasted_s: float


def carry_out(case: Case, folder: Path) -> Outcome:
    """Runs a case in ``folder``, which is empty; needs root and a mount namespace of this process's own."""
    began = time.monotonic()
    room = folder / "receiver"
    for each in (folder / "sender", room):
        each.mkdir()
    with ExitStack() as stack:
        ext4 = None
        stack.callback(_unmount, room)
        if case.fault in DISK_FAULTS:
            ext4 = Disk(folder / "disk", room)
        else:
            small = case.fault == "disk full" and case.moment == "start"
            memory.mount(room, trees.BIG_BYTES // 2 if small else _ROOM_BYTES, "never")
        if case.fault == "bit flipped on the wire":
            tap.prepare(folder / "taps", case.place)
            stack.callback(_unmount, folder / "taps")
        source, target = folder / "sender/source", room / "target"
        trees.make(source.parent, case.shape, case.seed)
        if case.shape in OVER_OLDER:
            trees.make_older(source, target / "source", case.seed)
        if case.shape in MIRRORS:
            trees.make_extraneous(target / "source", BESIDE)
        if ext4:
            ext4.flush()
        failing = None
        if case.fault in FAILING:
            kept = source.parent if FAILING[case.fault].what == "reads" else room
            failing = stack.enter_context(FailingDisk(kept, folder / "failing"))
        crossing_bytes = trees.size_bytes(source) * _HEADERS
        # The link's clock begins when it is up, which is when the copy begins.
        changes_s = _LOGIN_S + crossing_bytes * 8 / RATE_BPS * PARTS.get(case.moment, 0.0) + case.after_s
        wan = stack.enter_context(lab.started(_link(case, changes_s), sshd=True))
        taps = folder / "taps"
        scene = Scene(case, wan, source, target, room, ext4, taps, crossing_bytes, changes_s, failing)
        return _Run(scene, folder, began).carry_out()


def _link(case: Case, at_s: float) -> LinkSpec:
    spec = lab.symmetric(RATE_BPS, RTT_NS)
    if case.fault not in LINK_FAULTS:
        return spec
    at_ns, until_ns = int(at_s * 1e9), int((at_s + case.lasts_s) * 1e9)
    match case.fault:
        case "link down":
            changes = (Change(at_ns, outage=True), Change(until_ns, outage=False))
        case "round trip of seconds":
            changes = (Change(at_ns, delay_ns=10**9), Change(until_ns, delay_ns=RTT_NS // 2))
        case _:
            changes = (Change(at_ns, loss=0.2), Change(until_ns, loss=0.0))
    there = msgspec.structs.replace(spec.near_to_far, changes=changes)
    back = msgspec.structs.replace(spec.far_to_near, changes=changes)
    return msgspec.structs.replace(spec, near_to_far=there, far_to_near=back)


class _Run:
    def __init__(self, scene: Scene, folder: Path, began: float) -> None:
        self.scene, self.case, self.folder, self.began = scene, scene.case, folder, began
        self.source, self.where = scene.source, scene.where
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "HOWDAH_SSH_KEEP_S": "0"}
        self.findings: list[Finding] = []
        self.struck = False
        self.look = Look(scene)

    def carry_out(self) -> Outcome:
        case = self.case
        if case.fault in LIES:
            code, said = self.copy_to_a_liar()
        else:
            code, said = self.copy_and_look()
        runs = 0
        if case.fault == "disk full":
            more = ["mount", "--options", f"remount,size={_ROOM_BYTES}", str(self.scene.room)]
            subprocess.run(more, check=True)
        while self.source.exists() and runs < FINISHES_WITHIN and not self.found("hangs"):
            runs += 1
            again, said_again = self.copy(None)
            if again == 0:
                self.find_all(self.look.at_both_sides("the same command has finished"))
                break
            self.find("not finished" if runs == FINISHES_WITHIN else None, said_again)
        return Outcome(
            seed=case.seed,
            fault=case.fault,
            moment=case.moment,
            struck=self.struck,
            exit_code=code,
            said=_last_line(said),
            runs=runs,
            findings=tuple(self.findings),
            lasted_s=time.monotonic() - self.began,
        )

    def copy_and_look(self) -> tuple[int, str]:
        """The copy that something happens to, and what it leaves."""
        code, said = self.copy(strike)
        self.look.source_again()
        if self.scene.failing:
            self.find_untold(self.scene.failing, code, said)
        if self.struck and self.scene.disk and not self.scene.disk.restart(self.scene.wan):
            self.find("hangs", f"exit code {code}, and its file system stays in use")
            return code, said
        self.find_all(self.look.at_what_is_left(code))
        if self.case.fault == "bit flipped on the wire" and self.struck and code != 0:
            self.find(None if any(word in said for word in _DAMAGED) else "unclear error", said)
        if code == 0 and self.case.fault not in (*SOURCE_FAULTS, "target removed"):
            self.find_all(self.look.at_both_sides("the copy said that all was well"))
        return code, said

    def find_untold(self, failing: FailingDisk, code: int, said: str) -> None:
        """Has the disk be well again, and looks whether the copy has told that it failed."""
        self.struck = failing.be_well() > 0
        if self.struck:
            untold = failing.untold(FAILING[self.case.fault].what, code, said, self.look.places())
            self.find("failed disk not told" if untold else None, untold)

    def copy_to_a_liar(self) -> tuple[int, str]:
        """The copy after which the disk gives back something else, and what is told of it."""
        biggest = trees.biggest_file(self.source)
        bad = self.where if biggest == self.source else self.where / biggest.relative_to(self.source)
        liar = lies.Liar(self.scene, biggest, self.folder, self.env)
        code, said = self.copy(None, *liar.options(self.case.fault))
        wrong = liar.wrong(self.case.fault, code, said)
        # What the page cache holds says nothing of the disk; this is looked at last.
        self.struck = bad.exists() and self.scene.own_disk.gives(bad) != biggest.read_bytes()
        if wrong and self.struck:
            self.find("flipped bit not told", wrong)
        # As docs/verify.md says: a damaged file must go first.
        bad.unlink(missing_ok=True)
        return code, said

    def find(self, what: str | None, detail: object) -> None:
        if what is not None:
            self.findings.append(Finding(what, str(detail)[:500]))

    def found(self, what: str) -> bool:
        return any(finding.what == what for finding in self.findings)

    def find_all(self, found: list[Finding]) -> None:
        for each in found:
            self.find(each.what, each.detail)

    def copy(self, strike: Callable[[Scene, Process], bool] | None, *options: str) -> tuple[int, str]:
        """Runs the command; its exit code and what it said."""
        source, target = map(self.scene.seen, (self.source, self.scene.target))
        whole = f"{target}{'' if self.case.shape == 'one file' else '/'}"
        places = [str(source), f"far:{whole}"] if self.case.push else [f"far:{source}", whole]
        how = [*options, *([] if self.case.encrypt else ["--plaintext"])]
        how += ["-aHAXS"] if self.case.shape in KEPT else []
        how += ["--delete"] if self.case.shape in MIRRORS else []
        argv = [str(Path(sys.executable).parent / "howdah"), "cp", "--quiet", *how, *places]
        began = time.monotonic()
        process = self.scene.wan.popen("near", argv, env=self.env, stderr=subprocess.PIPE, text=True)
        with ThreadPoolExecutor(1) as beside, process:
            striking = beside.submit(strike, self.scene, process) if strike else None
            try:
                _, errors = process.communicate(timeout=_HANGS_S)
            except subprocess.TimeoutExpired:
                self.find("hangs", f"no end after {time.monotonic() - began:.0f} s")
                process.kill()
                _, errors = process.communicate()
            if striking:
                self.struck = striking.result()
        if "Traceback" in errors or "panicked" in errors:
            self.find("unclear error", errors)
        if process.returncode not in (0, -signal.SIGKILL, 128 + signal.SIGKILL) and not errors.strip():
            self.find("unclear error", f"exit code {process.returncode} and no word")
        return process.returncode, errors


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", folder], check=True)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def names(outcomes: list[Outcome]) -> dict[str, int]:
    """How often each finding was made."""
    found = sorted(finding.what for outcome in outcomes for finding in outcome.findings)
    return {what: len(list(each)) for what, each in itertools.groupby(found)}
