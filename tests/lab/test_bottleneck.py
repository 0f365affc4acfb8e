"""A copy that something holds back says what it was."""

import subprocess
from pathlib import Path

import pytest
from copying import Copier
from requirement import missing

from howdah import lab
from howdah.values.bottleneck import Bottleneck, Cause
from howdah.values.record import Record
from howdah.words.copy import summary

_THROTTLE = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
_SIZE_BYTES = 24 << 20


def _share(record: Record, cause: Cause) -> float:
    found = record.bottleneck
    assert isinstance(found, Bottleneck)
    assert sum(share.share for share in found.shares) == pytest.approx(1.0)
    return next(share.share for share in found.shares if share.cause is cause)


def test_buffers_below_what_the_path_needs_are_named(privilege: None, tmp_path: Path) -> None:
    """It moves 32 MiB in windows of a few hundred kilobytes, one each 100 ms."""
    with lab.started(lab.symmetric(10**9, 100_000_000), sshd=True) as wan:
        record = Copier(wan, tmp_path).good(
            "--memory", "32MiB", "--streams", "2", "--buffer", "244000B", "far:"
        )
    assert record.bottleneck is not None
    assert record.bottleneck.shares[0].cause is Cause.WINDOW, record.bottleneck
    assert _share(record, Cause.WINDOW) > 0.45
    assert "Socket buffers too small for the path took" in summary(record, None)


def test_a_slow_disk_at_the_target_is_named(privilege: None, tmp_path: Path) -> None:
    """24 MiB on a disk of 100 Mb/s take 2 s; the path could have had them in a fifth of one."""
    if not _THROTTLE.exists():
        missing("a slow disk needs blkio of cgroup v1, which this host does not mount")
    image, disk, source = tmp_path / "image", tmp_path / "disk", tmp_path / "source"
    disk.mkdir()
    source.write_bytes(bytes(range(256)) * (_SIZE_BYTES // 256))
    with image.open("wb") as stream:
        stream.truncate(96 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    try:
        device = ":".join(map(str, _numbers(disk)))
        _THROTTLE.write_text(f"{device} {100_000_000 // 8}\n")
        try:
            with lab.started(lab.symmetric(10**9, 2_000_000), sshd=True) as wan:
                record = Copier(wan, tmp_path).good(source, f"far:{disk}/")
        finally:
            _THROTTLE.write_text(f"{device} 0\n")
    finally:
        subprocess.run(["umount", disk], check=True)
    assert record.bottleneck is not None
    assert record.bottleneck.shares[0].cause is Cause.RECEIVER_DISK, record.bottleneck
    assert _share(record, Cause.RECEIVER_DISK) > 0.5


def _numbers(folder: Path) -> tuple[int, int]:
    """The device of a file system, major and minor."""
    device = folder.stat().st_dev
    return device >> 8 & 0xFFF, device & 0xFF
