"""Endless numbers, lists in lists without end and bytes that are no text: each is refused in a line."""

from pathlib import Path

import pytest
from samples import howdah

from howdah import HowdahError
from howdah.remote import ssh

LONG = "9" * 6000
DEEP = "[" * 100_000
FILES = {
    "long.toml": f"x = {LONG}\n".encode(),
    "deep.toml": f"x = {DEEP}\n".encode(),
    "bytes.toml": b'name = "\xff"\n',
    "long.json": f'{{"schema": {LONG}}}'.encode(),
    "deep.json": f'{{"schema": 1, "plan": {DEEP}'.encode(),
    "bytes.json": b'{"schema": 1, "\xff": 1}',
    "value.json": b'{"schema": 1, "streams": 1, "congestion_control": "\xff", "block_bytes": 1}',
    "list.sha256": b"\xff" * 64 + b"  name\n",
}


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    made = tmp_path / request.param
    made.write_bytes(FILES[request.param])
    return made


def refused(*words: str | Path, says: str = "", **environment: str) -> None:
    done = howdah(*map(str, words), HOWDAH_SSH="false", **environment)
    assert done.returncode in (1, 2), done.stderr
    assert "a bug in howdah" not in done.stderr
    assert done.stderr.startswith("howdah: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


TOML = [name for name in FILES if name.endswith("toml")]


@pytest.mark.parametrize("file", FILES, indirect=True)
@pytest.mark.parametrize(
    "words",
    [
        ("cp", "--plan", "FILE", "/etc/hostname", "far:"),
        ("traffic", "FILE", "far"),
        ("lab", "run", "--schedule", "FILE", "--", "true"),
        ("control", "serve", "FILE"),
        ("verify", "FILE", "."),
    ],
)
def test_files_are_refused_in_a_line(words: tuple[str, ...], file: Path) -> None:
    refused(*(str(file) if word == "FILE" else word for word in words), says=file.name)


@pytest.mark.parametrize("file", TOML, indirect=True)
def test_a_sweep_that_is_none_is_refused_in_a_line(file: Path) -> None:
    refused("sweep", file, says=file.name)


@pytest.mark.parametrize("file", TOML, indirect=True)
def test_the_user_s_own_file_is_refused_in_a_line(file: Path, tmp_path: Path) -> None:
    (tmp_path / "howdah").mkdir()
    file.rename(tmp_path / "howdah" / "config.toml")
    refused("cp", "/etc/hostname", "far:", says="config.toml", XDG_CONFIG_HOME=str(tmp_path))


@pytest.mark.parametrize("file", [name for name in FILES if name.endswith("json")], indirect=True)
def test_a_record_that_is_none_is_named(file: Path, tmp_path: Path) -> None:
    month = tmp_path / "howdah/records/2026/01"
    month.mkdir(parents=True)
    kept = file.rename(month / "20260131T235959.999999Z-3f06ef.json")
    listed = howdah("archive", "ls", XDG_DATA_HOME=str(tmp_path))
    assert "a bug in howdah" not in listed.stderr
    assert str(kept) in listed.stdout + listed.stderr
    refused("archive", "show", "last", XDG_DATA_HOME=str(tmp_path))


@pytest.mark.parametrize(
    "words",
    [("cp", "--metrics", LONG, "a", "far:"), ("cp", "--bwlimit", LONG, "a", "far:"), ("verify", LONG, ".")],
)
def test_arguments_are_refused_in_a_line(words: tuple[str, ...]) -> None:
    refused(*words)


def test_how_long_a_login_is_kept_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOWDAH_SSH_KEEP_S", LONG)
    with pytest.raises(HowdahError, match="give whole seconds"):
        ssh.keep_s()
