"""The way to a far end over ssh: which ssh, with which options, and how long its login is kept.

Policy of kept connections. A new ssh login costs about eleven round trips, more than the rest of a
small copy, so the login is kept: ssh is asked to stay in the background for KEEP_S seconds after the
last copy, and the next copy goes through it (one round trip). Nothing is kept where the user's own ssh
configuration says anything of shared connections (ControlPath or ControlMaster, also to switch them
off), or where the site forbids it. The socket lies in a folder only this user can enter. Its name stands for
the network namespace, so that another lab's far host is never met, and for all that ssh resolves for the
host: two aliases of one account may have keys with different rights there, or different known hosts, which
ssh's own name (%C) does not tell apart. After Ctrl-C or a signal the kept connection is told to end with its
last session.
``HOWDAH_SSH_KEEP_S=0`` keeps none.
``HOWDAH_SSH="ssh -F FILE"`` replaces the ssh command, and so does ``howdah cp -e``; then none is kept
either, for ssh could not tell two such commands apart. It can where they name a port or a user alone.

Imported before everything else when a copy starts: nothing here may import what is slow to load.
"""

import contextlib
import fcntl
import math
import os
import pwd
from _blake2 import blake2s  # hashlib would load OpenSSL

from howdah import LAB_LINK_VARIABLE, HowdahError
from howdah._native import Policy
from howdah.remote import far_command
from howdah.remote.process import PIPE_BYTES, Pipes, nowhere, output, spawn, wait
from howdah.text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_S = 300
_SECONDS_DIGITS_MAX = 9
CONNECT_TIMEOUT_S = 20
PATIENCE_S = 300.0
"""How long a copy waits for a path that is out, unless its user says otherwise."""
_ALIVE_S = 5
_BACKOFF_S = 120
"""After an outage ssh's connection may be silent for as long again, at most this (TCP_RTO_MAX)."""
_HASH_BYTES = 16
_COMMON = f"/tmp/howdah-{os.getuid()}"  # noqa: S108
"""The private folder that is the same in every session, and where there is none."""
_UNSET = "/howdah/unset"
_UNSET_TIMES = "7919"
_ASKED = (
    f'Include "{{home}}/.ssh/config"\nInclude /etc/ssh/ssh_config\nHost *\nControlMaster auto\n'
    f"ControlPath {_UNSET}\nServerAliveInterval {_UNSET_TIMES}\nServerAliveCountMax {_UNSET_TIMES}\n"
)
"""The files that ssh reads by itself, then options. They show whether those files set shared connections, or
the time that a connection without answers lives.

ssh takes the first value of each key, and prints the default of a key like a value that was set. It finds its
user's file by the password database, and the ``~`` of an Include by ``$HOME``.
"""
_PLAIN = {
    "remotecommand": ("none", "RemoteCommand=none"),
    "sessiontype": ("default", "SessionType=default"),
    "stdinnull": ("no", "StdinNull=no"),
    "forkafterauthentication": ("no", "ForkAfterAuthentication=no"),
}
"""What must not be set for a session that runs our command: its key, its default, and the option that sets it
back. Given only where it is set, for ssh before 8.7 knows but the first."""
_SOCKET_PATH_MAX = 108 - 18
"""The length of a path in sockaddr_un, less what ssh appends while it makes the socket."""


class Login:
    """The way in which this user's ssh reaches a host."""

    def __init__(self, host: str, modules: "Sequence[str]" = ()) -> None:
        """Asks ssh what it would do, and loads those modules until it has answered.

        Raises HowdahError for no host, and one that the policy forbids.
        """
        if not host.rpartition("@")[2] or host.startswith("-") or any(c.isspace() for c in host):
            raise HowdahError(f"{host!r} is not a host; give a name that ssh knows, as [user@]host")
        self.host = host
        self.ssh = _words(os.environ.get("HOWDAH_SSH", "")) or ["ssh"]
        resolved = _resolved(self.ssh, host, modules)
        self.config = _config(resolved)
        # The name in the command line may be an alias for any host.
        given_name = host.rpartition("@")[2]
        self.names = (given_name, self.config.get("hostname", given_name))
        """The name as it was given, and the name or address that ssh connects to."""
        Policy().check_far_end(self.names[1])
        self.data_address = _direct_address(self.config)
        self.sockets = _sockets(self.config) if _is_told_apart(self.ssh) else None
        """The beginning of the names of sockets that logins and far ends are kept behind; None: none is."""
        agent = os.fsencode(os.environ.get("SSH_AUTH_SOCK", ""))
        self.way = blake2s(b"%s\0%s" % (resolved, agent), digest_size=_HASH_BYTES).hexdigest()
        """Stands for all that decides where a login leads and with which rights."""
        self.control = f"{self.sockets}-{self.way}" if self.sockets else None

    def start(
        self,
        command: str | None,
        *,
        asks: bool = True,
        role: str = "serve",
        patience_s: float = PATIENCE_S,
        how: str = "",
    ) -> Pipes:
        """Starts ``howdah serve``, or another ``role``, there and returns at once.

        ``command`` is howdah at the far end if not in its PATH; ``asks`` whether ssh may ask the user;
        ``patience_s`` for how long ssh must not give up a path that is out; ``how`` is far_command's.
        """
        remote = far_command.command(command, role, how)
        argv = [*self.ssh, "-T", "-x", "-a", *self._options(asks, patience_s), "--", self.host, remote]
        stdin, write_fd = os.pipe()
        read_fd, stdout = os.pipe()
        stderr_fd, stderr = os.pipe()
        os.set_blocking(stderr_fd, False)
        # So that a far end that writes much seldom waits until this is read.
        with contextlib.suppress(OSError):
            fcntl.fcntl(stderr_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        pid = spawn(argv, (stdin, stdout, stderr), ends=[read_fd, write_fd, stderr_fd])
        return Pipes(read_fd, write_fd, stderr_fd, os.pidfd_open(pid))

    def channel(
        self, address: str, port: int, connection: int, *, own: bool, patience_s: float = PATIENCE_S
    ) -> Pipes:
        """Starts an ssh that carries a socket on to an address and port, as the far host reaches them.

        ``own``: by a connection of its own, and not by the login that is kept. The user is asked nothing. The
        socket stays the caller's; of the Pipes only standard error and the process are there.
        """
        options = self._options(asks=False, patience_s=patience_s, shared=not own)
        to = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        argv = [*self.ssh, "-T", "-x", "-a", *options, "-W", to, "--", self.host]
        stderr_fd, stderr = os.pipe()
        os.set_blocking(stderr_fd, False)
        pid = spawn(argv, (os.dup(connection), os.dup(connection), stderr), ends=[stderr_fd])
        return Pipes(-1, -1, stderr_fd, os.pidfd_open(pid))

    def is_kept(self) -> bool:
        """Whether a login is kept now, of this or of an earlier copy."""
        if self.control is None:
            return False
        check = [*self.ssh, "-O", "check", "-o", f"ControlPath={self.control}", "--", self.host]
        return wait(spawn(check, (nowhere(), nowhere(), nowhere()))) == 0

    def end(self) -> None:
        """Tells the kept login to end with its last session."""
        if self.control:
            # Not -O exit: another copy may be using the connection at this moment.
            output([*self.ssh, "-O", "stop", "-o", f"ControlPath={self.control}", "--", self.host])

    def _options(self, asks: bool, patience_s: float, *, shared: bool = True) -> list[str]:
        options = ["ClearAllForwardings=yes"]
        options += [back for key, (plain, back) in _PLAIN.items() if self.config.get(key, plain) != plain]
        if not asks:
            options.append("BatchMode=yes")
        if self.config.get("connecttimeout", "none") == "none":
            options.append(f"ConnectTimeout={CONNECT_TIMEOUT_S}")
        if not shared:
            options += ["ControlMaster=no", "ControlPath=none"]
        elif self.control:
            options += [
                "ControlMaster=auto",
                f"ControlPath={self.control}",
                f"ControlPersist={keep_s()}",
            ]
        if self.control:
            alive = (self.config.get("serveraliveinterval"), self.config.get("serveralivecountmax"))
            if alive == (_UNSET_TIMES, _UNSET_TIMES):
                # A kept login whose path has gone for good ends with it, and no copy under way before that.
                times = math.ceil((patience_s + _BACKOFF_S) / _ALIVE_S)
                options += [f"ServerAliveInterval={_ALIVE_S}", f"ServerAliveCountMax={times}"]
        return [part for option in options for part in ("-o", option)]


def keep_s() -> int:
    """The seconds that a login and a far end are kept after a copy. Raises HowdahError."""
    text = os.environ.get("HOWDAH_SSH_KEEP_S", str(KEEP_S))
    if not text.isdecimal() or len(text) > _SECONDS_DIGITS_MAX:
        raise HowdahError(f"HOWDAH_SSH_KEEP_S is {text!r}; give whole seconds, or 0 to keep no login")
    return int(text) if Policy().keep_logins else 0


def _resolved(ssh: list[str], host: str, modules: "Sequence[str]") -> bytes:
    """What ssh resolves for this host, a line a value; empty when ssh refuses (its start says why)."""
    asked = os.memfd_create("howdah-ssh")
    try:
        os.write(asked, os.fsencode(_ASKED.format(home=_home())))
        # An ssh that was given by the user has a configuration of its own, and nothing is kept for it.
        through = ["-F", "/dev/stdin"] if _is_told_apart(ssh) else []
        return output([*ssh, *through, "-G", "--", host], stdin=os.dup(asked), modules=modules)
    finally:
        os.close(asked)


def _config(resolved: bytes) -> dict[str, str]:
    """The value of each key; of a key with several values the last one."""
    lines = resolved.decode(errors="surrogateescape").splitlines()
    return {key.lower(): value for key, _, value in (line.partition(" ") for line in lines)}


def _home() -> str:
    """The folder in which ssh looks for its user's configuration."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "~"


def _words(command: str) -> list[str]:
    """The words of a command, as a shell takes them. Raises HowdahError for a quote without its end."""
    if not {"'", '"', "\\"} & {*command}:
        return command.split()
    import shlex  # noqa: PLC0415, slow to load, and hardly ever needed

    try:
        return shlex.split(command)
    except ValueError as error:
        raise HowdahError(
            f"cannot read the ssh command {printable(command)}: {error}; check its quotes"
        ) from None


def _is_told_apart(ssh: list[str]) -> bool:
    """Whether all that the command says is in the name of the socket of a login: the port and the user."""
    program, *options = ssh
    says = options[::2]
    return program == "ssh" and len(options) % 2 == 0 and all(each in {"-p", "-l"} for each in says)


def _direct_address(config: dict[str, str]) -> str | None:
    """The name or address ssh connects to; None when it goes through another host or a command."""
    through = (config.get(key, "none") for key in ("proxyjump", "proxycommand"))
    return config.get("hostname") if all(value == "none" for value in through) else None


def _sockets(config: dict[str, str]) -> str | None:
    unset = (config.get("controlmaster"), config.get("controlpath")) == ("auto", _UNSET)
    folder = private_folder()
    if not unset or not folder or not keep_s():
        return None
    prefix = f"{folder}/{os.stat('/proc/self/ns/net').st_ino}"  # noqa: PTH116
    return prefix if len(os.fsencode(prefix)) + len("-") + 2 * _HASH_BYTES <= _SOCKET_PATH_MAX else None


def private_folder(*, common: bool = False) -> str | None:
    """A folder only this user can enter, made if missing; None when that cannot be had.

    It is that of the login session, or ``common`` to all that this user runs.
    """
    runtime = "" if common else os.environ.get("XDG_RUNTIME_DIR", "")
    if LAB_LINK_VARIABLE in os.environ:
        # A lab's own /run vanishes with the lab, and so do sockets whose ssh it has killed.
        folder = "/run/howdah-ssh"
    else:
        folder = f"{runtime}/howdah" if runtime.startswith("/") else _COMMON
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        found = os.lstat(folder)
    except OSError:
        return None
    private = found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000
    return folder if private else None
