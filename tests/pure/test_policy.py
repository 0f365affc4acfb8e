"""What a host's administrator and its users decide about kept logins."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from howdah import HowdahError, site
from howdah.remote import ssh

AS_USER = [
    *("unshare", "--mount", "--map-root-user", "sh", "-c"),
    'mount --bind "$1" "$2" && shift 2 && exec "$@"',
    "sh",
]


def policy(tmp_path: Path, text: str) -> str:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    file.chmod(0o644)
    return str(file)


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("", True),
        ("[ssh]\n", True),
        ("[ssh]\nkeep_logins = true", True),
        ("[ssh]\nkeep_logins = false", False),
    ],
)
def test_a_site_can_switch_kept_logins_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, keeps: bool
) -> None:
    file = policy(tmp_path, text)
    monkeypatch.setattr(site, "_check_owner", lambda *_: None)
    assert site.keeps_logins(file) is keeps
    monkeypatch.setattr("howdah.site.keeps_logins", lambda: keeps)
    assert (ssh.keep_s() > 0) is keeps


def test_without_a_file_logins_are_kept(tmp_path: Path) -> None:
    assert site.keeps_logins(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ssh", "policy.toml is not TOML: "),
        ("[tls]\n", "policy.toml: unknown key tls; known are ssh"),
        ("ssh = 1", "policy.toml: ssh: expected a table, got a whole number"),
        ("[ssh]\nkeep = 1", "policy.toml: ssh: unknown key keep; known are keep_logins"),
        ("[ssh]\nkeep_logins = 'no'", "policy.toml: ssh.keep_logins: expected true or false, got a text"),
    ],
)
def test_what_is_no_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(site, "_check_owner", lambda *_: None)
    with pytest.raises(HowdahError, match=re.escape(words)):
        site.keeps_logins(policy(tmp_path, text))


def test_a_policy_that_users_can_write_is_refused(tmp_path: Path) -> None:
    file = policy(tmp_path, "")
    Path(file).chmod(0o666)
    with pytest.raises(HowdahError, match="must be root's"):
        site.keeps_logins(file)


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
