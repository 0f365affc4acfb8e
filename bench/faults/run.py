"""One case of ``bench.faults``: a copy in a lab of its own, a fault, what it left, the same command again."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import memory
from bench.faults import trees
from bench.faults.cases import LINK_FAULTS, PARTS, SOURCE_FAULTS, Case, Fault
from howdah import lab
from howdah.lab import Change, Lab, LinkSpec

RATE_BPS = 200_000_000
RTT_NS = 10_000_000
FINISHES_WITHIN = 3
"""Runs of the same command that finish a copy at the latest."""
_HANGS_S = 150.0
_LOGIN_S = 1.0
"""Some time that a copy takes from its start to its first byte."""
_ROOM_BYTES = 1 << 30
_POLL_S = 0.01
_SIGNALS: dict[Fault, tuple[str, str, str]] = {
    "near killed": ("near", "KILL", "howdah cp"),
    "near interrupted": ("near", "INT", "howdah cp"),
    "far killed": ("far", "KILL", "howdah serve"),
    "far terminated": ("far", "TERM", "howdah serve"),
    "login killed": ("near", "KILL", "ssh "),
    "server restarted": ("far", "KILL", "sshd: "),
}
"""Host, signal, and what the command line of a process to be signalled has."""
_STOPS: dict[Fault, tuple[str, str]] = {
    "near stopped for a while": ("near", "howdah cp"),
    "far stopped for a while": ("far", "howdah serve"),
}


class Finding(msgspec.Struct, frozen=True):
    """What a case showed that may not be."""

    what: str
    detail: str


class Outcome(msgspec.Struct, frozen=True):
    """What became of a case."""

    seed: int
    fault: str
    moment: str
    struck: bool
    """The fault came while the copy ran."""
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
    sender, receiver = folder / "sender", folder / "receiver"
    for each in (sender, receiver):
        each.mkdir()
    room = trees.BIG_BYTES // 2 if case.fault == "disk full" else _ROOM_BYTES
    memory.mount(receiver, room, "never")
    try:
        with lab.started(_link(case), sshd=True) as wan:
            return _Run(case, wan, folder, began).carry_out()
    finally:
        subprocess.run(["umount", "--lazy", receiver], check=True)


def _link(case: Case) -> LinkSpec:
    spec = lab.symmetric(RATE_BPS, RTT_NS)
    if case.fault not in LINK_FAULTS:
        return spec
    copying_s = trees.BIG_BYTES * 8 / RATE_BPS
    at_s = _LOGIN_S + copying_s * PARTS.get(case.moment, 0.0) + case.after_s
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
    def __init__(self, case: Case, wan: Lab, folder: Path, began: float) -> None:
        self.case, self.wan, self.began = case, wan, began
        self.source = folder / "sender/source"
        self.target = folder / "receiver/target"
        self.receiver = folder / "receiver"
        self.env = {**os.environ, "XDG_DATA_HOME": str(folder / "data"), "HOWDAH_SSH_KEEP_S": "0"}
        self.findings: list[Finding] = []
        self.struck = False

    def carry_out(self) -> Outcome:
        case = self.case
        trees.make(self.source.parent, case.shape, case.seed)
        if case.shape == "tree over an older one":
            trees.make_older(self.source, self.target / "source", case.seed)
        versions = [trees.tree(self.where()), trees.tree(self.source)]
        code, said = self.copy(self.strike)
        versions.append(trees.tree(self.source))
        self.look_at_what_is_left(versions)
        if code == 0 and case.fault not in (*SOURCE_FAULTS, "target removed"):
            self.compare("the copy said that all was well")
        runs = 0
        if case.fault == "disk full":
            subprocess.run(["mount", "-o", f"remount,size={_ROOM_BYTES}", self.receiver], check=True)
        while self.source.exists() and runs < FINISHES_WITHIN:
            runs += 1
            again, said_again = self.copy(None)
            if again == 0:
                self.compare("the same command has finished")
                break
            self.find("not finished" if runs == FINISHES_WITHIN else None, said_again)
        return Outcome(
            seed=case.seed,
            fault=case.fault,
            moment=case.moment,
            struck=self.struck or case.fault in LINK_FAULTS,
            exit_code=code,
            said=said,
            runs=runs,
            findings=tuple(self.findings),
            lasted_s=time.monotonic() - self.began,
        )

    def where(self) -> Path:
        """Where the source is at the target."""
        return self.target if self.case.shape == "one file" else self.target / "source"

    def find(self, what: str | None, detail: object) -> None:
        if what is not None:
            self.findings.append(Finding(what, str(detail)[:500]))

    def compare(self, when: str) -> None:
        """Both sides must be the same now, and nothing else may be there but what an older copy left."""
        expected, found = trees.tree(self.source), trees.tree(self.where())
        wrong = {name for name, node in expected.items() if found.get(name) != node}
        if wrong:
            self.find("different", f"{when}, and {sorted(wrong)[:5]} differ")
        strange = {name for name in found if Path(name).name.startswith(".")}
        beside = {path.name for path in self.receiver.iterdir() if path.name.startswith(".")}
        if strange | beside:
            self.find("leftover", f"{when}, and {sorted(strange | beside)[:5]} are left")

    def look_at_what_is_left(self, versions: list[trees.Tree]) -> None:
        """Under a final name there may only be bytes that a version of it had, whole."""
        for name, node in trees.tree(self.where()).items():
            hidden = Path(name).name.startswith(".")
            known = any(name in tree and tree[name].digest == node.digest for tree in versions)
            if node.kind == "file" and not hidden and not known:
                self.find("wrong bytes", name)

    def copy(self, strike: Callable[["subprocess.Popen[str]"], None] | None) -> tuple[int, str]:
        """Runs the command; its exit code and its last line."""
        remote, here = (self.target, self.source) if self.case.push else (self.source, self.target)
        places = [str(here), f"far:{remote}"] if self.case.push else [f"far:{remote}", str(here)]
        if self.case.shape != "one file":
            places[1] += "/"
        options = [] if self.case.encrypt else ["--plaintext"]
        argv = [str(Path(sys.executable).parent / "howdah"), "cp", "--quiet", *options, *places]
        began = time.monotonic()
        process = self.wan.popen("near", argv, env=self.env, stderr=subprocess.PIPE, text=True)
        with process, _watched(process, strike):
            try:
                _, errors = process.communicate(timeout=_HANGS_S)
            except subprocess.TimeoutExpired:
                self.find("hangs", f"no end after {time.monotonic() - began:.0f} s")
                process.kill()
                _, errors = process.communicate()
        if "Traceback" in errors or "panicked" in errors:
            self.find("unclear error", errors)
        if process.returncode not in (0, -signal.SIGKILL, 128 + signal.SIGKILL) and not errors.strip():
            self.find("unclear error", f"exit code {process.returncode} and no word")
        return process.returncode, (errors.strip().splitlines() or [""])[-1]

    def strike(self, process: "subprocess.Popen[str]") -> None:
        """Waits for the moment, then has it go wrong, if the copy still runs."""
        self.wait_for_the_moment(process)
        self.struck = process.poll() is None
        if not self.struck:
            return
        fault = self.case.fault
        if fault in _SIGNALS:
            self.signal(*_SIGNALS[fault])
        elif fault in _STOPS:
            self.stop(*_STOPS[fault])
            # What started the command stops with it.
            os.kill(process.pid, signal.SIGCONT)
        elif fault in SOURCE_FAULTS:
            trees.change(self.source, fault)
        elif fault == "connections reset":
            self.wan.run("far", ["ss", "-HntK", "sport", "ne", "22"], stdout=subprocess.DEVNULL)
        elif fault == "target removed":
            # The copy may write a file while its folder is being removed.
            subprocess.run(["rm", "-rf", self.target], stderr=subprocess.DEVNULL, check=False)

    def wait_for_the_moment(self, process: "subprocess.Popen[str]") -> None:
        part = PARTS.get(self.case.moment)
        if part is not None:
            while process.poll() is None:
                link = self.wan.stats().directions
                crossed = link["near_to_far"] if self.case.push else link["far_to_near"]
                if crossed.ip_bytes >= part * trees.BIG_BYTES:
                    break
                if part == 1.0 and self.where().exists() and self.case.shape == "one file":
                    break
                time.sleep(_POLL_S)
        time.sleep(self.case.after_s)

    def signal(self, host: str, name: str, words: str) -> None:
        """Signals the processes of this lab whose command line has ``words``; the lab's sshd listens on."""
        for pid in self.processes(words):
            self.wan.run(host, ["kill", f"-{name}", str(pid)], stderr=subprocess.DEVNULL)

    def stop(self, host: str, words: str) -> None:
        self.signal(host, "STOP", words)
        time.sleep(self.case.lasts_s)
        self.signal(host, "CONT", words)

    def processes(self, words: str) -> Iterator[int]:
        listed = self.wan.run("near", ["ps", "-eo", "pid=,args="], stdout=subprocess.PIPE, text=True).stdout
        for line in listed.splitlines():
            pid, _, command = line.strip().partition(" ")
            if words in command and "listener" not in command and not command.startswith("ps "):
                yield int(pid)


@contextmanager
def _watched(process: "subprocess.Popen[Any]", strike: Callable[[Any], None] | None) -> Iterator[None]:
    """Has ``strike`` run beside the block, and waits for it."""
    thread = threading.Thread(target=strike, args=[process]) if strike else None
    if thread:
        thread.start()
    try:
        yield
    finally:
        if thread:
            thread.join()


def names(outcomes: list[Outcome]) -> dict[str, int]:
    """How often each finding was made."""
    found = sorted(finding.what for outcome in outcomes for finding in outcome.findings)
    return {what: len(list(each)) for what, each in itertools.groupby(found)}
