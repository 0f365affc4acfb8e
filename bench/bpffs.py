"""The BPF file system, for labs whose hosts have to see one another's pins."""

import contextlib
import subprocess
from collections.abc import Iterator

PLACE = "/sys/fs/bpf"


@contextlib.contextmanager
def mounted() -> Iterator[None]:
    """It is, as most systems do at boot: hosts of a lab that is begun meanwhile see it too."""
    if subprocess.run(["mountpoint", "--quiet", PLACE], check=False).returncode == 0:
        yield
        return
    subprocess.run(["mount", "-t", "bpf", "bpf", PLACE], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", PLACE], check=True)
