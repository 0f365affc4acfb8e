"""Standard streams that are closed, full or gone, and hosts that lack what every program needs."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from samples import python


def redirected(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of Python with these words behind it."""
    return subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} {words}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_the_null_device(closed: str) -> None:
    code = (
        "import os, sys\n"
        "from howdah import streams\n"
        "streams.ready()\n"
        "file = open(os.devnull)\n"
        "print(sys.stderr.isatty(), file=sys.stderr)\n"
        "missing = None in (sys.stdin, sys.stdout, sys.stderr)\n"
        f"closed = {[number for number, sign in enumerate(('<', ' >', '2>')) if sign in f' {closed}']}\n"
        "null = all(os.readlink(f'/proc/self/fd/{number}') == os.devnull for number in closed)\n"
        "sys.exit(3 if null and not missing and file.fileno() > 2 and streams.CLOSED == set(closed) else 1)\n"
    )
    assert redirected(f"-c {shlex.quote(code)} {closed}").returncode == 3


def test_a_full_disk_behind_standard_output_is_an_error_in_words() -> None:
    done = redirected("-m howdah help rsync > /dev/full")
    assert done.stderr == "howdah: cannot write its output: No space left on device\n"
    assert done.returncode == 1


CLOSED_PIPE = "r, w = os.pipe(); os.close(r); os.dup2(w, 2)"
CLOSED_TERMINAL = "import pty; m, s = pty.openpty(); os.dup2(s, 2); os.close(m)"
FULL_DISK = "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)"


@pytest.mark.parametrize("breaks", [CLOSED_PIPE, CLOSED_TERMINAL, FULL_DISK])
def test_standard_error_that_takes_nothing_ends_no_program(breaks: str) -> None:
    code = (
        "import os, sys\n"
        "from howdah import streams\n"
        "from howdah.guarded import guarded\n"
        "streams.ready()\n"
        f"{breaks}\n"
        "def says():\n"
        "    for _ in range(3): print('so far', file=sys.stderr)\n"
        "    print('done')\n"
        "    return 3\n"
        "sys.exit(guarded(says))"
    )
    done = python(code)
    assert (done.returncode, done.stdout) == (3, "done\n")


def test_standard_error_is_written_at_once_and_whole() -> None:
    code = (
        "import os, sys\n"
        "from howdah import streams\n"
        "streams.ready()\n"
        "print('ä' * 100_000, file=sys.stderr)\n"
        "os.write(2, b'later\\n')\n"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "ä" * 100_000 + "\nlater\n")


NO_FILES = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))"
NO_PROC = "os.path.exists = lambda name: False"


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (f"{NO_FILES}; os.open('/', 0)", r"\[Errno 24\] Too many open files: '/'; allow more open files: "),
        (
            "raise OSError(23, 'Too many open files in system')",
            r".* in system; this host allows no more open ",
        ),
        ("bytearray(1 << 60)", "out of memory; make memory free"),
        ("raise OSError(12, 'Cannot allocate memory')", r"\[Errno 12\] Cannot allocate memory; make memory"),
        ('raise RuntimeError("can\'t start new thread")', "can't start new thread; allow more processes"),
        (
            "raise ImportError('a.so: failed to map segment from shared object')",
            r"a\.so: .*; make memory free",
        ),
        ("raise HowdahError('no: Too many open files (os error 24)')", r"no: .* 24\); allow more open files"),
        (f"{NO_PROC}; open('/proc/self/no')", r"\[Errno 2\] .*: '/proc/self/no'; howdah needs /proc: mount"),
        (
            "open('/proc/self/no')",
            r"a bug in howdah, FileNotFoundError: .*; run it again with HOWDAH_DEBUG=1",
        ),
        (
            "os.devnull = '/no'; os.open(os.devnull, 0)",
            r".*: '/no'; make it as root: mknod -m 666 /no c 1 3$",
        ),
        ("raise KeyError('x')", r"a bug in howdah, KeyError: 'x'; run it again"),
    ],
)
def test_what_every_program_needs_and_the_host_lacks_is_no_bug(fails: str, says: str) -> None:
    done = python(
        "import os, resource, sys\n"
        "from howdah import HowdahError\n"
        "from howdah.guarded import guarded\n"
        f"def fails(): {fails}\n"
        "sys.exit(guarded(fails))"
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert re.match(f"howdah: {says}", done.stderr), done.stderr


def test_a_closed_stream_without_a_null_device_is_an_error_in_words() -> None:
    code = "import os; os.devnull = '/no'; from howdah.__main__ import main; main()"
    done = redirected(f"-c {shlex.quote(code)} <&-")
    assert done.returncode == 1
    assert done.stderr.startswith("howdah: [Errno 2] No such file or directory: '/no'; make it as root: ")


def test_what_a_terminal_cannot_write_is_written_with_a_backslash() -> None:
    done = redirected("-m howdah --help", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = redirected("-m howdah help units", **plain)
    assert (done.returncode, done.stderr) == (0, "")
    assert "10\\u2079 bits" in done.stdout
    code = "from howdah import streams; streams.ready(); print('10 €')"
    assert redirected(f"-c {shlex.quote(code)}", PYTHONIOENCODING="latin-1").stdout == "10 \\u20ac\n"
