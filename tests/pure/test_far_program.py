"""The far end that a copy brings, as a program of its own."""

import gzip
import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from requirement import missing

import howdah.remote
from howdah import __version__, _native

PACKED = Path(howdah.remote.__file__).parent / "brought" / "howdah-far-x86_64.gz"


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
    file = tmp_path / "howdah/policy.toml"
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
    done = run(program, "serve", "--ports", "5-6")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "howdah: ports 5-6 have none of 7-20, which is the range of your own policy on "
    )


def test_it_says_what_it_is_and_refuses_what_it_does_not_do(program: Path) -> None:
    expected = f"howdah-far {__version__}, protocol {_native.PROTOCOL_VERSION}\n"
    assert run(program, "--version").stdout == expected
    digest = PACKED.with_suffix(".gz.sha256").read_text()
    assert run(program, "sha256").stdout == digest
    assert hashlib.sha256(program.read_bytes()).hexdigest() == digest.strip()
    for words in ((), ("cp", "a", "b"), ("sink",)):
        done = run(program, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "it is started by one; use: howdah cp SRC… HOST:PATH" in done.stderr


def test_it_needs_nothing_of_its_host(program: Path) -> None:
    listed = subprocess.run(["ldd", program], check=False, capture_output=True, text=True)
    assert "statically linked" in listed.stdout + listed.stderr or "not a dynamic" in listed.stderr
    assert PACKED.stat().st_size < 3_000_000
