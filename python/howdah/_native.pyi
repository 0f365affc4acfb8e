"""Rust mechanism behind howdah. Structured values cross as JSON (bytes).

Each JSON value has a msgspec Struct on the Python side and a serde struct on the Rust side;
the Struct is named beside each function. Paths inside JSON are base64 of their raw bytes,
because a Linux name need not be UTF-8. Missing is null, never -1 or 0.
"""

from typing import Self, final

__all__ = [
    "CC_PROGRAMS",
    "PROTOCOL_VERSION",
    "Emulator",
    "HowdahError",
    "Session",
    "__version__",
    "bind_mount",
    "cc_attach",
    "cc_check_place",
    "cc_connections",
    "cc_counts",
    "cc_default_target",
    "cc_detach",
    "cc_list",
    "cc_load",
    "cc_model",
    "cc_rules",
    "cc_set",
    "cc_unload",
    "check_link",
    "die_with_parent",
    "format_bytes",
    "format_duration",
    "format_rate",
    "host_limits",
    "mount_proc",
    "parse_bytes",
    "parse_duration",
    "parse_fraction",
    "parse_rate",
    "serve",
    "unshare",
]

__version__: str
PROTOCOL_VERSION: int
CC_PROGRAMS: tuple[str, ...]
"""The congestion controls howdah brings as programs, as users call them."""

class HowdahError(Exception):
    """What was wrong, where, and what to do, in one line meant for the user."""

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

# --- hosts and sockets (crates/tcp) ---------------------------------------------------------

def host_limits() -> bytes:
    """This network namespace's HostLimits (record.py): kernel, congestion controls, buffer limits."""

# --- congestion control (crates/cc/model) -----------------------------------------------------

def cc_model(experiment: bytes) -> bytes:
    """Trace (cc/model.py) of an Experiment. Raises HowdahError naming what cannot be."""

# --- congestion control as programs (crates/cc); Structs in cc/programs.py ---------------------

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

def cc_check_place(to: str, ports: str) -> None:
    """Raises HowdahError when ``to`` is no prefix or ``ports`` no range."""

def cc_attach(to: str, ports: str, control: str, rate_bps: int | None, window_packets: int | None) -> bytes:
    """Attaching."""

def cc_detach(to: str, ports: str) -> bytes:
    """Attaching, of the rule that has ended."""

# --- network namespaces (crates/emulator) -----------------------------------------------------

def unshare(*, user: bool, pid: bool, mount: bool) -> None:
    """unshare(2); ``user`` maps the caller to root in a new user namespace. Needs a single thread."""

def die_with_parent() -> None:
    """prctl(PR_SET_PDEATHSIG, SIGKILL); raises HowdahError if the parent has gone already."""

def mount_proc() -> None:
    """Makes mounts private and mounts a fresh /proc for the PID namespace just entered."""

def bind_mount(source: str, target: str) -> None: ...
def check_link(link: bytes) -> None:
    """Raises HowdahError naming the parameter of a LinkSpec (lab/link.py) that is out of its range."""

@final
class Emulator:
    """Two network namespaces joined by one emulated link; both vanish with this process."""

    def __new__(cls, link: bytes) -> Self:
        """Makes the namespaces and their TUN devices from a LinkSpec (lab/link.py); no packet moves yet."""

    @property
    def device(self) -> str: ...
    def namespace_fd(self, host: str) -> int:
        """An open descriptor of the network namespace of ``near`` or ``far``."""

    def ended_fd(self) -> int:
        """A descriptor that is readable once packets move no more; ``stop`` then raises the reason."""

    def start(self) -> None:
        """Starts the clock of the schedule and moves packets on a thread of its own."""

    def stats(self) -> bytes:
        """LinkStats (lab/link.py) so far."""

    def stop(self) -> bytes:
        """Stops moving packets and returns the last LinkStats.

        Raises HowdahError when the link had stopped by itself.
        """

# --- transfer (crates/transfer) -----------------------------------------------------------------

@final
class Session:
    """The near end of one transfer, speaking to ``serve`` at the far end over two descriptors."""

    def __new__(cls, read_fd: int, write_fd: int) -> Self:
        """Takes the descriptors over and sends Hello at once; does not wait for the answer."""

    def hello(self, timeout_s: float) -> bytes | None:
        """FarHello (transfer/messages.py), or None when it is not there yet after ``timeout_s``.

        Raises HowdahError when the far end speaks no howdah, another version, or has gone.
        """

    def start(self, job: bytes, plan: bytes) -> None:
        """Carries out a Job (transfer/messages.py) by a Plan (plan.py) on threads of its own."""

    def wait(self, timeout_s: float) -> bool:
        """True when the transfer has ended, well or not."""

    def progress(self) -> bytes:
        """Progress (transfer/messages.py)."""

    def cancel(self) -> None:
        """Tells the far end, stops both within two seconds; complete files are kept."""

    def result(self) -> bytes:
        """Outcome (record.py). Raises HowdahError if the transfer failed."""

def serve(read_fd: int, write_fd: int) -> int:
    """The far end; returns the exit code. Blocks until the session has ended."""
