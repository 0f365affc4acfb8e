"""What a policy does at a near end. Its files are read in crates/site, which has the tests of that."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from howdah import HowdahError
from howdah._native import Policy, Quota, Refused
from howdah.cc import programs
from howdah.cc.shares import Place
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
        ("[data]\nports = '5-4'", "data.ports: '5-4' is no range of ports"),
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


class User:
    """A user whose ssh configuration the test writes: ssh looks for it where the password file says."""

    def __init__(self, cover: Path, runtime: str) -> None:
        self._home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
        self._cover, self._runtime = cover, runtime

    def says(self, configuration: str, shown: str, **env: str) -> list[str]:
        """The words that ``print(SHOWN)`` prints of logins, with this configuration."""
        file = self._cover / "config"
        file.write_text(configuration)
        file.chmod(0o600)
        program = f"from howdah.remote.ssh import Login; print({shown})"
        done = subprocess.run(
            [*AS_USER, str(self._cover), str(self._home), sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, "XDG_RUNTIME_DIR": self._runtime, **env},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"
    made = not home.exists()
    home.mkdir(mode=0o700, exist_ok=True)
    cover = tmp_path / "ssh"
    cover.mkdir(mode=0o700)
    try:
        # The names of sockets have a limit, which pytest's own folders take up.
        with tempfile.TemporaryDirectory(prefix="hd-") as runtime:
            yield User(cover, runtime)
    finally:
        if made:
            home.rmdir()


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
def test_what_the_user_says_of_shared_connections_holds(user: User, configuration: str, kept: bool) -> None:
    control, port = user.says(configuration, "Login('far').control, Login('far').config['port']")
    assert (control != "None") is kept
    assert port == ("2222" if "2222" in configuration else "22")


@pytest.mark.parametrize(
    "differs",
    [
        "IdentityFile ~/.ssh/one\nIdentityFile ~/.ssh/last\n",
        "IdentityAgent ~/agent\n",
        "UserKnownHostsFile ~/other\n",
        "HostKeyAlias other\n",
        "CertificateFile ~/other\n",
    ],
)
def test_a_login_is_not_kept_for_an_alias_with_other_keys(user: User, differs: str) -> None:
    alike = "Host one two\nHostName 10.0.0.1\nIdentityFile ~/.ssh/last\n"
    first, again, other = user.says(
        f"{alike}Host two\n{differs}", "*(Login(name).control for name in ('one', 'one', 'two'))"
    )
    assert first == again != other


def test_a_login_is_not_kept_for_another_agent(user: User) -> None:
    first, again, other = (
        user.says("", "Login('far').control", SSH_AUTH_SOCK=agent)
        for agent in ("/run/one", "/run/one", "/run/two")
    )
    assert first == again != other


def test_ssh_and_howdah_read_the_same_file_wherever_home_is(user: User, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host far\nHostName 127.0.0.9\n")
    found = user.says("Host far\nHostName 10.0.0.1\n", "Login('far').data_address", HOME=str(tmp_path))
    assert found == ["10.0.0.1"]


def test_a_command_of_the_user_is_not_run_in_place_of_ours(user: User) -> None:
    configuration = (
        "Host g1\nRemoteCommand echo hi\nSessionType none\nStdinNull yes\nForkAfterAuthentication yes\n"
    )
    shown = "*(' '.join(Login(name)._options(True, 9.0)) for name in ('g1', 'other'))"
    said = user.says(configuration, shown)
    backs = ["RemoteCommand=none", "SessionType=default", "StdinNull=no", "ForkAfterAuthentication=no"]
    assert [each for each in said if each in backs] == backs
