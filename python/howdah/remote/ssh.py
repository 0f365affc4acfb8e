"""The far end over ssh: which ssh, with which options, kept how long; started, watched, ended, explained.

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
import select
import signal
import time
from _blake2 import blake2s  # hashlib would load OpenSSL
from collections import namedtuple

from howdah import LAB_LINK_VARIABLE, HowdahError
from howdah._native import Policy
from howdah.remote import far_command
from howdah.text import INSTALL, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

KEEP_S = 300
_SECONDS_DIGITS_MAX = 9
CONNECT_TIMEOUT_S = 20
LOST = 255
"""The exit code of an ssh whose connection failed (ssh(1))."""
_OVERTAKEN = "already exists, disabling multiplexing"
"""Part of what an ssh writes that began as another one did; it goes on by itself, so nobody is told."""
PATIENCE_S = 300.0
"""How long a copy waits for a path that is out, unless its user says otherwise."""
_ALIVE_S = 5
_BACKOFF_S = 120
"""After an outage ssh's connection may be silent for as long again, at most this (TCP_RTO_MAX)."""
KEPT_BYTES = 8192
"""The bytes kept of the beginning of standard error, and as many of its end."""
_PIPE_BYTES = 2**20
_DRAIN_S = 0.05
"""The longest time at once for a far end that writes without end; progress is shown meanwhile."""
_HASH_BYTES = 16
_OUTPUT_S = 2.0
"""The time that a short ssh command may take."""
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
_LAST_BYTES_MAX = 400

_TURNED_AWAY = ("connection closed by", "connection reset by")
"""What ssh writes of a connection that ends before the login; of one later: ``Connection to HOST closed``."""
_LOGIN = "{host} refuses the login; first make this work: ssh {host} true"
_ROUTE = "no route to {host}; check the network, or its address"
_CAUSES = {
    "could not resolve hostname": (
        "unknown host {host}; check the name, or give it a HostName in ~/.ssh/config"
    ),
    "connection refused": (
        "{host} refuses ssh: nothing listens on {port} there; start sshd, or give the port of sshd: "
        "Port in ~/.ssh/config, or -p in the ssh command"
    ),
    "during banner exchange": (
        "{host} takes connections, but no ssh answers there; check its port, which Port in ~/.ssh/config sets"
    ),
    "timed out": (
        f"{{host}} did not answer ssh within {CONNECT_TIMEOUT_S} s; "
        "check that it is up, and that no firewall is in the way"
    ),
    "no route to host": _ROUTE,
    "network is unreachable": _ROUTE,
    "remote host identification has changed": (
        "the host key of {host} has changed; if you expected that: ssh-keygen -R {host}"
    ),
    "host key verification failed": (
        "the host key of {host} is not known; check it and accept it once with: ssh {host} true"
    ),
    "too many authentication failures": (
        "{host} refuses the login, for ssh offers it too many keys; name the right one in ~/.ssh/config "
        "with IdentityFile, and say IdentitiesOnly yes there"
    ),
    "permission denied": _LOGIN,
} | dict.fromkeys(
    _TURNED_AWAY,
    "{host} closed the connection before the login; its sshd takes only so many at a time "
    "(MaxStartups in its sshd_config), or what listens on that port is no sshd",
)
"""The errors of ssh (any version since 6.0; it has no translations), and what the user is told."""


_REFUSALS = (
    "remote host identification has changed",
    "host key verification failed",
    "permission denied",
    "too many authentication failures",
)
"""What ssh writes where no other try would do better."""
_SIGNALLED = 128
"""A shell's exit code is above this when a signal ended its program."""

Pipes = namedtuple("Pipes", ["read_fd", "write_fd", "stderr_fd", "pidfd"])
Pipes.__doc__ = "A running ssh: output, input and standard error of the far end, and the process."


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
            fcntl.fcntl(stderr_fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        pid = spawn(argv, (stdin, stdout, stderr))
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
        pid = spawn(argv, (os.dup(connection), os.dup(connection), stderr))
        return Pipes(-1, -1, stderr_fd, os.pidfd_open(pid))

    def is_kept(self) -> bool:
        """Whether a login is kept now, of this or of an earlier copy."""
        if self.control is None:
            return False
        check = [*self.ssh, "-O", "check", "-o", f"ControlPath={self.control}", "--", self.host]
        pid = spawn(check, (nowhere(), nowhere(), nowhere()))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def end(self) -> None:
        """Tells the kept login to end with its last session."""
        if self.control:
            # Not -O exit: another copy may be using the connection at this moment.
            _output([*self.ssh, "-O", "stop", "-o", f"ControlPath={self.control}", "--", self.host])

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


class StandardError:
    """Standard error as printable lines: its beginning, its end, and how much was between them."""

    def __init__(self) -> None:
        self._first, self._shown = bytearray(), 0
        self._last, self._more = b"", 0

    def add(self, piece: bytes) -> None:
        """Keeps no more than twice KEPT_BYTES of all that is ever added."""
        room = KEPT_BYTES - len(self._first)
        self._first += piece[:room]
        self._more += len(piece[room:])
        self._last = (self._last + piece[room:])[-KEPT_BYTES:]

    def lines(self, *, to_end: bool) -> list[str]:
        """The new whole lines of the beginning; with ``to_end`` also what there is of the end."""
        end = len(self._first) if to_end else self._first.rfind(b"\n") + 1
        text = bytes(self._first[self._shown : end])
        self._shown = max(self._shown, end)
        if to_end:
            left_out = self._more - len(self._last)
            text += b"\n(%d bytes left out)\n" % left_out if left_out else b""
            text += self._last
            self._last, self._more = b"", 0
        lines = [printable(line.removesuffix(b"\r")) for line in text.split(b"\n") if line.strip()]
        return [line for line in lines if _OVERTAKEN not in line]


class FarProcess:
    """A running ``ssh HOST howdah serve``. The caller owns ``read_fd`` and ``write_fd``."""

    def __init__(self, login: Login, pipes: Pipes) -> None:
        self.login = login
        self.mark = "far end"
        """The beginning of each line that it writes to standard error."""
        self.read_fd, self.write_fd, self._stderr_fd, self.pidfd = pipes
        self._errors = StandardError()
        self._status: int | None = None

    def exit_status(self, timeout_s: float) -> int | None:
        """The exit code of ssh, -N when signal N ended it, None while it runs."""
        if self._status is None and readable(self.pidfd, timeout_s):
            self._status = _status(self.pidfd)
        return self._status

    def drain(self) -> None:
        """Reads what ssh and the far end have written to standard error, so that they never wait for it."""
        until = time.monotonic() + _DRAIN_S
        while time.monotonic() < until:
            try:
                piece = os.read(self._stderr_fd, _PIPE_BYTES)
            except BlockingIOError:
                return
            if not piece:
                return
            self._errors.add(piece)

    def new_stderr(self, *, to_end: bool = False) -> str:
        """The new lines of it, each with the mark; after ``to_end`` no more are shown."""
        self.drain()
        return "".join(f"{self.mark}: {line}\n" for line in self._errors.lines(to_end=to_end))

    def stderr(self) -> str:
        """The new lines of it, to the end and without the mark, for ``explain``."""
        self.drain()
        return "\n".join(self._errors.lines(to_end=True))

    def end(self, *, keep_login: bool = False) -> None:
        """Ends ssh, and the kept login with its last session. A session that went well ends by itself."""
        if not keep_login:
            self.login.end()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.exit_status(0.0) is None:
                signal.pidfd_send_signal(self.pidfd, number)
                self.exit_status(0.5)

    def close(self) -> None:
        """Closes the descriptors of an ssh that has ended or is left alone; for programs that start many."""
        os.close(self._stderr_fd)
        os.close(self.pidfd)


def may_pass(status: int | None, stderr: str) -> bool:
    """Whether what ended ``ssh HOST howdah serve`` may be gone when it is tried again."""
    refused = any(pattern in stderr.lower() for pattern in _REFUSALS)
    signalled = status is not None and (status < 0 or _SIGNALLED < status < LOST)
    return status is None or signalled or (status == LOST and not refused)


def turned_away(status: int | None, stderr: str) -> bool:
    """Whether the far sshd closed the connection before the login, as it does where too many come at once."""
    return may_pass(status, stderr) and any(pattern in stderr.lower() for pattern in _TURNED_AWAY)


def explain(host: str, status: int | None, stderr: str) -> str:
    """Explains how ``ssh HOST howdah serve`` ended, given its exit status and standard error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = printable(lines[-1], _LAST_BYTES_MAX) if lines else "it said nothing"
    match status:
        case 255:
            known = (text for pattern, text in _CAUSES.items() if pattern in stderr.lower())
            unknown = f"ssh to {{host}} failed ({_plain(last)}); first make this work: ssh {{host}} true"
            port = stderr.lower().partition(": connection refused")[0].rpartition(" port ")[2]
            port = f"port {port}" if port.isdecimal() else "that port"
            return next(known, unknown).format(host=host, port=port)
        case 127:
            return (
                f"howdah was not found on {host}; install it there {INSTALL}, "
                "or give its path with --far-howdah PATH"
            )
        case 126:
            return (
                f"howdah on {host} cannot be run ({last}); check its permissions, or give --far-howdah PATH"
            )
        case int() if status < 0:
            return f"ssh to {host} was ended by signal {-status}; start the copy again"
        case _ if last.startswith("howdah: "):
            return f"{host}: {last.removeprefix('howdah: ')}"
        case _:
            return f"howdah on {host} ended before it answered ({last}); try: ssh {host} howdah --version"


def keep_s() -> int:
    """The seconds that a login and a far end are kept after a copy. Raises HowdahError."""
    text = os.environ.get("HOWDAH_SSH_KEEP_S", str(KEEP_S))
    if not text.isdecimal() or len(text) > _SECONDS_DIGITS_MAX:
        raise HowdahError(f"HOWDAH_SSH_KEEP_S is {text!r}; give whole seconds, or 0 to keep no login")
    return int(text) if Policy().keep_logins else 0


def _status(pidfd: int) -> int:
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        # Another process started it and is gone; most likely its connection was lost.
        return LOST
    if ended is None:
        return LOST
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _resolved(ssh: list[str], host: str, modules: "Sequence[str]") -> bytes:
    """What ssh resolves for this host, a line a value; empty when ssh refuses (its start says why)."""
    asked = os.memfd_create("howdah-ssh")
    try:
        os.write(asked, os.fsencode(_ASKED.format(home=_home())))
        # An ssh that was given by the user has a configuration of its own, and nothing is kept for it.
        through = ["-F", "/dev/stdin"] if _is_told_apart(ssh) else []
        return _output([*ssh, *through, "-G", "--", host], stdin=os.dup(asked), modules=modules)
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


def spawn(argv: list[str], streams: tuple[int, int, int], *, session: bool = False) -> int:
    """Starts ``argv`` with these as its standard streams, which are closed here."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)]
    try:
        # Ctrl-C reaches every process of the terminal; ssh must live on to carry our goodbye.
        return os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            file_actions=actions,
            setsigmask=[signal.SIGINT],
            setsigdef=[signal.SIGPIPE],
            setsid=session,
        )
    except FileNotFoundError:
        raise HowdahError(
            f"{argv[0]} is not installed on this host; install it: apt install openssh-client"
        ) from None
    except OSError as error:
        raise HowdahError(f"cannot start {argv[0]}: {error.strerror}; check HOWDAH_SSH") from None
    finally:
        for fd in streams:
            os.close(fd)


def nowhere() -> int:
    """A standard stream that leads to /dev/null."""
    return os.open(os.devnull, os.O_RDWR)


def readable(fd: int, timeout_s: float) -> bool:
    """Whether ``fd`` has something, or its end, before the time is over.

    Not by select(2): a copy of many files has more descriptors open than it knows.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1e3))


def _output(argv: list[str], stdin: int | None = None, modules: "Sequence[str]" = ()) -> bytes:
    """The standard output of a short command: whatever it has written within ``_OUTPUT_S``.

    Those modules are loaded meanwhile, until it writes.
    """
    read_fd, stdout = os.pipe()
    pid = spawn(argv, (nowhere() if stdin is None else stdin, stdout, nowhere()))
    text, deadline = b"", time.monotonic() + _OUTPUT_S
    try:
        for module in modules:
            if readable(read_fd, 0.0):
                break
            __import__(module)
        while readable(read_fd, max(0.0, deadline - time.monotonic())):
            piece = os.read(read_fd, 65536)
            if not piece:
                break
            text += piece
        else:
            os.kill(pid, signal.SIGKILL)
        return text
    finally:
        os.close(read_fd)
        os.waitpid(pid, 0)


def _plain(text: str) -> str:
    """The text as ``format`` gives it back."""
    return text.replace("{", "{{").replace("}", "}}")
