"""Runs its arguments as a user without privileges who can read this Python and open TUN devices.

Run it in a mount namespace of its own: what is closed to others (a home folder of root with the
Python in it, /dev/net/tun on some machines) is covered there and nowhere else.
"""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from howdah._native import bind_mount

UID = 54321
"""A user made up for the purpose, so that no rule of the system for a known one is met."""
TUN = Path("/dev/net/tun")
PASSWD = Path("/etc/passwd")


def main() -> None:
    needed = [Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]]
    for closed in {ancestor for path in needed if (ancestor := _closed_ancestor(path))}:
        inside = {path: os.open(path, os.O_PATH) for path in needed if closed in path.parents}
        _mount("-t", "tmpfs", "-o", "mode=0755", "none", str(closed))
        for path, descriptor in inside.items():
            path.mkdir(parents=True, exist_ok=True)
            bind_mount(f"/proc/self/fd/{descriptor}", str(path))
    if TUN.stat().st_mode & 0o006 != 0o006:
        _mount("-t", "tmpfs", "-o", "mode=0755", "none", str(TUN.parent))
        os.mknod(TUN, stat.S_IFCHR, os.makedev(10, 200))
        TUN.chmod(0o666)
    with tempfile.NamedTemporaryFile("w") as users:
        users.write(f"{PASSWD.read_text()}tester:x:{UID}:{UID}::/:/bin/sh\n")
        users.flush()
        Path(users.name).chmod(0o644)
        bind_mount(users.name, str(PASSWD))
    os.environ["HOME"] = "/"
    user = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--"]
    os.execvp(user[0], [*user, *sys.argv[1:]])  # noqa: S606


def _closed_ancestor(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that others may not enter."""
    closed = (folder for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH)
    return next(closed, None)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
