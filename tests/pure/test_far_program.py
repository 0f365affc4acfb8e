"""The far end that a copy brings keeps to the same policy as Python's: both read the same files."""

import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from requirement import missing

import howdah.remote
from howdah import HowdahError, __version__, _native
from howdah.site import policy

PACKED = Path(howdah.remote.__file__).parent / "brought" / "howdah-far-x86_64.gz"
VALUES = (
    "audit",
    "keep_logins",
    "far_ends",
    "plaintext",
    "delete",
    "ports",
    "load_programs",
    "copy_bytes",
    "day_bytes",
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.uname().machine != "x86_64" or not PACKED.exists():
        missing("no far end to bring was built here; run scripts/far.sh")
    unpacked = tmp_path_factory.mktemp("far") / "howdah-far"
    unpacked.write_bytes(gzip.decompress(PACKED.read_bytes()))
    unpacked.chmod(0o700)
    return unpacked


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own policy, for this process and those that it starts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = Path(policy.own_file())
    file.parent.mkdir(mode=0o755)
    return file


def run(program: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, **environment}
    return subprocess.run(
        [program, *words],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=env,
        timeout=20,
    )


def read(program: Path) -> "tuple[dict[str, Any] | None, str]":
    """What the program says is in force, or its error."""
    done = run(program, "policy")
    if done.returncode:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("howdah: ")
        assert done.stderr.count("\n") == 1
        return None, done.stderr.removeprefix("howdah: ").rstrip()
    return json.loads(done.stdout), ""


GOOD = [
    "",
    "[ssh]\n[data]\n",
    'audit = "on"',
    'audit = "required"',
    "[ssh]\nkeep_logins = false",
    '[ssh]\nfar_ends = ["*.example.org", "10.9.0.0/16", "2001:db8::/32", "10.0.0.0/255.0.0.0", "::1/128"]',
    "[data]\nplaintext = false",
    "[data]\ndelete = false",
    '[data]\nports = "50000-50100"',
    "[programs]\nload = false",
    '[quota]\ncopy = "10TB"\nday = "1.5 GiB"',
    '[quota]\ncopy = "0B"',
]
BAD = [
    ("[ssh", "is not TOML: "),
    ("[tls]\n", "unknown key tls; known are audit, ssh, data, programs, quota"),
    ("ssh = 1", "ssh: expected a table, got a whole number"),
    ("[ssh]\nkeep = 1", "ssh: unknown key keep; known are keep_logins, far_ends"),
    ("[ssh]\nkeep_logins = 'no'", "ssh.keep_logins: expected true or false, got a text"),
    ("[ssh]\nfar_ends = []", "ssh: far_ends is empty: no far end would be allowed"),
    ("[ssh]\nfar_ends = ['10.9.0.1/16']", "'10.9.0.1/16' is no network"),
    ("[ssh]\nfar_ends = ['10.9.0.0/33']", "'10.9.0.0/33' is no network"),
    ("[ssh]\nfar_ends = ['10.9/16']", "'10.9/16' is no network"),
    ("[ssh]\nfar_ends = ['me@dtn1']", "'me@dtn1' is no pattern of hosts; give for example *.example.org"),
    ("[ssh]\nfar_ends = [' x']", "' x' is no pattern of hosts"),
    ("audit = 'off'", "audit: 'off' is unknown; give on or required"),
    ("audit = true", "audit: expected a text, got true or false"),
    ("[data]\nports = 50000", "data.ports: expected a text, got a whole number"),
    ("[data]\nports = '5-4'", "data: ports '5-4' is no range of ports; give for example \"50000-50999\""),
    ("[data]\nports = '1-65536'", "is no range of ports"),
    ("[data]\nports = '0-9'", "is no range of ports"),
    ("[data]\nports = '-'", "is no range of ports"),
    ("[data]\nports = '+5'", "is no range of ports"),
    ("[data]\nports = '0050000'", "is no range of ports"),
    ("[quota]\ncopy = '10'", "quota.copy: "),
    ("[quota]\ncopy = 10", "quota.copy: "),
    ("[quota]\nday = true", "quota.day: not a text with a unit"),
    ("[quota]\nday = '-1B'", "quota.day: "),
    ("\xff", "is not TOML: it is no UTF-8"),
]


@pytest.mark.parametrize("text", GOOD)
def test_both_read_the_same_policy(program: Path, own: Path, text: str) -> None:
    own.write_text(text)
    own.chmod(0o644)
    found, by_python = read(program)[0], policy.in_force()
    assert found is not None
    set_by = found.pop("set_by")
    expected = {name: getattr(by_python, name) for name in VALUES}
    assert found == json.loads(json.dumps(expected))
    assert set_by == by_python.set_by


@pytest.mark.parametrize(("text", "words"), BAD)
def test_both_refuse_what_is_no_policy(program: Path, own: Path, text: str, words: str) -> None:
    own.write_bytes(text.encode("latin-1"))
    own.chmod(0o644)
    with pytest.raises(HowdahError) as by_python:
        policy.in_force()
    said = read(program)[1]
    for each in (said, str(by_python.value)):
        assert each.startswith(str(own))
        assert words in each


def test_both_refuse_a_policy_that_others_can_write_to(program: Path, own: Path) -> None:
    own.write_text("")
    for mode in (0o666, 0o664, 0o646):
        own.chmod(mode)
        with pytest.raises(HowdahError) as by_python:
            policy.in_force()
        assert read(program)[1] == str(by_python.value)
    own.unlink()
    os.mkfifo(own, 0o644)
    assert read(program)[1].startswith(f"{own} is no policy: it is no file")


def test_a_bad_policy_stops_the_far_end_before_its_hello(program: Path, own: Path) -> None:
    own.write_text("[tls]")
    done = run(program, "serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"howdah: {own}: unknown key tls")


def test_it_opens_ports_of_the_range_that_is_asked_for_and_its_policy_wins(program: Path, own: Path) -> None:
    for text in ("5-4", "0", "70000", "+5", ""):
        done = run(program, "serve", "--ports", text)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"howdah: ports '{text}' is no range of ports; give for example")
    own.write_text('[data]\nports = "7-20"')
    with pytest.raises(policy.Refused) as refused:
        policy.in_force().ports_of((5, 6))
    done = run(program, "serve", "--ports", "5-6")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"howdah: {refused.value}\n")


def test_it_says_what_it_is_and_refuses_what_it_does_not_do(program: Path) -> None:
    expected = f"howdah-far {__version__}, protocol {_native.PROTOCOL_VERSION}\n"
    assert run(program, "--version").stdout == expected
    digest = PACKED.with_suffix(".gz.sha256").read_text()
    assert run(program, "sha256").stdout == digest
    assert hashlib.sha256(program.read_bytes()).hexdigest() == digest.strip()
    rooted = run(program, "serve", "--root", "/srv")
    assert rooted.returncode == 2
    assert "for --root install howdah on this host" in rooted.stderr
    for words in ((), ("cp", "a", "b"), ("sink",)):
        done = run(program, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "it is started by one; use: howdah cp SRC… HOST:PATH" in done.stderr


def test_it_needs_nothing_of_its_host(program: Path) -> None:
    listed = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
    assert "statically linked" in listed.stdout + listed.stderr or "not a dynamic" in listed.stderr
    assert PACKED.stat().st_size < 3_000_000
