"""A tap on the wire of a case, for tests alone: ``tap.bpf.c`` flips one bit of what crosses it, below TLS.

The checksum of the segment is right again after it, as where a router or a network card spoils what it
stores. Needs tc with libbpf, clang and a kernel with cls_bpf.
"""

import ctypes
import errno
import os
import platform
import struct
import subprocess
from pathlib import Path

from howdah.lab import Lab

_SOURCE = Path(__file__).with_name("tap.bpf.c")
_MAP = "tc/globals/flipped"
"""Where tc pins the map of that name in a file system of BPF."""
_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_MAP_LOOKUP_ELEM, _OBJ_GET = 1, 7
"""Commands of bpf(2)."""


def prepare(folder: Path, place: float) -> None:
    """Compiles a tap that flips a bit at ``place`` of the first thousand bytes of a long segment.

    Mounts a file system of BPF on the new ``folder``, before the lab is up. Raises OSError and
    CalledProcessError where the machine lacks what a tap needs.
    """
    folder.mkdir()
    subprocess.run(["mount", "--types", "bpf", "howdah", folder], check=True)
    headers = f"/usr/include/{platform.machine()}-linux-gnu"
    subprocess.run(
        [
            *("clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-I", headers),
            *(f"-DPLACE={int(place * 1000)}", "-c", _SOURCE, "-o", _built(folder)),
        ],
        check=True,
    )


def attach(wan: Lab, host: str, folder: Path) -> None:
    """Has the tap flip a bit of the next long segment that leaves ``host`` and is none of ssh."""
    device = wan.stats().device
    for words in (
        ["qdisc", "add", "dev", device, "clsact"],
        ["filter", "add", "dev", device, "egress", "bpf", "direct-action", "object-file", _built(folder)],
    ):
        wan.run(host, ["tc", *words], env={**os.environ, "TC_BPF_MNT": str(folder)}, check=True)


def detach(wan: Lab, host: str) -> None:
    """Takes the tap from the wire of ``host``."""
    wan.run(host, ["tc", "qdisc", "del", "dev", wan.stats().device, "clsact"], check=True)


def has_flipped(folder: Path) -> bool:
    """Whether the bit has been flipped."""
    path = ctypes.create_string_buffer(os.fsencode(folder / _MAP))
    descriptor = _bpf(_OBJ_GET, struct.pack("=QII", ctypes.addressof(path), 0, 0))
    try:
        key, value = ctypes.c_uint32(0), ctypes.c_uint64()
        asked = struct.pack("=IxxxxQQQ", descriptor, ctypes.addressof(key), ctypes.addressof(value), 0)
        _bpf(_MAP_LOOKUP_ELEM, asked)
    finally:
        os.close(descriptor)
    return value.value > 0


def _built(folder: Path) -> Path:
    return folder.with_name("tap.bpf.o")


def _bpf(command: int, attributes: bytes) -> int:
    """bpf(2). Raises OSError."""
    if platform.machine() not in _SYS_BPF:
        raise OSError(errno.ENOSYS, f"the number of bpf(2) on {platform.machine()} is not known")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    done: int = libc.syscall(_SYS_BPF[platform.machine()], command, buffer, len(attributes))
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done
