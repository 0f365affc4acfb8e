"""Real OpenSSH servers on hosts of a lab, and a client configuration that finds them without a flag.

Without root, only one user exists in the lab, so a server cannot drop its privileges to another. It
then never has any: it runs in a further user namespace, as the user who made the lab, and so do those
who log in.

Keys and configuration are made for one lab and vanish with it; nobody's ~/.ssh is read for them or
written. The client's part lies where ssh reads the whole system's configuration, so that every tool
that starts ssh can use it.
"""

import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from howdah._native import HowdahError
from howdah.arguments import NotHere
from howdah.lab import mounts
from howdah.lab.topology import LabHost

_PORT = 22
_START_S = 10.0
_CLIENT = Path("/etc/ssh/ssh_config")
_SHADOW = Path("/etc/shadow")
_LOGIN_RECORDS = (Path("/var/log/wtmp"), Path("/var/log/btmp"), Path("/var/log/lastlog"))
_LISTEN = "0A"
"""The state TCP_LISTEN in /proc/net/tcp."""


def check() -> None:
    """Raises HowdahError where no server can run; before anything is made."""
    for program in ("sshd", "ssh", "ssh-keygen"):
        if _which(program) is None:
            raise NotHere(
                f"{{sshd}}: {program} is not installed; run: apt-get install openssh-server openssh-client"
            )


def prepare(servers: Sequence[LabHost], *, ipv6: bool) -> dict[str, list[str]]:
    """Makes keys and configurations; returns the command line of each server, by host."""
    host_key, user_key = mounts.PRIVATE / "host_key", mounts.PRIVATE / "user_key"
    _make_keys(host_key, user_key)
    addresses = {host.name: [host.address, *([host.address6] if ipv6 else [])] for host in servers}
    aliases = [name for host in servers for name in (host.name, host.name6, *addresses[host.name])]
    authorized = mounts.write("authorized_keys", _public(user_key), mode=0o600)
    known = mounts.write("known_hosts", f"{','.join(aliases)} {_public(host_key)}", mode=0o644)
    config = mounts.write("sshd_config", _server_config(host_key, authorized), mode=0o600)
    existing = _CLIENT.read_text(encoding="utf-8", errors="replace") if _CLIENT.exists() else ""
    maker = _maker_ids()
    user = "root" if maker is None else pwd.getpwuid(maker[0]).pw_name
    mounts.cover(_CLIENT, _client_config(user, user_key, known, aliases) + existing, mode=0o644)
    server = [str(_which("sshd")), "-D", "-f", str(config), "-E", str(_log())]
    if maker is None:
        _let_root_in()
    else:
        server = ["unshare", "--user", f"--map-user={maker[0]}", f"--map-group={maker[1]}", "--", *server]
    return {
        name: [*server, *(f"-oListenAddress={address}" for address in own)] for name, own in addresses.items()
    }


def _let_root_in() -> None:
    (mounts.RUN / "sshd").mkdir(mode=0o755, exist_ok=True)
    for record in _LOGIN_RECORDS:
        if record.exists():
            mounts.cover(record, "", mode=0o600)
    _unlock_root()


def wait_ready(pid: int, host: str) -> None:
    """Returns once the server ``pid`` of ``host`` listens. Raises HowdahError with its own words if not."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if _listens(pid):
            return
        if os.waitpid(pid, os.WNOHANG)[0]:
            break
        time.sleep(0.002)
    said = _log().read_text(encoding="utf-8", errors="replace").strip() if _log().exists() else ""
    raise HowdahError(f"the sshd of {host} did not start: {said.rpartition(chr(10))[2] or 'it said nothing'}")


def _make_keys(*paths: Path) -> None:
    makers = [
        subprocess.Popen(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "howdah-lab", "-f", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for path in paths
    ]
    for maker in makers:
        _, said = maker.communicate()
        if maker.returncode:
            raise HowdahError(f"ssh-keygen failed: {said.decode(errors='replace').strip()}")


def _server_config(host_key: Path, authorized: Path) -> str:
    scripts = Path(sys.executable).parent
    return f"""\
Port {_PORT}
HostKey {host_key}
AuthorizedKeysFile {authorized}
AuthenticationMethods publickey
PermitRootLogin yes
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
X11Forwarding no
AcceptEnv LANG LC_*
# Hosts share this one's files, but bash must not run their owner's ~/.bashrc at each command as if
# it were there by choice: it leaves that out when it believes it is not the outermost shell.
SetEnv PATH={scripts}:{os.environ.get("PATH", os.defpath)} SHLVL=1
Subsystem sftp internal-sftp
# Transfers open many connections at once.
MaxStartups 1000
MaxSessions 1000
MaxAuthTries 100
"""


def _client_config(user: str, user_key: Path, known: Path, aliases: list[str]) -> str:
    return f"""\
Host {" ".join(aliases)}
    User {user}
    IdentityFile {user_key}
    IdentitiesOnly yes
    UserKnownHostsFile {known}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    UpdateHostKeys no
    CheckHostIP no
    BatchMode yes
Host *
"""


def _maker_ids() -> tuple[int, int] | None:
    """User and group of a lab's maker without root: all that its user namespace has; else null."""
    ids = []
    for kind in ("uid", "gid"):
        _, outside, count = Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").split()[:3]
        if int(count) != 1:
            return None
        ids.append(int(outside))
    return ids[0], ids[1]


def _unlock_root() -> None:
    """Unlocks root's password: without PAM, sshd refuses a locked root account even to a key."""
    lines = _SHADOW.read_text(encoding="utf-8").splitlines(keepends=True) if _SHADOW.exists() else []
    unlocked = ["root:*:" + line.split(":", 2)[2] if line.startswith("root:!") else line for line in lines]
    if unlocked != lines:
        mounts.cover(_SHADOW, "".join(unlocked), mode=0o600)


def _listens(pid: int) -> bool:
    """Whether ``pid`` has entered its network namespace and that has a listener on the port."""
    try:
        if Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net"):
            return False
        rows = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return False
    fields = (row.split() for row in rows)
    return any(field[1].endswith(f":{_PORT:04X}") and field[3] == _LISTEN for field in fields)


def _public(key: Path) -> str:
    return key.with_suffix(".pub").read_text(encoding="ascii")


def _log() -> Path:
    return mounts.PRIVATE / "sshd.log"


def _which(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
