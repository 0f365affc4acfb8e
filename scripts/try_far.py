"""Copies to and from a far host that is a bare root: its own sshd and shell, and nothing of howdah's.

    try_far.py ROOT

The root stands on the far host of a lab, with an sshd of its own. The far end is brought there by the first
copy, and the second sends none of it. Needs root. Exits with 1 where anything differs.
"""

import filecmp
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from howdah import lab

PORT = 2222
HOWDAH = [sys.executable, "-P", "-m", "howdah"]


def tried(root: Path, folder: Path) -> str:
    """What the far host says it is, after copies there and back. Raises CalledProcessError or ValueError."""
    key, source = folder / "key", folder / "src"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    (root / "root/.ssh/authorized_keys").write_text(key.with_suffix(".pub").read_text())
    (root / "run/sshd").mkdir(exist_ok=True)
    (source / "sub").mkdir(parents=True)
    for number in range(20):
        (source / f"sub/{number}").write_bytes(os.urandom(1_000_000))
    with lab.started(lab.symmetric(1_000_000_000, 20_000_000), sshd=True) as up:
        inside = [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
            'mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"',
            *(str(root), "/usr/sbin/sshd", "-D", "-e", "-p", str(PORT)),
        ]
        server = up.popen("far", inside, stderr=subprocess.DEVNULL)
        try:
            ssh = f"ssh -p {PORT} -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile={folder}/known"
            env = {**os.environ, "HOWDAH_SSH": ssh, "HOWDAH_SSH_KEEP_S": "0", "XDG_DATA_HOME": str(folder)}

            def run(*words: str | Path) -> None:
                up.run("near", [*HOWDAH, "cp", "--quiet", *words], env=env, check=True)

            for _ in range(50):
                if (
                    up.run(
                        "near", ["bash", "-c", f": < /dev/tcp/far/{PORT}"], stderr=subprocess.DEVNULL
                    ).returncode
                    == 0
                ):
                    break
                time.sleep(0.1)
            run("--bring", "--verify", source, "far:/root/there")
            (kept,) = (root / "root/.cache/howdah").iterdir()
            before = kept.stat().st_ino
            run("far:/root/there", folder / "back")
            if [file.stat().st_ino for file in kept.parent.iterdir()] != [before]:
                raise ValueError("the far end was brought twice")
        finally:
            server.terminate()
            server.wait()
    for number in range(20):
        for copy in (root / "root/there", folder / "back"):
            if not filecmp.cmp(source / f"sub/{number}", copy / f"sub/{number}", shallow=False):
                raise ValueError(f"{copy}/sub/{number} is not what was sent")
    names = dict(line.split("=", 1) for line in (root / "etc/os-release").read_text().splitlines())
    return f"{names['PRETTY_NAME']}: copied there and back by {kept.name}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(tried(Path(sys.argv[1]), Path(made)))
