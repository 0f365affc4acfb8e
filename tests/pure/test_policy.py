"""What a policy does at a near end. Its files are read in crates/site, which has the tests of that."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from howdah import HowdahError
from howdah._native import Policy, Quota, Refused
from howdah.cc import programs
from howdah.cc.places import Place
from howdah.remote import ssh

AS_USER = [
    *("unshare", "--mount", "--map-root-user", "sh", "-c"),
    'mount --bind "$1" "$2" && shift 2 && exec "$@"',
    "sh",
]


Own = Callable[[str], Policy]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Own:
    """Has this user's own policy say something; what is in force then."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "howdah/policy.toml"
    file.parent.mkdir(mode=0o755)

    def say(text: str) -> Policy:
        file.write_text(text)
        file.chmod(0o644)
        return Policy()

    return say


def test_what_is_no_policy_stops_what_it_governs(own: Own, tmp_path: Path) -> None:
    assert own("").rules() == {}
    for text, words in (
        ("[tls]\n", "unknown key tls; known are audit, ssh, data, programs, quota"),
        ("[data]\nports = '5-4'", "data: ports '5-4' is no range of ports"),
    ):
        with pytest.raises(HowdahError, match=re.escape(words)) as broken:
            own(text)
        assert not isinstance(broken.value, Refused)
        assert str(broken.value).startswith(f"{tmp_path}/howdah/policy.toml: ")


def test_what_is_forbidden_is_refused(own: Own) -> None:
    found = own('[ssh]\nfar_ends = ["*.example.org"]\n[data]\nplaintext = false\n[quota]\ncopy = "10MB"')
    found.check_plaintext(encrypt=True)
    found.check_far_end("dtn1.example.org")
    found.check_programs()
    quota = Quota(found)
    quota.begin(10_000_000)
    for act, words in (
        (
            lambda: found.check_plaintext(encrypt=False),
            "plaintext data streams are forbidden by your own",
        ),
        (
            lambda: found.check_far_end("dtn1"),
            "dtn1 is no far end that is allowed by your own policy",
        ),
        (
            lambda: quota.moved(1, 10_000_001),
            "more than 10.0 MB, the most that is allowed by your own",
        ),
    ):
        with pytest.raises(Refused, match=words):
            act()


def test_a_policy_can_switch_kept_logins_off(own: Own) -> None:
    assert ssh.keep_s() > 0
    own("[ssh]\nkeep_logins = false")
    assert ssh.keep_s() == 0


def test_programs_are_loaded_by_nobody_where_that_is_forbidden(own: Own) -> None:
    own("[programs]\nload = false")
    place = Place("10.9.0.0/16", "1-2", None, None)
    for act in (
        lambda: programs.load("hold"),
        lambda: programs.tried("hold").__enter__(),
        lambda: programs.attach(place, "hold"),
    ):
        with pytest.raises(Refused, match="loading programs into the kernel is forbidden"):
            act()


def test_the_users_own_file_lies_with_their_configuration(
    own: Own, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own("[programs]\nload = false")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Policy().rules() == {}
    (tmp_path / ".config").mkdir()
    (tmp_path / "howdah").rename(tmp_path / ".config/howdah")
    assert Policy().rules() == {"programs.load = false": f"{tmp_path}/.config/howdah/policy.toml"}


def test_a_far_end_is_judged_by_what_ssh_connects_to(monkeypatch: pytest.MonkeyPatch, own: Own) -> None:
    own('[ssh]\nfar_ends = ["*.example.org"]')
    monkeypatch.setenv("HOWDAH_SSH", "ssh -F /dev/null -o HostName=evil.example.com")
    with pytest.raises(Refused, match=r"evil\.example\.com is no far end"):
        ssh.Login("dtn1.example.org")
    monkeypatch.setenv("HOWDAH_SSH", "ssh -F /dev/null -o HostName=dtn1.example.org")
    ssh.Login("me@short")


@pytest.mark.parametrize(
    ("configuration", "kept"),
    [
        ("", True),
        ("Host else\nControlMaster no\n", True),
        ("Host far\nPort 2222\n", True),
        ("Host far\nControlMaster no\n", False),
        ("ControlMaster no\n", False),
        ("ControlPath none\n", False),
        ("ControlMaster auto\nControlPath ~/.ssh/%C\n", False),
    ],
)
def test_what_the_user_says_of_shared_connections_holds(
    tmp_path: Path, configuration: str, kept: bool
) -> None:
    # ssh looks for its configuration where the password file says, so the real one is covered.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    made = not home.exists()
    home.mkdir(mode=0o700, exist_ok=True)
    cover = tmp_path / "ssh"
    cover.mkdir(mode=0o700)
    (cover / "config").write_text(configuration)
    (cover / "config").chmod(0o600)
    shown = "from howdah.remote.ssh import Login; l = Login('far'); print(l.control, l.config['port'])"
    # The names of sockets have a limit, which pytest's own folders take up.
    runtime = tempfile.TemporaryDirectory(prefix="hd-")
    try:
        done = subprocess.run(
            [*AS_USER, str(cover), str(home), sys.executable, "-c", shown],
            capture_output=True,
            text=True,
            env={**os.environ, "XDG_RUNTIME_DIR": runtime.name},
            check=False,
        )
    finally:
        runtime.cleanup()
        if made:
            home.rmdir()
    assert done.returncode == 0, done.stderr
    control, port = done.stdout.split()
    assert (control != "None") is kept
    assert port == ("2222" if "2222" in configuration else "22")
