"""The text that ``howdah cc`` prints for people."""

from rich.table import Table

from howdah._native import format_bytes, format_duration, format_rate
from howdah.cc.programs import (
    Attaching,
    CongestionControl,
    HoldTarget,
    KernelStatus,
    Loading,
    Program,
    Rule,
    Targeted,
    TcpConnection,
    Unloading,
)
from howdah.cc.resume import Memory, Saved
from howdah.cc.shares import Share
from howdah.text import count, printable


def controls(found: list[CongestionControl]) -> Table:
    """The text of ``howdah cc list``."""
    table = Table("name", "from", "state", "connections", "what", box=None, pad_edge=False)
    for each in found:
        what = each.program.summary.partition(":")[0] if each.program else ""
        shown = f"{each.connections:,}" if each.connections else ""
        table.add_row(each.name, each.source, _state(each), shown, what)
    return table


def _state(control: CongestionControl) -> str:
    if not control.available:
        return "not loaded"
    program = control.program
    words = ["default"] if control.default else []
    if program is None:
        words.insert(0, "in the kernel")
    elif program.loaded is None:
        words.insert(0, "loaded elsewhere")
    else:
        words.insert(0, "loaded" if program.loaded.current else f"loaded by howdah {program.loaded.version}")
    return ", ".join(words)


def loading(done: Loading) -> str:
    """The text of ``howdah cc load``."""
    name = done.kernel_name
    match done.action:
        case "unchanged":
            return f"{name} is loaded already, the same program with the same parameters"
        case "swapped":
            return (
                f"{name} of howdah {done.replaced} was replaced in place; "
                f"{_connections(done.moved)} on it run the new one"
            )
        case "loaded":
            return f"{name} is loaded; any program may choose it, as: iperf3 -C {name}"


def remembering(told: dict[str, Memory]) -> list[str]:
    """What ``howdah cc load resume`` says of the paths in the archive."""
    if not told:
        return ["the archive has no path that connections may begin with; see: howdah archive paths"]
    return [f"{printable(path)}: {remembered(memory)}" for path, memory in told.items()]


def unloading(done: Unloading) -> str:
    """The text of ``howdah cc unload``."""
    parts = [f"{done.kernel_name} is unloaded"]
    parts += [f"{_connections(number)} went on with {to}" for to, number in done.moved.items()]
    parts += [
        f"{to} is the default of {count(number, 'network namespace')} that had it"
        for to, number in done.defaults.items()
    ]
    if done.left:
        parts.append(f"{_connections(done.left)} could not be moved and keep it until they end")
    return "; ".join(parts)


def targeted(done: Targeted) -> str:
    """The text of ``howdah cc set``."""
    what = target(done.target) if done.target else "nothing"
    if done.flows is None:
        return f"hd_hold holds {what} for each connection without a target of its own"
    return f"hd_hold holds {what} for {_connections(done.flows)}"


def target(held: HoldTarget) -> str:
    """The words ``400 Mb/s``, ``738 packets`` or ``share 3``."""
    if held.share:
        return f"share {held.share}"
    return format_rate(held.rate_bps) if held.rate_bps else count(held.window_packets, "packet")


def remembered(done: Memory) -> str:
    """The text of ``howdah cc set resume``."""
    return f"hd_resume begins connections {_where(done)} with {_saved(done.saved)}"


def forgotten(done: Memory) -> str:
    """The text of ``howdah cc set resume --none``."""
    return f"hd_resume has nothing for connections {_where(done)} any more; {_came_of(done)}"


def _where(memory: Memory) -> str:
    port = f" with port {memory.port}" if memory.port else ""
    namespace = f" in namespace {memory.namespace}" if memory.namespace else ""
    return f"to {memory.to}{port}{namespace}"


def _saved(saved: Saved) -> str:
    rate = format_rate(round(saved.capacity_bytes * 8 / saved.rtt_s))
    part = f", jump to {saved.jump_part:.1%}" if saved.jump_part else ""
    return (
        f"{rate} at {format_duration(saved.rtt_s)}{part}, {count(saved.streams, 'stream')}, then {saved.then}"
    )


def _came_of(memory: Memory) -> str:
    words = f"{count(memory.connections, 'connection')}, {count(memory.jumps, 'jump')}"
    words += f", {memory.validated} validated, {count(memory.retreats, 'retreat')}"
    return words + (f", {memory.other_paths} on another path" if memory.other_paths else "")


def attaching(done: Attaching, *, ended: bool) -> str:
    """The text of ``howdah cc attach`` and ``detach``."""
    rule = rule_words(done.rule)
    if ended:
        return f"no longer: {rule}; {_connections(done.moved)} got back the control that they had"
    return f"{rule}; {_connections(done.moved)} moved to it"


def rule_words(rule: Rule) -> str:
    """The words ``--to 10.9.0.0/16 --ports 5000-5100: hd_hold at 400 Mb/s``."""
    held = f" at {target(rule.target)}" if rule.target else ""
    whose = f"--cgroup {rule.cgroup} " if rule.cgroup else ""
    to = f"--to {rule.to} " if rule.to else ""
    where = f" --namespace {rule.namespace}" if rule.namespace else ""
    return f"{whose}{to}--ports {rule.ports}{where}: {rule.control}{held}"


def status(found: KernelStatus) -> list[str | Table]:
    """The text of ``howdah cc status``, in parts."""
    parts: list[str | Table] = []
    for program in found.programs:
        if program.in_kernel:
            parts.append(_program(program))
    if not parts:
        parts.append("no program of howdah is loaded; load one with: howdah cc load scalable")
    if any(program.name == "hold" and program.loaded for program in found.programs):
        held = target(found.default_target) if found.default_target else "nothing"
        parts.append(f"hd_hold holds {held} for each connection without a target of its own")
    if found.rules:
        parts.append(_rules(found.rules))
    if found.shares:
        parts.append(_shares(found.shares))
    if found.memories:
        parts.append(_memories(found.memories))
    flows = [each for each in found.connections if not each.listens]
    if flows:
        parts.append(_flows(flows))
    return parts


def _program(program: Program) -> str:
    loaded = program.loaded
    if loaded is None:
        return f"{program.kernel_name}: loaded, but not from here"
    settings = ", ".join(f"{each.name}={each.text}" for each in loaded.settings)
    what = "" if loaded.current else f", loaded by howdah {loaded.version}"
    return f"{program.kernel_name}{what}" + (f": {settings}" if settings else "")


def _rules(rules: list[Rule]) -> Table:
    columns = ("cgroup", "to", "ports", "namespace", "control", "holds", "chosen", "refused")
    table = Table(*columns, box=None, pad_edge=False)
    for rule in rules:
        held = target(rule.target) if rule.target else ""
        where = str(rule.namespace) if rule.namespace else "every"
        refused = f"{rule.refused:,}" if rule.refused else ""
        ports, chosen = str(rule.ports), f"{rule.chosen:,}"
        table.add_row(
            rule.cgroup or "every", rule.to or "anywhere", ports, where, rule.control, held, chosen, refused
        )
    return table


def _shares(shares: list[Share]) -> Table:
    columns = ("share", "owner", "name", "in force", "lease left", "minimum", "active", "sent")
    table = Table(*columns, box=None, pad_edge=False)
    for share in shares:
        table.add_row(
            str(share.number),
            share.owner,
            share.name,
            _rate(share.in_force_bps),
            format_duration(share.left_s) if share.left_s else "run out",
            _rate(share.minimum_bps),
            f"{share.active:,} of {count(share.connections, 'connection')}",
            format_bytes(share.sent_bytes),
        )
    return table


def _memories(memories: list[Memory]) -> Table:
    columns = ("to", "port", "namespace", "remembered", "left", "what came of it")
    table = Table(*columns, box=None, pad_edge=False)
    for memory in memories:
        table.add_row(
            memory.to,
            str(memory.port or "every"),
            str(memory.namespace or "every"),
            _saved(memory.saved),
            format_duration(memory.left_s) if memory.left_s else "run out",
            _came_of(memory),
        )
    return table


def _rate(rate_bps: int) -> str:
    return format_rate(rate_bps) if rate_bps else "ordinary"


def _flows(flows: list[TcpConnection]) -> Table:
    table = Table("connection", "control", "window", "RTT", "hold or resume", box=None, pad_edge=False)
    for each in flows:
        rtt = format_duration(each.rtt_s) if each.rtt_s else ""
        table.add_row(
            f"{each.local}-{each.remote}",
            each.control,
            f"{each.window_packets:,}",
            rtt,
            _hold(each) or _resume(each),
        )
    return table


def _hold(connection: TcpConnection) -> str:
    hold = connection.hold
    if hold is None:
        return ""
    words = [{"idle": "no target", "held": "held", "fallback": "fell back"}[hold.state]]
    if hold.target:
        words.append(f"at its own {target(hold.target)}")
    if hold.loss:
        words.append(f"loss {hold.loss:.2%}")
    if hold.falls:
        words.append(f"fell back {hold.falls} times, returned {hold.returns}")
    return ", ".join(words)


def _resume(connection: TcpConnection) -> str:
    resume = connection.resume
    if resume is None:
        return ""
    words: list[str] = [resume.why or resume.phase]
    if resume.jumped_bytes:
        words.append(f"jumped to {format_bytes(resume.jumped_bytes)}")
        words.append(f"{format_bytes(resume.validated_bytes)} got through")
    return ", ".join(words)


def _connections(number: int) -> str:
    return count(number, "connection")
