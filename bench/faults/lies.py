"""Disks that give back something else than they were given: what is done to them, and what must be told."""

import random
import sys
from pathlib import Path

from bench.faults import disk
from bench.faults.cases import Fault
from bench.faults.strikes import Scene

_PART_BYTES = 64
_BLOCK_BYTES = 4096
_CHECK_S = 60.0


class Liar:
    """The disk of a case, which flips a bit of ``biggest``, a file of the source, at the target."""

    def __init__(self, scene: Scene, biggest: Path, folder: Path, env: dict[str, str]) -> None:
        self.scene, self.env = scene, env
        self.image = scene.own_disk.image
        whole = biggest.name if biggest == scene.source else f"source/{biggest.relative_to(scene.source)}"
        self.name = scene.target.name if biggest == scene.source else whole
        """The name of the file in the manifest of the copy."""
        blocks = (biggest.stat().st_size - _PART_BYTES) // _BLOCK_BYTES
        at = random.Random(scene.case.seed).randint(0, blocks) * _BLOCK_BYTES  # noqa: S311, no secret
        self.part = biggest.read_bytes()[at : at + _PART_BYTES]
        self.manifest = folder / "copied.b3sum"
        self.wrapper = folder / "howdah"

    def options(self, fault: Fault) -> tuple[str, ...]:
        """The options of the copy for a fault."""
        if fault == "disk flips a bit before a check":
            return ("--manifest", str(self.manifest))
        flips = f"{sys.executable} -P {Path(disk.__file__)} {self.image} {self.part.hex()}"
        self.wrapper.write_text(f'#!/bin/sh\n[ "$1" != reread ] || {flips}\nexec howdah "$@"\n')
        self.wrapper.chmod(0o755)
        return ("--verify", "--far-howdah", str(self.wrapper))

    def wrong(self, fault: Fault, code: int, said: str) -> str | None:
        """What is wrong with what the copy and, by its manifest, a check have told; null if nothing is."""
        if fault == "disk flips a bit before it is read again":
            told = f"1 file, read again from the target's disk, is not what was sent: {self.name} (differs)"
            return None if code == 1 and told in said else f"--verify: exit code {code}: {said}"
        if code != 0 or not disk.flip(self.image, self.part):
            return f"nothing could be flipped: exit code {code}: {said}"
        place = str(self.scene.target)
        argv = [sys.executable, "-m", "howdah", "verify", "--quiet", str(self.manifest)]
        argv.append(f"far:{place}" if self.scene.case.push else place)
        wan = self.scene.wan
        done = wan.run("near", argv, env=self.env, capture_output=True, text=True, timeout=_CHECK_S)
        if (done.returncode, done.stdout) == (1, f"differs: {self.name}\n"):
            return None
        return f"verify: exit code {done.returncode}: {done.stdout} {done.stderr}"
