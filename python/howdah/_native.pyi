"""Rust mechanism behind howdah. Structured values cross as JSON (bytes).

Each JSON value has a msgspec Struct on the Python side and a serde struct on the Rust side;
the Struct is named beside each function. Paths inside JSON are base64 of their raw bytes,
because a Linux name need not be UTF-8. Missing is null, never -1 or 0.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, final

from howdah.values.record import Record

__all__ = [
    "CC_PROGRAMS",
    "PROTOCOL_VERSION",
    "CcShares",
    "CcTrial",
    "CopyLog",
    "Emulator",
    "HowdahError",
    "LinkMark",
    "Policy",
    "Prober",
    "Quota",
    "Refused",
    "Responder",
    "Session",
    "UdpSink",
    "UdpSource",
    "__version__",
    "algorithm_of_list",
    "bind_mount",
    "cc_attach",
    "cc_cgroup",
    "cc_check_kernel",
    "cc_check_place",
    "cc_check_saved",
    "cc_check_settings",
    "cc_check_target",
    "cc_connections",
    "cc_counts",
    "cc_default_target",
    "cc_detach",
    "cc_forget",
    "cc_list",
    "cc_load",
    "cc_memories",
    "cc_model",
    "cc_remember",
    "cc_rules",
    "cc_set",
    "cc_shares",
    "cc_unload",
    "check_digests",
    "check_host_pattern",
    "check_link",
    "connect_ahead",
    "die_with_parent",
    "digest_line",
    "drop_capabilities",
    "examine_digests",
    "expand_filters",
    "format_bytes",
    "format_duration",
    "format_rate",
    "host_fits",
    "host_limits",
    "mount_proc",
    "parse_bytes",
    "parse_duration",
    "parse_fraction",
    "parse_rate",
    "printable",
    "serve",
    "unshare",
]

__version__: str
PROTOCOL_VERSION: int
CC_PROGRAMS: tuple[str, ...]
"""The congestion controls howdah brings as programs, as users call them."""

class HowdahError(Exception):
    """What was wrong, where, and what to do, in one line meant for the user."""

    record: Record | None
    """The record of the run that went wrong; null where there is none. (Set in howdah/__init__.py.)"""
    exit_code: int
    """The exit code of a command that it ends. (Set there, too.)"""

# --- units (crates/units) -------------------------------------------------------------------

def parse_rate(text: str) -> int:
    """Bits per second of ``10Gbit``, ``400Mb/s``, ``1.5 Gb/s``. Raises HowdahError without a unit."""

def parse_bytes(text: str) -> int:
    """Bytes of ``125MB``, ``4MiB``, ``1500B``. Raises HowdahError without a unit."""

def parse_duration(text: str) -> int:
    """Nanoseconds of ``100ms``, ``1.5s``, ``250us``, ``2min``. Raises HowdahError without a unit."""

def parse_fraction(text: str) -> float:
    """0..1 of ``0.01%``, ``1e-4``. Raises HowdahError outside 0..1."""

def format_rate(rate_bps: float) -> str: ...
def format_bytes(size_bytes: int) -> str: ...
def format_duration(duration_s: float) -> str: ...

# --- strange text (crates/wire) ---------------------------------------------------------------

def printable(text: bytes, most_bytes: int | None = None) -> str:
    """One line of printable characters and spaces; all else is escaped, as ``\\n``, ``\\u{202e}``, ``\\xff``.

    What is longer than ``most_bytes`` ends in ``…``. A second pass changes nothing.
    """

# --- hosts and sockets (crates/tcp) ---------------------------------------------------------

def host_limits() -> bytes:
    """This network namespace's HostLimits (record.py): kernel, congestion controls, buffer limits."""

# --- round trips (crates/probe); Structs in probing/probing.py -------------------------------------

@final
class Prober:
    """Probes on their way to a far end, sent and received by a thread that ends with this."""

    def __new__(cls, wanted: bytes) -> Self:
        """Begins a Probing at once. Raises HowdahError where this user may not, or no way leads there."""

    def take(self, timeout_s: float) -> bytes:
        """Taken: what happened since this was last asked, after the time or at the end of the probing."""

    def stop(self) -> None:
        """Sends no more; what is still out counts as lost."""

@final
class Responder:
    """Answers UDP probes of one prober that has its token, each with as many bytes as it has."""

    def __new__(cls, address: str) -> Self:
        """Listens at this address of this host, or ``::`` for any, on a port that the kernel chooses."""

    @property
    def port(self) -> int: ...
    @property
    def token(self) -> str:
        """What a prober has to know, 32 hexadecimal digits."""

    def run(self, stop_fd: int) -> int:
        """Answers until ``stop_fd`` is readable or closed; how many were answered."""

# --- congestion control (crates/cc/model) -----------------------------------------------------

def cc_model(experiment: bytes) -> bytes:
    """Trace (tests/cc_model.py) of an Experiment. Raises HowdahError naming what cannot be."""

# --- congestion control as programs (crates/cc); Structs in cc/programs.py ---------------------

def cc_check_kernel() -> None:
    """Raises HowdahError with the reason when this process may load no programs into this kernel."""

def cc_list() -> bytes:
    """The Programs howdah brings. Needs no privilege, but then sees not what is loaded."""

def cc_counts() -> bytes:
    """Connections by congestion control, in every network namespace that may be entered from here."""

def cc_load(name: str, settings: list[tuple[str, str]]) -> bytes:
    """Loading. When the kernel refuses the program, a note of the HowdahError is its log."""

def cc_unload(name: str) -> bytes:
    """Unloading."""

def cc_set(rate_bps: int | None, window_packets: int | None, flow: str | None) -> bytes:
    """Targeted."""

def cc_default_target() -> bytes:
    """Target or null."""

def cc_connections() -> bytes:
    """Every Connection of every network namespace."""

def cc_rules() -> bytes:
    """The Rules in force."""

def cc_check_place(place: bytes) -> None:
    """Raises HowdahError when a Place (cc/places.py) is none, whatever there is in the kernel."""

def cc_check_saved(saved: bytes) -> None:
    """Raises HowdahError when a Saved (cc/resume.py) cannot be, whatever there is in the kernel."""

def cc_check_settings(name: str, settings: list[tuple[str, str]]) -> None:
    """Raises HowdahError for a parameter that the program does not have, or a value that one cannot have."""

def cc_check_target(rate_bps: int | None, window_packets: int | None, flow: str | None) -> None:
    """Raises HowdahError for a target that nothing can hold, and for a text that names no connection."""

def cc_cgroup(path: str) -> int | None:
    """The kernel's number of the cgroup that has this path now; null: there is none."""

def cc_attach(place: bytes, control: str, rate_bps: int | None, window_packets: int | None) -> bytes:
    """Attaching, of a rule for the connections of a Place."""

def cc_detach(place: bytes) -> bytes:
    """Attaching, of the rule that has ended."""

@final
class CcTrial:
    """A program that sockets may choose until this or its process ends, however that comes."""

    def __new__(cls, name: str) -> Self:
        """Loads it with its defaults. When the kernel refuses it, a note of the HowdahError is its log."""

    @property
    def name(self) -> str:
        """The name by which sockets choose it."""

    def end(self) -> None:
        """Takes the program out; connections keep it until they end."""

# --- memories for hd_resume (crates/cc); Structs in cc/resume.py ---------------------------------

def cc_remember(destination: bytes, saved: bytes) -> bytes:
    """Memory: what is Saved, for new connections to a Destination."""

def cc_forget(destination: bytes) -> bytes:
    """Memory: the one that was there. Raises HowdahError when there is none."""

def cc_memories() -> bytes:
    """Every Memory; none where resume is not loaded."""

# --- shares (crates/cc); Structs in cc/shares.py ------------------------------------------------

def cc_shares() -> bytes:
    """The Shares of every owner; none where hold is not loaded."""

@final
class CcShares:
    """The shares of one owner. They stay in the kernel when this goes."""

    def __new__(cls, owner: str) -> Self:
        """Finds those that there are. Raises HowdahError where hold is not loaded."""

    def define(self, name: str, minimum_bps: int) -> bytes:
        """Share: the one of that name as it is, or a new one with its minimum in force."""

    def set(self, name: str, rate_bps: int, minimum_bps: int, until_ns: int) -> None:
        """``rate_bps`` until that instant of CLOCK_BOOTTIME, then ``minimum_bps``: one write to a map."""

    def all(self) -> bytes:
        """Each Share, by name."""

    def remove(self, name: str) -> None:
        """Raises HowdahError while a rule gives it."""

    def place(self, wanted: bytes) -> bytes:
        """Placing. ``wanted``, a list of Placed, are the only rules that give shares of this owner then."""

# --- network namespaces (crates/emulator) -----------------------------------------------------

def unshare(*, user: bool, pid: bool, mount: bool) -> None:
    """Calls unshare(2); ``user`` maps the caller to root in a new user namespace. Needs a single thread."""

def die_with_parent() -> None:
    """Calls prctl(PR_SET_PDEATHSIG, SIGKILL); raises HowdahError if the parent has gone already."""

def drop_capabilities() -> None:
    """Calls capset(2) and prctl(PR_SET_NO_NEW_PRIVS) for this thread, its later threads and its children."""

def mount_proc() -> None:
    """Makes mounts private and mounts a fresh /proc for the PID namespace just entered."""

def bind_mount(source: str, target: str) -> None: ...
def check_link(link: bytes) -> None:
    """Raises HowdahError naming the parameter of a LinkSpec (values/link.py) that is out of its range."""

@final
class LinkMark:
    """What a link had done at an instant."""

@final
class Emulator:
    """Two network namespaces joined by one emulated link; both vanish with this process."""

    def __new__(cls, link: bytes) -> Self:
        """Makes the namespaces and their TUN devices from a LinkSpec (values/link.py); nothing moves yet."""

    @property
    def device(self) -> str: ...
    def namespace_fd(self, host: str) -> int:
        """An open descriptor of the network namespace of ``near`` or ``far``."""

    def ended_fd(self) -> int:
        """A descriptor that is readable once packets move no more; ``stop`` then raises the reason."""

    def start(self) -> None:
        """Starts the clock of the schedule and moves packets on a thread of its own."""

    def stats(self, since: LinkMark | None = None) -> bytes:
        """LinkStats (values/link.py) so far, or since a mark."""

    def mark(self) -> LinkMark:
        """A mark from which statistics may count."""

    def stop(self) -> bytes:
        """Stops moving packets and returns the last LinkStats.

        Raises HowdahError when the link had stopped by itself.
        """

# --- transfer (crates/transfer) -----------------------------------------------------------------

@final
class Session:
    """The near end of one transfer, speaking to ``serve`` over two descriptors."""

    def __new__(
        cls, read_fd: int, write_fd: int, ahead: Sequence[int] | None = None, *, fill: bool = False
    ) -> Self:
        """Takes the descriptors over and sends Hello at once; does not wait for the answer.

        ``ahead`` are connections to the far end's data port (``connect_ahead``). Encrypted streams begin on
        them. With ``fill``, a first window of padding follows the greeting, so that the RTT is known before
        there is data.
        """

    def begin(self, within_s: float) -> None:
        """Begins encrypted streams on the connections made ahead, if the hello is there within this time.

        What is wrong, ``hello`` says.
        """

    def hello(self, timeout_s: float) -> bytes | None:
        """FarHello (remote/messages.py), or None when it is not there yet after ``timeout_s``.

        Raises HowdahError when the far end speaks no howdah, another version, or has gone.
        """

    def start(self, job: bytes, plan: bytes, lost: Session | None = None) -> None:
        """Carries out a Job (remote/messages.py) by a Plan (plan.py) on threads of its own.

        ``lost`` is the session of the same copy that ended before because its far end was lost. What it sent
        may be in place there; such files get their digests from it.
        """

    def try_port(self, addresses: Sequence[str], port: int) -> None:
        """Has the far end try the data port of another one, once and before a job; does not wait."""

    def try_near(self, address: str, port: int, ports: tuple[int, int] | None) -> None:
        """Has the far end try a port of this host, once and before a job; does not wait.

        The port is one of ``ports`` at the address that this host has towards ``address`` and ``port``.
        Raises HowdahError where none can be opened.
        """

    def port_tried(self, timeout_s: float) -> bytes | None:
        """PortTried (remote/messages.py), or None when it is not there yet after ``timeout_s``.

        Raises HowdahError when the far end has gone.
        """

    def expand(self, patterns: Sequence[bytes]) -> None:
        """Has the far end say what sources lead to there, once and before a job; does not wait."""

    def expanded(self, timeout_s: float) -> bytes | None:
        """Expanded (remote/messages.py), or None when it is not there yet after ``timeout_s``.

        Raises HowdahError when nothing there matches, or the far end has gone.
        """

    def start_between(self, receiver: Session, job: bytes, plan: bytes) -> None:
        """Carries out a Job in which this session's far end sends to that of ``receiver``.

        From then on this session is of the whole copy; ``receiver`` has to live as long.
        """

    def wait(self, timeout_s: float) -> bool:
        """True when the transfer has ended, well or not."""

    def progress(self) -> bytes:
        """Progress (remote/messages.py)."""

    def limit(self, limit: bytes) -> None:
        """Has all streams together send by a Limit (remote/messages.py) from now on; does not wait.

        Both ends hear of a pause, so that neither takes the other one for dead. Raises HowdahError when it
        cannot be read, nothing gets through it, or nothing has been started.
        """

    def steer(self, steering: bytes) -> None:
        """Has the streams send by a Steering (remote/messages.py) without reconnecting; does not wait.

        What came of it is Progress.latest, from a far sender after a round trip; when all has arrived
        nothing comes of it. Raises HowdahError when it cannot be read, asks for more streams than the plan
        opened, or nothing has been started.
        """

    def cancel(self) -> None:
        """Tells the far end, stops both within two seconds; complete files are kept."""

    def result(self) -> bytes:
        """Outcome (record.py). Raises HowdahError if the transfer failed."""

    def lost_connection(self) -> bool:
        """Whether it failed because the connection to the far end was lost: another session may go on."""

# --- the rules of a site (crates/site, docs/policy.md), and the far end under them (crates/far) ---

def connect_ahead(hello_fd: int, data_address: str | None, count: int, within_s: float) -> list[int]:
    """Connections to the data port of the far end whose hello waits unread in a pipe, or comes in that time.

    The hello stays in the pipe. ``data_address`` is the name or address by which ssh reaches the far host,
    None where it goes through another one. The caller owns the descriptors. Those that cannot be made are
    left out.
    """

class Refused(HowdahError):
    """A policy does not allow what was asked for."""

@final
class Policy:
    """What binds this user on this host, as it was read once."""

    def __new__(cls) -> Self:
        """Raises HowdahError for a file that is no policy, or that others than its owner can write to."""

    @property
    def keep_logins(self) -> bool:
        """Whether an ssh login, and a far end behind it, may be kept after a copy."""

    def check_plaintext(self, *, encrypt: bool) -> None:
        """Raises Refused for data streams that may not be plaintext."""

    def check_delete(self, *, delete: bool) -> None:
        """Raises Refused for a copy to this host that may remove nothing here."""

    def check_programs(self) -> None:
        """Raises Refused where howdah may load no program into this kernel."""

    def check_far_end(self, host: str) -> None:
        """Raises Refused for a far end, by the name or address that ssh connects to, that no pattern fits."""

    def ports_of(self, asked: tuple[int, int] | None) -> tuple[int, int] | None:
        """The ports of which this host opens one for data streams; None: the kernel chooses.

        Raises Refused where none is in both the policy's range and the one that was asked for.
        """

    def rules(self) -> dict[str, str]:
        """What is in force as lines of a file, and the file that set each. Defaults have none."""

@final
class Quota:
    """Counts the bytes that one copy moves, by the limits of a policy."""

    def __new__(cls, policy: Policy) -> Self: ...
    def begin(self, known: int | None) -> None:
        """Takes the bytes of the copy, where they are known before anything moves.

        Raises Refused where they are too many, HowdahError where they cannot be counted; so does ``moved``.
        """

    def moved(self, moved: int, known: int) -> None:
        """Counts the ``moved`` bytes of the copy so far; it is known to move ``known`` bytes."""

@final
class CopyLog:
    """The line that a copy leaves in the log of this host, its near end."""

    def __new__(cls, job: bytes, peer: bytes, record: str) -> Self:
        """A FarJob (remote/messages.py), the host as ssh is told, and the id of the record."""

    def begin(self, policy: Policy) -> None:
        """Shows that the log takes lines, where that is required. Raises Refused where it does not."""

    def end(
        self,
        policy: Policy | None,
        outcome: str,
        account: bytes,
        *,
        elapsed_s: float,
        digests: Path | None,
    ) -> None:
        """Logs ``complete``, ``incomplete``, ``refused``, ``failed`` or ``interrupted``, and a FarAccount.

        ``digests`` is the file of digests; ``policy`` is null where it could not be read. Raises Refused
        where a line is required and no log takes it.
        """

def check_host_pattern(pattern: str) -> None:
    """Raises ValueError, in words, for what is neither a pattern of names nor a network (docs/policy.md)."""

def host_fits(pattern: str, host: str) -> bool:
    """Whether a name or an address fits a pattern. A network never fits a name: names are not resolved."""

def serve(words: list[str]) -> int:
    """Serves one copy on standard input and output (docs/serve.md) and returns the exit code.

    ``words`` are those of the command line behind ``serve``. No other thread may run.
    """

# --- filter rules (crates/filter) ------------------------------------------------------------------

def expand_filters(
    given: list[tuple[str, bytes]], nul_separated: bool, open: Callable[[bytes], bytes]
) -> list[bytes]:
    """The one list of rules of all that was given, in its order, without merged files.

    Each is ``filter``, ``exclude``, ``include``, ``exclude-from`` or ``include-from``, with its value.
    ``open`` gives the text of a file of rules, which are on lines or ``nul_separated``; what it raises
    comes out of this. Raises HowdahError for what is no rule, and for too many.
    """

# --- digests of files (crates/digest); Structs in values/verification.py ---------------------------

def examine_digests(file: bytes, algorithm: str | None, name: bytes) -> tuple[str, int]:
    """The algorithm of the list of digests in ``file``, and how many files it names; every line is read.

    The algorithm is the one that is given, or the one that its lines name, or that of ``name``, or the only
    one whose digests are so long. Raises HowdahError for a line that is none, and where nothing says it.
    """

def algorithm_of_list(name: bytes) -> str | None:
    """The algorithm that the name of a list ends in; null for none."""

def digest_line(digest: str, name: bytes) -> bytes:
    """A line of a list, as b3sum(1) writes it; ``digest`` is in hexadecimal."""

def check_digests(read_fd: int, write_fd: int) -> int:
    """Checks what the job from ``read_fd`` asks for, tells ``write_fd`` in lines of JSON, closes both.

    Returns the exit code, once all is told or nobody reads it any more.
    """

# --- background traffic (crates/traffic); Structs in traffic/account.py ---------------------------

@final
class UdpSource:
    """Sends to one UdpSink: a sequence at a rate, or objects of which what was lost is sent again."""

    def __new__(
        cls, address: str, port: int, token: bytes, rate_bps: int, datagram_bytes: int | None
    ) -> Self:
        """``rate_bps`` of payload; datagrams of what the way takes whole when no length is given.

        Raises HowdahError for a length that cannot be, and without a way to ``address``.
        """

    @property
    def datagram_bytes(self) -> int: ...
    def knock(self) -> None:
        """Sends a datagram that only shows that the way is open."""

    def send(self, duration_s: float) -> bool:
        """Sends the sequence for so long; False when ``stop`` ended it. Raises HowdahError."""

    def begin(self, number: int, object_bytes: int) -> int:
        """Begins object ``number``, from 1; the bytes of it that a datagram takes. Raises HowdahError."""

    def round(self, missing: bytes | None) -> bool:
        """Sends all of the object, or what is ``missing`` (UdpSink); False when ``stop`` ended it.

        Raises HowdahError.
        """

    def digest(self) -> str | None:
        """The digest of the object, in hexadecimal, once its first round is over."""

    def stop(self) -> None:
        """Ends what is being sent, and whatever would be."""

    def counts(self) -> bytes:
        """SourceCounts."""

@final
class UdpSink:
    """Counts what comes of the source that shows the token; listens until it is gone, and sends nothing."""

    def __new__(cls, token: bytes) -> Self:
        """``token``: 16 bytes. Raises HowdahError when the kernel lets no socket listen."""

    @property
    def port(self) -> int: ...
    def counts(self) -> bytes:
        """SinkCounts."""

    def expect(self, number: int, object_bytes: int, piece_bytes: int) -> None:
        """Takes the pieces of this object from now on, and of none before it. Raises HowdahError."""

    def missing(self) -> bytes:
        """What is missing of the object, once nothing comes any more; ``[]`` when it is whole."""

    def digest(self) -> str | None:
        """The digest of what has come of the object, in hexadecimal."""
