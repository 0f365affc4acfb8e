"""What a host's administrator decides for its users, and what they decide for themselves."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from requirement import missing

from howdah import HowdahError
from howdah.cc import programs
from howdah.cc.places import Place
from howdah.remote import ssh
from howdah.site import patterns, policy, policyfile
from howdah.site.policy import Policy, Refused

DEFAULTS = {
    "audit": "on",
    "keep_logins": True,
    "far_ends": (),
    "plaintext": True,
    "delete": True,
    "ports": None,
    "load_programs": True,
    "copy_bytes": None,
    "day_bytes": None,
}

AS_USER = [
    *("unshare", "--mount", "--map-root-user", "sh", "-c"),
    'mount --bind "$1" "$2" && shift 2 && exec "$@"',
    "sh",
]


class Files:
    """A site's policy and a user's, which say nothing yet."""

    def __init__(self, folder: Path) -> None:
        self.site, self.own = folder / "site" / "policy.toml", folder / "own" / "policy.toml"

    def say(self, site: str | None = None, own: str | None = None) -> Policy:
        """What is in force when they say so; null: there is no file."""
        for file, text in ((self.site, site), (self.own, own)):
            if text is not None:
                file.parent.mkdir(mode=0o755, exist_ok=True)
                file.write_text(text)
                file.chmod(0o644)
        return policy.in_force()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    # Whoever runs the tests plays root.
    monkeypatch.setattr(policy, "_ROOT", os.geteuid())
    made = Files(tmp_path)
    monkeypatch.setattr(policy, "SITE", str(made.site))
    monkeypatch.setattr(policy, "own_file", lambda: str(made.own))
    return made


def values(found: Policy) -> dict[str, object]:
    return {name: getattr(found, name) for name in DEFAULTS}


def test_without_a_file_nothing_is_forbidden(files: Files) -> None:
    found = files.say()
    assert values(found) == DEFAULTS
    found.check_plaintext(encrypt=False)
    found.check_programs()
    found.check_far_end("anywhere")
    assert policyfile.rules(found) == {}


def test_files_that_say_nothing_forbid_nothing(files: Files) -> None:
    assert values(files.say("", "[ssh]\n[data]\n")) == DEFAULTS


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('audit = "required"', "audit", "required"),
        ("[ssh]\nkeep_logins = false", "keep_logins", False),
        (
            '[ssh]\nfar_ends = ["*.example.org", "10.9.0.0/16"]',
            "far_ends",
            (("*.example.org", "10.9.0.0/16"),),
        ),
        ("[data]\nplaintext = false", "plaintext", False),
        ("[data]\ndelete = false", "delete", False),
        ('[data]\nports = "50000-50100"', "ports", (50000, 50100)),
        ('[data]\nports = "50000"', "ports", (50000, 50000)),
        ("[programs]\nload = false", "load_programs", False),
        ('[quota]\ncopy = "10TB"', "copy_bytes", 10**13),
        ('[quota]\nday = "1GiB"', "day_bytes", 2**30),
    ],
)
def test_each_key_binds_in_either_file(files: Files, text: str, name: str, value: object) -> None:
    for site, own, where in ((text, "", files.site), ("", text, files.own)):
        found = files.say(site, own)
        assert values(found) == {**DEFAULTS, name: value}
        assert list(found.set_by.values()) == [str(where)]
        # What doctor shows could stand in the file.
        (line,) = policyfile.rules(found)
        key, _, shown = line.partition(" = ")
        table, _, last = key.rpartition(".")
        again = files.say(f"[{table}]\n{last} = {shown}" if table else line, "")
        assert values(again) == values(found)


STRICT = """
audit = "required"
[ssh]
keep_logins = false
far_ends = ["*.example.org"]
[data]
plaintext = false
delete = false
ports = "50000-50100"
[programs]
load = false
[quota]
copy = "1GB"
day = "2GB"
"""
LOOSE = """
audit = "on"
[ssh]
keep_logins = true
far_ends = ["*"]
[data]
plaintext = true
ports = "1-65535"
[programs]
load = true
[quota]
copy = "1TB"
day = "2TB"
"""


def test_a_user_cannot_loosen(files: Files) -> None:
    strict, both = values(files.say(STRICT, "")), values(files.say(STRICT, LOOSE))
    assert both.pop("far_ends") == (("*.example.org",), ("*",))
    strict.pop("far_ends")
    assert both == strict
    with pytest.raises(Refused, match="dtn1 is no far end"):
        files.say(STRICT, LOOSE).check_far_end("dtn1")


def test_a_user_can_tighten(files: Files) -> None:
    found = files.say(LOOSE, STRICT)
    assert found.far_ends == (("*",), ("*.example.org",))
    assert {**values(found), "far_ends": ()} == {**values(files.say(STRICT, "")), "far_ends": ()}
    assert set(found.set_by.values()) == {str(files.own)}
    with pytest.raises(
        Refused, match=r"forbidden by your own policy on host .*own/policy.toml, data.plaintext"
    ):
        found.check_plaintext(encrypt=False)


def test_ranges_of_ports_meet(files: Files) -> None:
    ranges = ('[data]\nports = "50000-50100"', '[data]\nports = "50050-60000"')
    assert files.say(*ranges).ports == (50050, 50100)
    with pytest.raises(HowdahError, match=r"own/policy.toml: data.ports: 1-9 has no port of 50000-50100"):
        files.say(ranges[0], '[data]\nports = "1-9"')


def test_refusals_name_the_policy_and_the_key(files: Files) -> None:
    found = files.say(STRICT)
    found.check_plaintext(encrypt=True)
    found.check_delete(delete=False)
    host = os.uname().nodename
    for check, words in (
        (lambda: found.check_plaintext(encrypt=False), "data.plaintext); leave out --plaintext"),
        (lambda: found.check_delete(delete=True), "data.delete); leave out --delete"),
        (found.check_programs, "programs.load); ask this host's administrator"),
        (lambda: found.check_far_end("evil.example.com"), "ssh.far_ends); ask this host's administrator"),
    ):
        with pytest.raises(Refused, match=re.escape(words)) as refused:
            check()
        assert f"the policy of host {host} ({files.site}, " in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "host", "fits"),
    [
        ("*", "dtn1.example.org", True),
        ("*", "2001:db8::1", True),
        ("*.example.org", "dtn1.example.org", True),
        ("*.Example.ORG", "DTN1.example.org.", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", "dtn1.example.org.evil.com", False),
        ("dtn?.example.org", "dtn12.example.org", False),
        ("10.9.0.0/16", "10.9.255.1", True),
        ("10.9.0.0/16", "10.10.0.1", False),
        ("10.9.0.0/16", "10.9.0.1.evil.com", False),
        ("10.9.0.0/16", "::ffff:10.9.0.1", True),
        ("10.9.*", "10.9.0.1", False),
        ("2001:db8::/32", "2001:DB8:0::1", True),
        ("fe80::/10", "fe80::1%eth0", True),
        ("2001:db8::1", "2001:db8:0:0::1", True),
        ("10.9.0.1", "10.9.0.1", True),
    ],
)
def test_a_pattern_fits_names_or_addresses(pattern: str, host: str, fits: bool) -> None:
    patterns.check(pattern)
    assert patterns.fits(pattern, host) is fits


REMEDIES = (policy.SEE, "; give ", "; write for example ", "; leave the key out", 'as "10Gbit"')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[ssh", "policy.toml is not TOML: "),
        ("[tls]\n", "policy.toml: unknown key tls; known are audit, ssh, data, programs, quota"),
        ("ssh = 1", "policy.toml: ssh: expected a table, got a whole number"),
        ("[ssh]\nkeep = 1", "policy.toml: ssh: unknown key keep; known are keep_logins, far_ends"),
        ("[ssh]\nkeep_logins = 'no'", "policy.toml: ssh.keep_logins: expected true or false, got a text"),
        ("[ssh]\nfar_ends = []", "ssh: far_ends is empty: no far end would be allowed"),
        ("[ssh]\nfar_ends = ['10.9.0.1/16']", "'10.9.0.1/16' is no network"),
        ("[ssh]\nfar_ends = ['me@dtn1']", "'me@dtn1' is no pattern of hosts; give for example *.example.org"),
        ("audit = 'off'", "policy.toml: audit: 'off' is unknown; give on or required"),
        ("audit = true", "policy.toml: audit: expected a text, got true or false"),
        ("[data]\nports = 50000", "policy.toml: data.ports: expected a text, got a whole number"),
        ("[data]\nports = '5-4'", "data: ports '5-4' is no range of ports; give for example \"50000-50999\""),
        ("[data]\nports = '1-65536'", "is no range of ports"),
        ("[data]\nports = '0-9'", "is no range of ports"),
        ("[data]\nports = '-'", "is no range of ports"),
        ("[quota]\ncopy = '10'", "policy.toml: quota.copy: "),
        ("[quota]\nday = true", "policy.toml: quota.day: "),
        ("\xff", "policy.toml is not TOML: it is no UTF-8"),
    ],
)
def test_what_is_no_policy_is_refused(files: Files, text: str, words: str) -> None:
    files.say("")
    for file in (files.site, files.own):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(HowdahError, match=re.escape(words)) as broken:
            files.say()
        assert str(broken.value).startswith(str(file))
        assert any(remedy in str(broken.value) for remedy in REMEDIES)
        file.unlink()


@pytest.mark.parametrize("name", ["site", "own"])
def test_a_policy_that_others_can_write_to_is_refused(files: Files, name: str) -> None:
    files.say("", "")
    file: Path = getattr(files, name)
    for mode in (0o666, 0o664):
        file.chmod(mode)
        with pytest.raises(HowdahError, match=r"must be .* and nobody else's to write"):
            files.say()
    file.chmod(0o644)
    file.parent.chmod(0o777)
    with pytest.raises(HowdahError, match=rf"{file.parent}, which has a policy in it, must be"):
        files.say()
    file.parent.chmod(0o755)
    files.say()


def test_a_policy_of_another_user_is_refused(files: Files) -> None:
    if os.geteuid() != 0:
        missing("only root can give files away")
    files.say("")
    os.chown(files.site, 4711, 0)
    with pytest.raises(
        HowdahError, match=r"must be root's and nobody else's to write; chown root, chmod 644"
    ):
        files.say()


def test_what_is_no_file_is_refused_and_not_waited_for(files: Files) -> None:
    files.site.parent.mkdir()
    os.mkfifo(files.site, 0o644)
    with pytest.raises(HowdahError, match="it is no file"):
        files.say()
    files.site.unlink()
    files.site.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(HowdahError, match="more than 1048576 bytes"):
        files.say()


def test_a_site_can_switch_kept_logins_off(files: Files) -> None:
    assert ssh.keep_s() > 0
    files.say("[ssh]\nkeep_logins = false")
    assert ssh.keep_s() == 0


def test_programs_are_loaded_by_nobody_where_that_is_forbidden(files: Files) -> None:
    files.say("[programs]\nload = false")
    place = Place("10.9.0.0/16", "1-2", None, None)
    for act in (
        lambda: programs.load("hold"),
        lambda: programs.tried("hold").__enter__(),
        lambda: programs.attach(place, "hold"),
    ):
        with pytest.raises(Refused, match="loading programs into the kernel is forbidden"):
            act()


def test_the_users_own_file_lies_with_their_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert policy.own_file() == "/home/me/.config/howdah/policy.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/conf")
    assert policy.own_file() == "/conf/howdah/policy.toml"


def test_a_far_end_is_judged_by_what_ssh_connects_to(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    files.say('[ssh]\nfar_ends = ["*.example.org"]')
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
