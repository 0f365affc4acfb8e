"""Programs in this host's kernel, through the native module. Everything but ``controls`` needs root.

Rates are bits per second on the wire, times seconds, losses 0..1. What is not there is null.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from howdah import HowdahError, _native, decoding
from howdah.cc import choose, resume, shares
from howdah.cc.resume import Memory, ResumeStatus
from howdah.cc.shares import Place, Share
from howdah.values.record import HostLimits


class Parameter(msgspec.Struct, frozen=True):
    """A number that a program reads when it is loaded, in the program's own unit."""

    name: str
    help: str
    unit: Literal["count", "switch", "bytes", "microseconds", "per_mille", "per_million"]
    default: int
    least: int
    most: int


class Setting(msgspec.Struct, frozen=True):
    """A parameter's value."""

    name: str
    value: int
    text: str
    """The value as a user writes it."""


class Loaded(msgspec.Struct, frozen=True):
    """A program that is in the kernel."""

    version: str
    """The version of the howdah that loaded it."""
    current: bool
    """Whether it is the program that this howdah brings."""
    understood: bool
    """Whether this howdah can tune it."""
    settings: list[Setting]


class Program(msgspec.Struct, frozen=True):
    """A program that howdah brings."""

    name: str
    kernel_name: str
    summary: str
    parameters: list[Parameter]
    ranges: list[str]
    """The ranges of the parameters, as a user writes them."""
    defaults: list[str]
    loaded: Loaded | None
    """The loaded program; null: not loaded, or its pins cannot be seen from here."""
    in_kernel: bool


class CongestionControl(msgspec.Struct, frozen=True):
    """A congestion control that this host has or could have."""

    name: str
    """The name by which sockets choose it."""
    source: Literal["kernel", "howdah"]
    available: bool
    """Whether sockets may choose it now."""
    default: bool
    """Whether new sockets of this network namespace use it."""
    connections: int
    """Connections that use it, in all network namespaces that may be entered from here."""
    program: Program | None = None


class Loading(msgspec.Struct, frozen=True):
    """The result of loading."""

    kernel_name: str
    action: Literal["loaded", "swapped", "unchanged"]
    replaced: str | None
    """The version that it replaced."""
    moved: int
    """Live connections and listeners that run the new program now."""
    settings: list[Setting]


class Unloading(msgspec.Struct, frozen=True):
    """The result of unloading."""

    kernel_name: str
    moved: dict[str, int]
    """Live connections and listeners, by the control they were moved to."""
    defaults: dict[str, int]
    """Network namespaces whose default it was, by their new default."""
    left: int
    """Connections that could not be moved; the kernel keeps the program for them until they end."""


class HoldTarget(msgspec.Struct, frozen=True):
    """The target that hold holds: one of the three, the others 0."""

    rate_bps: int
    window_packets: int
    share: int = 0
    """The number of the share, from 1."""


class Targeted(msgspec.Struct, frozen=True):
    """The result of setting a target."""

    target: HoldTarget | None
    flows: int | None
    """How many connections it was given to; null: it is the default."""


class HoldStatus(msgspec.Struct, frozen=True):
    """A connection under hold."""

    target: HoldTarget | None
    """The connection's own target; null: the default."""
    state: Literal["idle", "held", "fallback"]
    """Idle: nothing to hold; held; fallback: the guard has struck."""
    target_packets: int
    base_rtt_s: float | None
    loss: float
    """The share lost in the last round trip with enough packets to tell."""
    rounds: int
    rounds_held: int
    falls: int
    """How often the guard struck."""
    returns: int


class TcpConnection(msgspec.Struct, frozen=True):
    """A TCP connection or listener."""

    namespace: int
    """The inode of its network namespace."""
    cookie: int
    """The kernel's number of the connection."""
    listens: bool
    local: str
    remote: str
    control: str
    window_packets: int
    rtt_s: float | None
    rule: tuple[int, str] | None
    """The rule that chose its control, from 1, and the control before."""
    hold: HoldStatus | None
    resume: ResumeStatus | None = None


class Ports(msgspec.Struct, frozen=True):
    """A range of ports, both ends included."""

    least: int
    most: int

    def __str__(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"


class Rule(msgspec.Struct, frozen=True):
    """Connections of a cgroup or to a prefix, with a port in a range at either end, and what they get."""

    number: int
    cgroup: str | None
    """The only cgroup it is for, with those below it; null: all."""
    to: str | None
    """The prefix they go to; null: anywhere."""
    ports: Ports
    namespace: int | None
    """The inode of the only network namespace it is for; null: all."""
    control: str
    target: HoldTarget | None
    chosen: int
    """New connections that it chose for."""
    refused: int
    """New connections that the kernel did not let have it."""

    @property
    def place(self) -> Place:
        """The place as it was attached."""
        return Place(self.to, str(self.ports), self.namespace, self.cgroup)


class Attaching(msgspec.Struct, frozen=True):
    """The result of attaching or detaching."""

    rule: Rule
    moved: int
    """Live connections given the control, or given back what they had."""
    rules: int
    """How many rules are left in force."""


class KernelStatus(msgspec.Struct, frozen=True):
    """The state of all that is loaded."""

    programs: list[Program]
    default_target: HoldTarget | None
    rules: list[Rule]
    shares: list[Share]
    memories: list[Memory]
    connections: list[TcpConnection]
    """Connections that use a program of howdah, or that a rule chose for, or that resume has had."""


def controls() -> list[CongestionControl]:
    """The kernel's controls, then howdah's. Without root fewer connections are counted."""
    here = HostLimits.here()
    counts = decoding.from_json(_native.cc_counts(), dict[str, int])
    programs = {program.kernel_name: program for program in listed()}
    names = [*here.congestion_controls_available, *programs]
    return [
        CongestionControl(
            name=name,
            source="howdah" if name in programs else "kernel",
            available=name in here.congestion_controls_available,
            default=name == here.congestion_control_default,
            connections=counts.get(name, 0),
            program=programs.get(name),
        )
        for name in sorted(dict.fromkeys(names), key=lambda name: name in programs)
    ]


def listed() -> list[Program]:
    """The programs that howdah brings."""
    return decoding.from_json(_native.cc_list(), list[Program])


def load(name: str, settings: Sequence[tuple[str, str]] = ()) -> Loading:
    """Loads a program so that it outlives this process, or swaps it in place.

    Raises HowdahError where the policy of this host forbids that, or the kernel refuses it. So do ``tried``
    and ``attach``.
    """
    _native.Policy().check_programs()
    return decoding.from_json(_native.cc_load(name, list(settings)), Loading)


def unload(name: str) -> Unloading:
    """Moves connections away from a program and takes it out of the kernel."""
    return decoding.from_json(_native.cc_unload(name), Unloading)


@contextlib.contextmanager
def tried(name: str) -> Iterator[str]:
    """Keeps a program in the kernel while the block and this process last; yields its name there."""
    _native.Policy().check_programs()
    trial = _native.CcTrial(name)
    try:
        yield trial.name
    finally:
        trial.end()


def set_target(rate_bps: int | None, window_packets: int | None, flow: str | None) -> Targeted:
    """Sets what hold holds, by default or for the connections ``flow``; both null: nothing."""
    return decoding.from_json(_native.cc_set(rate_bps, window_packets, flow), Targeted)


def default_target() -> HoldTarget | None:
    """The target of connections without one of their own."""
    return decoding.from_json(_native.cc_default_target(), HoldTarget | None)


def rules() -> list[Rule]:
    """The rules of the host, in the order of their numbers."""
    return decoding.from_json(_native.cc_rules(), list[Rule])


def status() -> KernelStatus:
    """The state of all that is loaded."""
    programs = listed()
    ours = {program.kernel_name for program in programs}
    connections = decoding.from_json(_native.cc_connections(), list[TcpConnection])
    return KernelStatus(
        programs=programs,
        default_target=default_target(),
        rules=rules(),
        shares=shares.everyones(),
        memories=resume.memories(),
        connections=[
            each
            for each in connections
            if each.control in ours or each.rule is not None or each.resume is not None
        ],
    )


def attach(
    place: Place, control: str, rate_bps: int | None = None, window_packets: int | None = None
) -> Attaching:
    """Gives connections the control. Raises HowdahError where rules overlap, or there is no such cgroup."""
    _native.Policy().check_programs()
    made = _native.cc_attach(msgspec.json.encode(place), control, rate_bps, window_packets)
    return decoding.from_json(made, Attaching)


def detach(place: Place) -> Attaching:
    """Ends a rule and gives its connections back what they had."""
    return decoding.from_json(_native.cc_detach(msgspec.json.encode(place)), Attaching)


SWEPT = ("cubic", "htcp", "scalable")
"""The controls of ``howdah sweep HOST``."""


def available(names: Sequence[str], here: HostLimits) -> list[str]:
    """The controls that a sweep from this host can use."""
    return [name for name in names if refusal(name, here) is None]


def refusal(name: str, here: HostLimits) -> str | None:
    """The reason why a sweep cannot use the control, and what to do; null when it can."""
    choice = choose(name, here.congestion_controls_available)
    if choice.source == "missing":
        if choice.program is None:
            return f"neither this kernel nor howdah has {name}; see: howdah cc list"
        if not here.privileged:
            return f"this kernel has no {name}, and only root can load howdah's: sudo howdah cc load {name}"
    elif choice.control not in here.congestion_controls_usable:
        usable = " ".join(here.congestion_controls_usable)
        return (
            f"this kernel does not allow {name}, only {usable}; as root: "
            f'sysctl -w net.ipv4.tcp_allowed_congestion_control="{usable} {choice.control}"'
        )
    return None


@contextlib.contextmanager
def provided(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Provides controls: for each name, the name by which a socket chooses it.

    What is loaded for this leaves the kernel with the block or this process.

    Raises HowdahError for one that cannot be had.
    """
    here = HostLimits.here()
    for name in names:
        if why := refusal(name, here):
            raise HowdahError(why)
    with contextlib.ExitStack() as stack:
        found = {}
        for name in names:
            choice = choose(name, here.congestion_controls_available)
            if choice.source == "missing" and choice.program is not None:
                stack.enter_context(tried(choice.program))
            found[name] = choice.control
        yield found
