"""A disk that fails with EIO when it is told to, under the target or the source of a case.

It is the file system of ``crates/failing``, in FUSE: no block device is made to fail. The copy sees it; the
bench looks at the folder that it shows, so all that it fails is failed for the copy.
"""

import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.faults.cases import Failure
from bench.page import ROOT
from howdah import HowdahError

_PROGRAM = ROOT / "target/release/howdah-failing"
_BUSY_S = 10.0
_POLL_S = 0.05
_LOSES: tuple[Failure, ...] = ("flushes", "writes", "closes")
"""What has lost bytes when it fails, whatever comes of a second try."""
_TOLD = re.compile(
    r"cannot [a-z_. ]+ (/[^\n]+?)(?: to /[^\n]+?)?: its disk has failed \(Input/output error\); "
    r"look into the kernel's log \(dmesg\), and run the same command again when the disk is well"
)


def build() -> None:
    """Builds the program; a bench does it once, before its cases."""
    package = ("--release", "--locked", "--package", "howdah-failing", "--bin", "howdah-failing")
    subprocess.run(["cargo", "build", *package, "--target-dir", ROOT / "target"], cwd=ROOT, check=True)


class FailingDisk:
    """Shows the folder ``kept`` on the new folder ``shown``, in the mount namespace of this process.

    The program unmounts it when this process ends in any way. Entering raises HowdahError if it cannot be
    mounted; so does leaving if it stays in use.
    """

    def __init__(self, kept: Path, shown: Path) -> None:
        self.kept, self.shown = kept, shown

    def __enter__(self) -> Self:
        """Mounts it."""
        self.shown.mkdir()
        # A Ctrl-C in the terminal is not for the program: its bench unmounts it.
        self._program = subprocess.Popen(
            [_PROGRAM, self.kept, self.shown],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._answer() != "mounted":
            self._program.kill()
            self._program.wait()
            raise HowdahError(f"cannot mount a file system that fails on {self.shown}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Unmounts it, and waits until it is mounted in no lab either."""
        try:
            until = time.monotonic() + _BUSY_S
            while subprocess.run(["umount", self.shown], capture_output=True, check=False).returncode:
                if time.monotonic() > until:
                    raise HowdahError(f"the file system that fails stays in use: {self.shown}")
                time.sleep(_POLL_S)
            code = self._program.wait(_BUSY_S)
            if code:
                raise HowdahError(f"the file system that fails ended with {code}")
        finally:
            self._program.kill()
            self._program.communicate()

    def path(self, kept: Path) -> Path:
        """The path by which the copy finds what is at ``kept``, which may be on another disk."""
        return self.shown / kept.relative_to(self.kept) if kept.is_relative_to(self.kept) else kept

    def fail(self, what: Failure, for_s: float | None) -> None:
        """Has that fail from now on: the next time alone, or for so many seconds."""
        self._tell(f"{what} {'once' if for_s is None else round(for_s * 1000)}")

    def be_well(self) -> int:
        """Has nothing fail any more; returns how much has failed."""
        return self._tell("well")

    def untold(self, what: Failure, code: int, said: str, names: Iterable[Path]) -> str | None:
        """What is wrong with what a copy has told of its disk, which failed; null if nothing is.

        ``names`` are the paths at which it may have failed. A copy that ended with 0 may have tried again
        what loses nothing; both sides are compared then.
        """
        if code == 0:
            return f"{what} have failed, and the copy has ended with 0" if what in _LOSES else None
        known = {str(self.path(name)) for name in names}
        places = [_whole(Path(place)) for place in _TOLD.findall(said)]
        if any(str(place) in known for place in places):
            return None
        return f"exit code {code}, and no word of a disk that has failed at a known place: {said}"

    def _tell(self, line: str) -> int:
        if self._program.stdin is None:
            raise AssertionError("it was started with pipes")
        self._program.stdin.write(f"{line}\n")
        self._program.stdin.flush()
        return int(self._answer())

    def _answer(self) -> str:
        if self._program.stdout is None:
            raise AssertionError("it was started with pipes")
        return self._program.stdout.readline().strip()


def _whole(place: Path) -> Path:
    """The file or folder of which something is a part."""
    if place.name.startswith(".") and place.name.endswith(".howdah-part"):
        return place.with_name(place.name[1:].removesuffix(".howdah-part"))
    return place
