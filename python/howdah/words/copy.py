"""A finished transfer in a few lines."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from howdah import document
from howdah._native import format_bytes, format_duration, format_rate
from howdah.remote.endpoints import written
from howdah.remote.messages import Keep, Skip
from howdah.text import count, printable
from howdah.values.bottleneck import Cause
from howdah.values.limit import Limited
from howdah.values.outcome import FileAction, FilesBeyond, Outcome
from howdah.values.record import Record, Shared
from howdah.words import bottleneck
from howdah.words.copy_progress import change_in_words
from howdah.words.expected import came_of_it, comparison
from howdah.words.expected import in_words as in_words_heard


def summary(record: Record, file: Path | None) -> str:
    """The summary: bytes moved, rate, plan and the place of the record; a dry run's plan and files."""
    if record.outcome is None or record.plan is None:
        return ""
    if record.outcome.dry_run_plan is not None:
        return "\n".join([record.plan.in_words(), "", *_would(record.outcome, _target(record))])
    lines = [
        *_moved(record.outcome, _target(record)),
        *_plan_in_use(record, comparison(record)),
        *_changes(record),
    ]
    lines += _limited(record.limited)
    lines += _shared(record.share)
    lines += _slow(record)
    if record.verification is not None:
        # Other copies do not load what checks files.
        from howdah.words.verification import of_copy  # noqa: PLC0415

        lines += of_copy(record.verification, skips_as_asked=record.outcome.skips_as_asked)
    lines += _warnings(record.outcome)
    if "lateness" in record.flags:
        lines.append("warning: this machine was too slow for the link; the rate is not the path's")
    if file is not None:
        lines.append(f"Record: howdah archive show {record.id}")
    return "\n".join(lines)


def slash_note(names: Sequence[str], outcome: Outcome) -> str | None:
    """A line for people who know ``run42/`` from rsync, where that would have gone elsewhere."""
    if len(names) != 2 or outcome.target is None or names[1].endswith(outcome.target):
        return None
    source = names[0].rstrip("/")
    name = source.rpartition("/")[2].rpartition(":")[2]
    if source == names[0] or outcome.target.rpartition("/")[2] != name or not name.strip("."):
        return None
    return f"{names[0]} is the folder itself, with or without the slash; for its content write {source}/."


def times_note(keep: Keep, skip: Skip) -> str | None:
    """What the next copy does where times are not kept; None where it is as usual, or as was asked for."""
    if keep.times or skip.there or skip.newer or skip.same != "size-and-time":
        return None
    return "without times the next copy sends all files again, unless it has --size-only or --checksum"


def _target(record: Record) -> str | None:
    """``dtn2:archive/run42``: where it went."""
    outcome = record.outcome
    if outcome is None or outcome.target is None or outcome.direction != "push" or record.host is None:
        return None if outcome is None else outcome.target
    return f"{written(record.host)}:{outcome.target}"


def _moved(outcome: Outcome, target: str | None) -> list[str]:
    lines = []
    if outcome.goodput_bps is None:
        lines.append(f"{_without_bytes(outcome)} in {format_duration(outcome.elapsed_s)}")
    else:
        rate = f"{format_rate(outcome.goodput_bps)}"
        if outcome.moving_bps is not None and outcome.setup_s is not None:
            rate += f" ({format_rate(outcome.moving_bps)} after {format_duration(outcome.setup_s)} of setup)"
        lines.append(f"{format_bytes(outcome.bytes)} in {format_duration(outcome.elapsed_s)}: {rate}")
    counts = [(outcome.files, "file"), (outcome.folders, "folder")]
    counts += [(outcome.links, "link"), (outcome.special_files, "special file")]
    parts = [count(number, noun) for number, noun in counts if number]
    if outcome.files_skipped:
        why = "" if outcome.skips_as_asked else ", there already"
        parts.append(f"{outcome.files_skipped:,} skipped{why} ({format_bytes(outcome.bytes_skipped)})")
    if parts:
        lines.append(", ".join(parts))
    if outcome.removal is not None and outcome.dry_run_plan is None:
        lines.append(f"Removed at the target: {outcome.removal.removed:,} that the source does not have")
    if target is not None and (parts or not outcome.left_out):
        lines.append(f"To {target}")
    if outcome.bytes_resumed:
        resumed = format_bytes(outcome.bytes_resumed)
        lines.append(f"resumed: {resumed} were there from an interrupted copy, compared and not sent again")
    if outcome.hole_bytes:
        lines.append(f"holes: {format_bytes(outcome.hole_bytes)} of zeros were not sent")
    if outcome.through_ssh is not None:
        lines.append(f"Through the ssh connection, because the data port was closed ({outcome.through_ssh})")
    if outcome.by_far_end is not None:
        lines.append(
            f"The far end connected to this host, because its port was closed ({outcome.by_far_end})"
        )
    if outcome.other_address is not None:
        lines.append(f"To the far host's other address, {outcome.other_address}")
    lines += _ridden(outcome)
    return lines


def _without_bytes(outcome: Outcome) -> str:
    """How the first line begins where no byte was moved, also if it was to move some and could not."""
    if outcome.hole_bytes:
        return "Nothing to send,"
    if not outcome.left_out:
        return "Nothing to move,"
    if outcome.files:
        return format_bytes(0)
    others = outcome.folders or outcome.links or outcome.special_files
    return "No file was copied," if others else "Nothing was copied,"


def _ridden(outcome: Outcome) -> list[str]:
    """``Rode through 2 outages, 1 min 03 s in all; 3 connections replaced; far end started again once``."""
    parts = []
    if outcome.outages:
        parts.append(
            f"rode through {count(outcome.outages, 'outage')}, {format_duration(outcome.outage_s)} in all"
        )
    if outcome.connections_replaced:
        parts.append(f"{count(outcome.connections_replaced, 'broken connection')} replaced on the way")
    if outcome.restarts:
        times = "once" if outcome.restarts == 1 else f"{outcome.restarts:,} times"
        parts.append(f"far end started again {times}")
    line = "; ".join(parts)
    return [line[0].upper() + line[1:]] if line else []


def _warnings(outcome: Outcome) -> list[str]:
    lines = [f"warning: {warning}" for warning in outcome.warnings]
    if outcome.warnings_more:
        lines.append(f"warning: {outcome.warnings_more:,} more, not listed")
    return lines


def _plan_in_use(record: Record, compared: str | None) -> list[str]:
    parts = []
    if record.rtt_s is not None:
        parts.append(f"RTT {record.rtt_s * 1e3:.3g} ms")
    if record.outcome is not None:
        parts.append(count(record.outcome.retransmissions, "retransmission"))
    if record.connect_s is not None:
        parts.append(f"{format_duration(record.connect_s)} of login before")
    return [
        f"Plan: {record.plan.in_short()}" if record.plan else "No plan",
        ", ".join(parts),
        *([compared] if compared else []),
        *came_of_it(record),
    ]


def _changes(record: Record) -> list[str]:
    """The changes of a copy: what one that listened recognised, and of its changes only those refused."""
    outcome, plan, listened = record.outcome, record.plan, record.listened
    if outcome is None:
        return []
    heard = [] if listened is None or plan is None else in_words_heard(listened, plan)
    told = [each for each in outcome.changes if listened is None or each.refused is not None]
    return [*heard, *(change_in_words(change) for change in told)]


def _slow(record: Record) -> list[str]:
    """The line on what limited it, where one cause did. Of a limit that was asked for another says it."""
    found = record.bottleneck
    if record.outcome is None or found is None or found.main is None:
        return []
    if found.main.cause is Cause.PACING and record.limited is not None:
        return []
    ends = bottleneck.Ends.of(record.outcome, record.host, record.origin)
    buffer_given = record.plan is not None and record.plan.has_given("--buffer")
    line = bottleneck.line(found, ends, buffer_given=buffer_given)
    return [line] if line else []


def _shared(share: Shared | None) -> list[str]:
    if share is None:
        return []
    rates = "rate unknown"
    if share.range_bps is not None:
        least, most = map(format_rate, share.range_bps)
        rates = f"{most} on the wire" if least == most else f"between {least} and {most} on the wire"
    unknown = sum(sample.share_bps is None for sample in share.samples)
    if unknown:
        rates += f" (not known in {unknown:,} of {count(len(share.samples), 'second')})"
    sent = "" if share.sent_bps is None else f", {format_rate(share.sent_bps)} sent"
    waited = (
        "" if share.waited_s is None else f", in force {format_duration(share.waited_s)} after the request"
    )
    return [f"Share: {share.flow} of {share.policy}, {rates}{sent}{waited}"]


def _limited(limited: Limited | None) -> list[str]:
    """``Limit: 50 Mb/s, which slowed the copy``."""
    if limited is None:
        return []
    told = {"held": ", which slowed the copy", "slower": "; the copy was slower anyway", None: ""}
    if limited.most_bps is None:
        told[None] = ", which did not apply at this hour"
    lines = [f"Limit: {limited.limit}{told[limited.held]}"] if limited.limit != "none" or limited.held else []
    if limited.held and limited.changes:
        lines[0] = f"Limit: {limited.limit} at the end; while a limit applied, "
        lines[0] += "it slowed the copy" if limited.held == "held" else "the copy was slower anyway"
    if limited.paused_s:
        lines.append(f"Paused: {format_duration(limited.paused_s)} in all")
    return lines


def _would(outcome: Outcome, target: str | None) -> list[str]:
    # Those of older records are not in their order.
    actions = sorted(outcome.dry_run_plan or [], key=lambda action: action.path.replace(b"/", b"\0"))
    beyond = outcome.dry_run_beyond or FilesBeyond(copy=0, copy_bytes=0, skip=0)
    width = 4 if outcome.removal is None else 6
    lines = [f"{action.action:{width}}  {_size(action):>9}  {printable(action.path)}" for action in actions]
    made = [each for each in actions if each.action == "copy"]
    copied = [each.size for each in made if each.kind == "file"]
    remove = sum(action.action == "remove" for action in actions) + beyond.remove
    skip = sum(action.action == "skip" for action in actions) + beyond.skip
    if more := beyond.copy + beyond.make + beyond.skip + beyond.remove:
        lines.append(f"… and {count(more, 'file' if not beyond.make else 'name')} more, not listed")
    files, size = len(copied) + beyond.copy, sum(copied) + beyond.copy_bytes
    parts = [f"Would copy {count(files, 'file')}", format_bytes(size)]
    links = sum(each.kind in {"link", "hard-link"} for each in made)
    special = sum(each.kind == "special" for each in made)
    parts += [count(number, noun) for number, noun in [(links, "link"), (special, "special file")] if number]
    where = f", to {target}" if target else ""
    removes = ""
    if outcome.removal is not None:
        none_of = "" if outcome.removal.held is None else "none of "
        removes = f"; remove {none_of}{remove:,}"
    return [*lines, *_warnings(outcome), f"{', '.join(parts)}{where}; skip {skip:,}{removes}."]


def _size(action: FileAction) -> str:
    """The size of a file; what else it is."""
    if action.kind == "file":
        return "" if action.action == "remove" else format_bytes(action.size)
    return action.kind.replace("-", " ")


def line(record: Record) -> str:
    """One line of a list: id, rate (of a probe the base RTT), size, what was run."""
    outcome = record.outcome
    size = "-" if outcome is None else format_bytes(outcome.bytes)
    what = ""
    if record.probe is not None:
        # Not loaded by a copy, which prints its own summary alone.
        from howdah.words.probe import ms  # noqa: PLC0415

        rate = ms(record.probe.base_rtt_s)
    elif record.traffic is not None:
        from howdah.words.traffic import in_short  # noqa: PLC0415

        rate, size, what = in_short(record)
    else:
        rate = "-" if outcome is None or outcome.goodput_bps is None else format_rate(outcome.goodput_bps)
    flags = "".join(f" [{flag}]" for flag in [*record.flags, *(["failed"] if record.error else [])])
    what = shlex.join(record.command[1:]) or what
    return printable(f"{record.id}  {record.kind:8}  {rate:>10}  {size:>9} {flags} {what}")


def details(record: Record, archive: Path) -> str:
    """One record in full, but for its trace. It may have come from another host's archive."""
    compared = comparison(record)
    if record.outcome is not None:
        record = msgspec.structs.replace(record, outcome=msgspec.structs.replace(record.outcome, samples=[]))
    record = document.strange(record)
    near, far = record.environment.near, record.environment.far
    lines = [
        f"{record.kind} {record.id}",
        f"  started {record.started_at:%Y-%m-%d %H:%M:%S} UTC by howdah {record.version}",
        f"  command {shlex.join(record.command)}",
        f"  kernels {near.kernel} here, {far.kernel if far else 'unknown'} there",
        f"  archive {printable(str(archive))}",
    ]
    if record.environment.link is not None:
        lines.append("  link    a lab's (see --json)")
    if record.flags:
        lines.append(f"  flags   {', '.join(record.flags)}")
    if record.error is not None:
        lines += ["", f"Failed: {record.error}"]
    if record.probe is not None:
        from howdah.words.probe import in_words  # noqa: PLC0415

        lines += ["", in_words(record.probe, record.host or record.probe.address)]
    if record.outcome is not None:
        lines += ["", *_moved(record.outcome, _target(record))]
        lines += [*_plan_in_use(record, compared), *_changes(record)]
        lines += _limited(record.limited)
        lines += _shared(record.share)
        lines += _slow(record)
        lines += bottleneck.details(record.bottleneck)
        lines += _warnings(record.outcome)
        lines += [f"left out: {why}" for why in record.outcome.left_out]
        if record.outcome.left_out_more:
            lines.append(f"left out: {record.outcome.left_out_more:,} more, not listed")
    if record.traffic is not None:
        # Loaded only for such a record.
        from howdah.words.traffic import described  # noqa: PLC0415

        lines += ["", *described(record)]
    if record.plan is not None:
        lines += ["", record.plan.in_words()]
    return "\n".join(lines)
