"""A far host of a lab where only sshd and a shell are: a root folder with busybox in it and nothing else.

Tests and a bench bring a far end to it.
"""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from howdah import HowdahError
from howdah.lab import Lab, mounts

_ENTER = """\
chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
mount --rbind /dev "$root/dev" && mount --rbind /proc "$root/proc" || exit 1
{mounted}
exec {through} env -i HOME=/home PATH=/bin LC_ALL=C SSH_CONNECTION="$SSH_CONNECTION" \
    "$chroot" "$root" /bin/sh -c "$SSH_ORIGINAL_COMMAND"
"""


class Bare:
    """The host, whose files are below ``root``."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        """Makes its files in ``folder``. Raises HowdahError without busybox."""
        busybox = shutil.which("busybox")
        if busybox is None:
            raise HowdahError("busybox is not installed; apt install busybox-static")
        self.root = folder / "bare"
        for name in ("bin", "dev", "etc", "home", "proc", "tmp"):
            (self.root / name).mkdir(parents=True)
        (self.root / "tmp").chmod(0o1777)
        shutil.copy(busybox, self.root / "bin")
        install = ["chroot", str(self.root), "/bin/busybox", "--install", "-s", "/bin"]
        subprocess.run(install, check=True)
        self._lab, self._enter = lab, folder / "enter"
        self.mounts()

    def mounts(self, *commands: str, machine: str = "") -> None:
        """What each login mounts, as commands of a shell; ``$root`` is this root folder.

        ``machine`` is what the kernel says it is, unless the true one.
        """
        through = f"setarch {machine}" if machine else ""
        enter = _ENTER.format(mounted="\n".join(commands), through=through)
        inner = f"root={shlex.quote(str(self.root))}\n{enter}"
        self._enter.write_text(
            f"#!/bin/sh\nexec unshare --mount --propagation private sh -c {shlex.quote(inner)}\n"
        )
        self._enter.chmod(0o755)

    def program(self, name: str, text: str | bytes) -> None:
        """Puts a program into its PATH."""
        file = self.root / "bin" / name
        file.unlink(missing_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        file.chmod(0o755)

    def kept(self, folder: str = "home/.cache/howdah") -> list[Path]:
        """What is in a folder that far ends are kept in."""
        return sorted((self.root / folder).glob("*"))

    @contextmanager
    def behind_the_key(self) -> Iterator[None]:
        """Has the lab's key lead to this host."""
        keys = mounts.PRIVATE / "authorized_keys"
        plain = self._lab.run("far", ["cat", keys], capture_output=True, text=True, check=True).stdout

        def write(line: str) -> None:
            into = ["tee", str(keys)]
            self._lab.run("far", into, input=line, stdout=subprocess.DEVNULL, text=True, check=True)

        write(f'command="{self._enter}" {plain}')
        try:
            yield
        finally:
            write(plain)
