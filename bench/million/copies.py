"""The copies: a first one, one with nothing to do, and two that remove, each by howdah and by rsync."""

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.million import seen, tree
from bench.parts import Run
from bench.peers import howdah
from howdah import HowdahError, lab
from howdah.lab import Lab, LinkSpec

SIZES = (10_000, 100_000, 1_000_000)
TOOLS = ("howdah", "rsync")
SOURCE = "source"
FIRST, AGAIN, SCATTERED, FOLDER = "first", "again", "delete 1 %", "delete a folder"
ONCE_FROM_FILES = 1_000_000
"""A first copy of so many is made once: nothing is asked of its time."""
SCATTERED_SHARE, FOLDER_SHARE = 100, 10
"""One file of so many is extraneous, in all folders and in one folder."""
_LONGEST_S = 3600
_STRIDE = 7919
_TREES = len(TOOLS) + 1
_FILE_BYTES = 6000
"""What a file takes of the disk, with its inode and its name."""
_SPARED_BYTES = 4 << 30
_KEPT = ("near_memory_bytes", "far_memory_bytes", "warnings")


@dataclasses.dataclass(frozen=True)
class Over:
    """A path that is copied over."""

    name: str
    link: LinkSpec
    kinds: tuple[str, ...]


PATHS = (
    Over("1 Gb/s x 10 ms", lab.symmetric(10**9, 10_000_000), (FIRST, AGAIN, SCATTERED, FOLDER)),
    Over("10 Gb/s x 1 ms", lab.symmetric(10**10, 1_000_000), (AGAIN, SCATTERED)),
)


@contextmanager
def disk(files: int, above: Path) -> Iterator[Path]:
    """An ext4 of its own for three trees, in a file in ``above`` that ends with it.

    A flush of it waits for nobody else's writes. Needs root; raises HowdahError when there is no room.
    """
    size_bytes = _TREES * files * _FILE_BYTES + (2 << 30)
    free_bytes, needed_bytes = shutil.disk_usage(above).free, size_bytes + _SPARED_BYTES
    if free_bytes < needed_bytes:
        gib = f"{free_bytes >> 30} GiB free; the bench needs {needed_bytes >> 30} GiB"
        raise HowdahError(f"{above} has {gib}; name another folder with --folder")
    with tempfile.TemporaryDirectory(prefix="howdah-million-", dir=above) as name:
        folder, image = Path(name, "disk"), Path(name, "image")
        folder.mkdir()
        with image.open("wb") as stream:
            stream.truncate(size_bytes)
        inodes = str(_TREES * files * 5 // 4 + 100_000)
        _do("mkfs.ext4", "-q", "-N", inodes, "-m", "0", "-E", "lazy_journal_init=1", str(image))
        _do("mount", "-o", "loop,noatime", str(image), str(folder))
        try:
            yield folder
        finally:
            _do("umount", str(folder))


def measure(sizes: list[int], rounds: int, above: Path) -> Iterator[Run]:
    """The runs of each size. Needs root; raises RuntimeError where a copy fails."""
    for files in sizes:
        with disk(files, above) as folder:
            source = folder / SOURCE
            source.mkdir()
            began_s = time.monotonic()
            made = tree.make(source, files)
            about = {"files": files, "tree": dataclasses.asdict(made)}
            folders = tree.folders_of(source)
            print(f"{files} files made in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
            for path in PATHS:
                with lab.started(path.link, sshd=True) as wan:
                    stage = Stage(wan, folder, files, folders)
                    for done in stage.runs(path.kinds, rounds):
                        yield about | {"path": path.name} | done
            yield about | {"path": "", "kind": "compared", "tool": TOOLS[0], "round": 0} | stage.compared()


@dataclasses.dataclass(frozen=True)
class Stage:
    """Where the copies are made."""

    wan: Lab
    scratch: Path
    files: int
    folders: list[bytes]
    """The folders of the source, by their paths below it."""

    @property
    def source(self) -> Path:
        """What is copied."""
        return self.scratch / SOURCE

    def runs(self, kinds: tuple[str, ...], rounds: int) -> Iterator[Run]:
        """All runs over one path, the tools in turns."""
        for kind in kinds:
            once = kind == FIRST and self.files >= ONCE_FROM_FILES
            for number in range(1 if once else rounds):
                self._prepare(kind, number)
                for tool in sorted(TOOLS, reverse=number % 2 == 1):
                    yield {"kind": kind, "tool": tool, "round": number} | self._copy(kind, tool)

    def compared(self) -> Run:
        """What rsync finds to do between the source and what howdah has made of it, with all content read."""
        argv = ["rsync", "-anic", "--delete", f"{self.source}/", f"{self._target(TOOLS[0])}/"]
        told = subprocess.run(argv, capture_output=True, check=True).stdout.splitlines()
        return {"differences": len(told), "first": [line.decode(errors="replace") for line in told[:3]]}

    def _target(self, tool: str) -> Path:
        return self.scratch / tool

    def _prepare(self, kind: str, number: int) -> None:
        """Brings both targets into the state that the copies of a round begin with."""
        for tool in TOOLS:
            target = self._target(tool)
            if kind == FIRST:
                if target.exists():
                    shutil.rmtree(os.fsencode(target))
                target.mkdir()
            if kind == SCATTERED:
                self._scatter(target, number)
            if kind == FOLDER:
                inside = target / "extraneous"
                inside.mkdir()
                tree.make(inside, self.files // FOLDER_SHARE)

    def _scatter(self, target: Path, number: int) -> None:
        for extra in range(max(1, self.files // SCATTERED_SHARE)):
            below = self.folders[extra * _STRIDE % len(self.folders)]
            whole = os.path.join(os.fsencode(target), below)  # noqa: PTH118, bytes
            folder = os.open(whole, os.O_RDONLY | os.O_DIRECTORY)
            tree.write(folder, b"extraneous \xff %d %d" % (number, extra), 100)
            os.close(folder)

    def _copy(self, kind: str, tool: str) -> Run:
        """One copy, on the clock from the start of the command to its end."""
        delete = ["--delete"] if kind in (SCATTERED, FOLDER) else []
        of, to = f"{self.source}/", f"far:{self._target(tool)}/"
        commands = {
            "howdah": [str(howdah.PROGRAM), "cp", "--json", "-a", *delete, f"{of}.", to],
            "rsync": ["rsync", "-a", *delete, of, to],
        }
        # Both log in anew, and neither finds the other's writes on their way to the disk.
        env = {**os.environ, "XDG_DATA_HOME": str(self.scratch / "data"), "HOWDAH_SSH_KEEP_S": "0"}
        subprocess.run(["sync", "--file-system", str(self.scratch)], check=True)
        began_s = time.monotonic()
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            self.wan.popen("near", commands[tool], env=env, stdout=output, stderr=errors) as process,
            seen.watched(process.inner_pid) as ends,
        ):
            code = process.wait(_LONGEST_S)
            wall_s = time.monotonic() - began_s
            if code:
                errors.seek(0)
                raise RuntimeError(f"{kind}, {tool}: {errors.read().decode(errors='replace')}")
            output.seek(0)
            facts = howdah.facts(output.read()) if tool == "howdah" else {}
        kept = {name: fact for name, fact in facts.items() if name in _KEPT}
        return {"wall_s": wall_s, "peak_bytes": ends.peak_bytes, "cpu_s": ends.cpu_s} | kept


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HowdahError(f"{argv[0]}: {done.stderr.strip()}")
