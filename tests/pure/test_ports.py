"""The range in which a far end listens for data: as it is written, by host, and within a site's policy."""

from collections.abc import Callable
from pathlib import Path

import pytest

from howdah import HowdahError, bounds
from howdah._native import serve
from howdah.cli.table import port_range
from howdah.remote import hosts

Config = Callable[[str], None]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Writes the user's configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "howdah").mkdir()

    def write(text: str) -> None:
        (tmp_path / "howdah/config.toml").write_text(text)

    return write


@pytest.mark.parametrize(
    ("text", "found"), [("50000-50100", (50000, 50100)), ("22", (22, 22)), ("1-65535", (1, 65535))]
)
def test_a_range_is_read_and_written_alike(text: str, found: tuple[int, int]) -> None:
    assert bounds.ports(text) == port_range(text) == found
    assert bounds.ports_in_words(found) == text


@pytest.mark.parametrize("text", ["", "0", "70000", "5-4", "1-", "-1", "a-b", "1-2-3", "٣", "9" * 5000])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(HowdahError, match="give for example 50000-50100"):
        port_range(text)


def test_the_first_pattern_that_fits_a_name_of_the_host_counts(config: Config) -> None:
    assert hosts.ports("dtn2") is None
    config(
        '[host.dtn2]\nports = "50000-50100"\n[host."*.example.org"]\nports = "4000"\n'
        '[host."10.9.0.0/16"]\n[host."*"]\nports = "1-2"\n'
    )
    assert hosts.ports("dtn2", "dtn2.example.org") == (50000, 50100)
    assert hosts.ports("other", "a.example.org") == (4000, 4000)
    assert hosts.ports("10.9.8.7") is None
    assert hosts.ports("elsewhere") == (1, 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[host.a]\nports = "5-4"\n', "host.a: ports '5-4' is no range of ports"),
        ("[host.a]\nport = 5\n", "unknown key port; known are ports"),
        ("[hosts.a]\n", "unknown key hosts; known are host"),
        ('[host."me@a"]\n', "'me@a' is no pattern of hosts"),
        ("[host", "is not TOML"),
    ],
)
def test_a_broken_configuration_is_refused_by_file_and_key(config: Config, text: str, says: str) -> None:
    config(text)
    with pytest.raises(HowdahError) as error:
        hosts.ports("a")
    assert says in str(error.value)
    assert hosts.config_file() in str(error.value)


@pytest.mark.parametrize(
    ("given", "asked", "says"),
    [
        (["--ports", "5-4"], None, "ports '5-4' is no range"),
        (["--ports"], None, "--ports of serve needs a value; serve is the far end of a copy"),
        (["--ports", "1", "--ports", "2"], None, "serve takes --ports once; serve is the far end of a copy"),
        (["--root", "/", "--readonly"], None, "serve has no option --readonly; serve is the far end"),
        (["--root", "/", "--readonly"], "howdah serve", "is for the administrator of this host to mend"),
        (["--read-only"], "howdah serve", "is for the administrator of this host to mend"),
        (["--root", "/"], "howdah serve --ports 5-4", "ports '5-4' is no range"),
        (["--root", "/"], "howdah serve --ports 1-2 --root /", "it does not run: howdah serve --ports"),
        (["--root", "/"], "howdah serve --root /", "it does not run: howdah serve --root"),
    ],
)
def test_a_far_end_refuses_other_words(
    given: list[str],
    asked: str | None,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if asked is not None:
        monkeypatch.setenv("SSH_ORIGINAL_COMMAND", asked)
    assert serve(given) == 2
    assert says in capfd.readouterr().err
