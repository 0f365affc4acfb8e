"""Copies: ``howdah.copy`` and ``howdah.plan_for``, and their two halves, of which the command is made."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, get_args, get_type_hints

from howdah import HowdahError
from howdah._native import format_bytes, format_duration, format_rate
from howdah.archive import Archive
from howdah.arguments import BadArgument, check_one_of, check_types, check_within, plain, typed
from howdah.bounds import PORT_MAX, Bounds, times
from howdah.library.ended import Name, log, record_of
from howdah.remote.bringing import Agree, Offer
from howdah.remote.endpoints import PIPE, Route, parse, route
from howdah.remote.far import greet
from howdah.remote.messages import Keep, Progress
from howdah.remote.ssh import PATIENCE_S
from howdah.transfer.display import Display, Quiet
from howdah.transfer.incomplete import check_pipe
from howdah.transfer.pilot import Pilot
from howdah.transfer.planning import plan_only
from howdah.transfer.request import FAIRNESS, Given, Request, listed
from howdah.transfer.run import run
from howdah.transfer.what import (
    Rule,
    check_delete,
    made_delete,
    made_skip,
    made_walk,
    read_filters,
    read_keep,
)
from howdah.values.limit import Limits
from howdah.values.plan import (
    BUFFER_BYTES_MAX,
    BUFFER_BYTES_MIN,
    PACING_BPS_MIN,
    STREAMS_MAX,
    PathKind,
    Plan,
)
from howdah.values.record import Record, printable_command

__all__ = [
    "PATIENCE_S",
    "PIPE",
    "Agree",
    "Display",
    "Memory",
    "Offer",
    "Request",
    "Rule",
    "carry_out",
    "copy",
    "copy_request",
    "plan_for",
]

_PATIENCE_S = times("0 s", "24 h")
_MEMORY_S = times("0 s", "365 d")
_BUFFER_BYTES = Bounds(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX, show=format_bytes)
_PACING_BPS = Bounds(PACING_BPS_MIN, 10**15, show=format_rate)
_ON_THEIR_OWN = {"src", "dst", "listen", "pilot", "on_progress", "bring", "archive"}
"""The arguments of ``copy`` that ``copy_request`` does not take as they are."""


class Memory(NamedTuple):
    """A source that is no file: bytes from this host's memory into the far host's, by size or by time."""

    size_bytes: int | None = None
    for_s: float | None = None
    """Seconds from the first byte on."""


@typed
def copy(
    src: Name | Sequence[Name] | Memory,
    dst: Name,
    *,
    plan: Plan | Name | None = None,
    path: PathKind = "shared",
    traffic_class: str | None = None,
    streams: int | None = None,
    congestion_control: str | None = None,
    buffer_bytes: int | None = None,
    pacing_bps: int | None = None,
    limit: str | None = None,
    log_file: Name | None = None,
    metrics: str | None = None,
    encrypt: bool = True,
    sync: bool = True,
    dry_run: bool = False,
    verify: bool = False,
    manifest: Name | None = None,
    filters: Sequence[Rule] = (),
    files_from: Name | None = None,
    from0: bool = False,
    existing: bool = False,
    ignore_existing: bool = False,
    update: bool = False,
    size_only: bool = False,
    ignore_times: bool = False,
    checksum: bool = False,
    one_file_system: bool = False,
    copy_links: bool = False,
    copy_unsafe_links: bool = False,
    safe_links: bool = False,
    delete: bool = False,
    delete_excluded: bool = False,
    max_delete: int | None = None,
    keep: Sequence[str] = (),
    listen: bool = True,
    fairness: float | None = None,
    pilot: Pilot | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    far_howdah: str | None = None,
    bring: bool = False,
    ports: tuple[int, int] | None = None,
    patience_s: float = PATIENCE_S,
    archive: Archive | None = None,
) -> Record:
    """Copies files and folders to or from another host, as ``howdah cp`` does, and returns the record.

    One of ``src`` and ``dst`` is remote, or both: then the data goes from one host to the other. The far end
    is started over the user's ssh; the far host has howdah, or is brought it with ``bring``. The record is in
    the archive when this returns; that of a dry run is not kept. An archive that cannot be written fails no
    copy: the logger ``howdah`` says so, before the first byte if it is known by then.

    Args:
        src: what to copy, at a far host also by a pattern, as ``dtn2:run*``; several, or a ``Memory``, which
            measures the path without a disk; ``"-"`` is this process's standard input (docs/pipes.md).
        dst: where to, as for ``cp -r``: with a trailing slash a folder, made if missing (Memory: ``HOST:``);
            ``"-"`` is this process's standard output.
        plan: carried out as it is, or a file that holds one; by default it is made for this path and copy.
        path: who else may be on the path; ``dedicated`` plans by what was measured there.
        traffic_class: whose share of a guaranteed path the copy asks for.
        streams: TCP connections, in place of the plan's.
        congestion_control: as Linux or howdah names it, in place of the plan's.
        buffer_bytes: socket buffers of each stream, in place of the plan's.
        pacing_bps: the most that each stream sends, bits per second, in place of the plan's.
        limit: the most that all streams send together, as ``--limit`` takes it: ``"100Mbit"``, by the hour of
            the day ``"100Mbit 08:00-18:00, 1Gbit"``, or ``"none"``; by default what ``config.toml`` has.
        log_file: a file that lines on what is done are appended to (docs/jobs.md).
        metrics: a file for Prometheus metrics of the copy while it runs, or a port of this host's loopback.
        encrypt: encrypted data streams; without it the data is plaintext with checksums.
        sync: all is on stable storage when this returns; without it a power cut can take finished files.
        dry_run: makes the plan and lists all that would be made, replaced or removed; copies nothing.
        verify: reads each file that was sent again from the target's disk and compares it. What was there
            already is not read again; ``record.verification.skipped`` counts it.
        manifest: a new file for the digests of what was moved; its name says which, as ``run42.sha256``. It
            is not written where nothing was moved.
        filters: what of the sources is copied, by rsync's rules in their order: ``["- *.o", "+ /keep/"]``, or
            an option and its value: ``("exclude-from", "FILE")`` (docs/leave-out.md).
        files_from: a file of names; of the only source, a folder, nothing else is copied (docs/leave-out.md).
        from0: names and rules in files are set apart by NUL bytes in place of lines.
        existing: what is not at the target is skipped: no name is made there (docs/skip.md).
        ignore_existing: what is at the target is skipped, whatever it is.
        update: a file that is newer at the target is skipped.
        size_only: a file of the same size at the target is skipped, whatever its time.
        ignore_times: no file is skipped for its size and time.
        checksum: a file is skipped for the same content, by digests made at both ends, whatever its time.
        one_file_system: folders of another file system than that of their source stay empty (docs/links.md).
        copy_links: links are copied as what they lead to.
        copy_unsafe_links: so are those that lead out of what is copied.
        safe_links: links that lead out of what is copied are left out.
        delete: removes at the target what is not in the folders that are copied (docs/delete.md).
        delete_excluded: so it does, also of what the filters leave out.
        max_delete: where there is more to remove than so many files, folders and links, nothing is.
        keep: what is kept of files, or not: ``["archive", "xattrs", "no_perms"]`` (docs/keep.md).
        listen: on a shared path, measures round trips and changes the streams beside others.
        fairness: what that aims at: 0, the copy's own rate; 1, what others lose; by default 0.5.
        pilot: changes the streams in its place: called every 0.1 s, it answers with a ``Steering`` or None.
        on_progress: called every 0.1 s in the thread of this call; what it raises ends the copy.
        far_howdah: the program at the far host where it is not in its PATH.
        bring: a far end is brought to a host that has no howdah, or one of another protocol, and kept there.
        ports: the first and the last port of which the far end opens one for the data; by default what
            ``~/.config/howdah/config.toml`` has for the host, else any.
        patience_s: how long to try again when the path or the far host is gone, 0 to 86,400 s.
        archive: where the record is kept; by default the user's.

    Raises:
        HowdahError: one line that says what was wrong, where, and what to do; it may name options
            of ``howdah cp``. ``error.record`` is the record of a copy that failed on its way or left
            something out, and None where the request itself cannot be. Complete files stay where they are.
        KeyboardInterrupt: as anywhere; the copy has been stopped at both ends, and its record is kept.

    >>> record = howdah.copy("run42/", "dtn2:archive/")
    >>> assert record.outcome.files + record.outcome.files_skipped == 3
    >>> print(f"{record.outcome.bytes:,} bytes by {record.plan.in_short()}")

    >>> measured = howdah.copy(howdah.Memory(for_s=1.0), "dtn2:", congestion_control="cubic", streams=2)
    >>> assert len(measured.outcome.streams) == 2
    """
    given = dict(locals())
    if isinstance(src, Memory):
        names, memory = [_word(dst)], _plain_memory(src)
    else:
        names, memory = [*map(_word, _several(src)), _word(dst)], None
    request = copy_request(
        names,
        ["howdah.copy", *names],
        memory=memory,
        listen=listen and pilot is None,
        agree=(lambda _: True) if bring else None,
        **{name: value for name, value in given.items() if name not in _ON_THEIR_OWN},
    )
    return carry_out(request._replace(pilot=pilot), _Progress(on_progress), archive)


@typed
def plan_for(
    src: Name | Sequence[Name],
    dst: Name | None = None,
    *,
    size_bytes: int | None = None,
    path: PathKind = "shared",
    traffic_class: str | None = None,
    encrypt: bool = True,
    far_howdah: str | None = None,
) -> Plan:
    """The plan that ``copy`` would carry out, with its reasons; nothing is copied and nothing is recorded.

    ``src`` and ``dst`` are those of the copy; without ``dst``, ``src`` is a host to send ``size_bytes`` to
    (None: so many that they do not matter). The far host is asked over ssh for its limits and the round trip.
    On a guaranteed path the share is looked at and not asked for. The other arguments, and the errors, are
    those of ``copy``.

    >>> plan = howdah.plan_for("dtn2", size_bytes=10**9)
    >>> print(plan.in_words())
    >>> record = howdah.copy("run42/", "dtn2:archive/", plan=plan)
    >>> assert record.plan == plan
    """
    check_one_of("path", path, get_args(PathKind), "a kind of path")
    _check_size(size_bytes)
    if dst is None:
        (host,) = map(_word, _several(src))
        place = parse(f"{host}:")
        if place.host is None:
            raise HowdahError(f"{host} is not a host; write [user@]host, or give a source and a destination")
        to = Route("push", place.host, [], b"", False)
        memory_s = math.inf if size_bytes is None else None
        request = Request([], to, memory_bytes=size_bytes, memory_s=memory_s, encrypt=encrypt, path=path)
        request = request._replace(traffic_class=traffic_class, dry_run=True)
    else:
        names = [*map(_word, _several(src)), _word(dst)]
        request = copy_request(
            names, [], path=path, traffic_class=traffic_class, encrypt=encrypt, dry_run=True
        )
    if request.route.origin is not None:
        raise HowdahError(
            "the plan of a copy between two far hosts is made when they are connected; "
            "copy with dry_run=True, and read it from the record"
        )
    return plan_only(request, greet(request.route.host, far_howdah))


def copy_request(
    names: Sequence[str],
    command: list[str],
    *,
    memory: Memory | None = None,
    plan: Plan | Name | None = None,
    path: PathKind = "shared",
    traffic_class: str | None = None,
    streams: int | None = None,
    congestion_control: str | None = None,
    buffer_bytes: int | None = None,
    pacing_bps: int | None = None,
    limit: str | None = None,
    log_file: Name | None = None,
    metrics: str | None = None,
    encrypt: bool = True,
    sync: bool = True,
    dry_run: bool = False,
    verify: bool = False,
    manifest: Name | None = None,
    filters: Sequence[Rule] = (),
    files_from: Name | None = None,
    from0: bool = False,
    existing: bool = False,
    ignore_existing: bool = False,
    update: bool = False,
    size_only: bool = False,
    ignore_times: bool = False,
    checksum: bool = False,
    one_file_system: bool = False,
    copy_links: bool = False,
    copy_unsafe_links: bool = False,
    safe_links: bool = False,
    delete: bool = False,
    delete_excluded: bool = False,
    max_delete: int | None = None,
    keep: Sequence[str] = (),
    listen: bool = True,
    fairness: float | None = None,
    far_howdah: str | None = None,
    agree: Agree | None = None,
    ports: tuple[int, int] | None = None,
    patience_s: float = PATIENCE_S,
    before_s: float = 0.0,
) -> Request:
    """What ``copy`` is asked for, checked; ``command`` and ``before_s`` (seconds) are for the record.

    Raises HowdahError for what cannot be.
    """
    if memory is not None:
        _check_memory(memory)
    again = verify or manifest is not None
    if again and (memory is not None or dry_run):
        what = "{memory} moves no files" if memory is not None else "{dry_run} copies nothing"
        raise BadArgument(f"{what}, so there is nothing for {'{verify}' if verify else '{manifest}'}")
    if (filters or files_from is not None) and memory is not None:
        raise BadArgument(
            "{memory} moves no files, so filters and lists of names mean nothing; leave them out"
        )
    if keep and memory is not None:
        raise BadArgument("{memory} moves no files, so there is nothing to keep; leave that out")
    check_one_of("path", path, get_args(PathKind), "a kind of path")
    way = route(list(names), memory=memory is not None)
    if way.origin is not None and path != "shared":
        raise BadArgument(
            "{path} is for copies from or to this host, and this copy is between two far hosts; leave it out",
            path=path,
        )
    removes = made_delete(delete or delete_excluded, delete_excluded, max_delete)
    if removes is not None:
        check_delete(way, memory is not None, files_from is not None)
    if files_from is not None:
        if len(way.sources) != 1:
            raise BadArgument("{files_from} takes one source: the folder that its names are relative to")
        # The names are those of what is in the folder, whether it is written with a slash or without.
        way = way._replace(sources=[way.sources[0] + b"/."])
    check_within(
        "patience_s", patience_s, _PATIENCE_S, mend=f"leave it out for {format_duration(PATIENCE_S)}"
    )
    if ports is not None and not 0 < ports[0] <= ports[1] <= PORT_MAX:
        raise BadArgument(
            f"{{ports}} is no range of ports, which are 1 to {PORT_MAX}; leave it out for any port",
            ports=ports,
        )
    aims = _fairness(
        fairness,
        path=None if path == "shared" else path,
        listen=None if listen else False,
        congestion_control=congestion_control,
        plan=plan,
    )
    asked = Request(
        command=printable_command(command),
        route=way,
        memory_bytes=memory.size_bytes if memory else None,
        memory_s=memory.for_s if memory else None,
        dry_run=dry_run,
        verify=verify,
        walk=made_walk(
            one_file_system=one_file_system,
            copy_links=copy_links,
            copy_unsafe_links=copy_unsafe_links,
            safe_links=safe_links,
            files=memory is None,
        ),
        skip=made_skip(
            existing=existing,
            ignore_existing=ignore_existing,
            update=update,
            size_only=size_only,
            ignore_times=ignore_times,
            checksum=checksum,
            files=memory is None,
        ),
        delete=removes,
        manifest=None if manifest is None else Path(manifest),
        filters=read_filters(filters, nul_separated=from0) if filters else (),
        keep=read_keep(keep) if keep else Keep(),
        names=None if files_from is None else listed(files_from, nul_separated=from0),
        encrypt=encrypt,
        sync=sync,
        path=path,
        traffic_class=traffic_class,
        plan=plan if isinstance(plan, Plan) else None,
        plan_file=None if plan is None or isinstance(plan, Plan) else Path(plan),
        log_file=None if log_file is None else Path(log_file),
        metrics=metrics,
        limits=None if limit is None else Limits.parse(limit),
        given=tuple(_given(streams, congestion_control, buffer_bytes, pacing_bps)),
        fairness=aims,
        far_howdah=far_howdah,
        agree=agree,
        ports=ports,
        patience_s=patience_s,
        before_s=before_s,
    )
    if way.pipe:
        check_pipe(asked)
    return asked


def carry_out(request: Request, display: Display, archive: Archive | None = None) -> Record:
    """Carries a request out, shown by ``display``; returns and raises as ``copy`` does.

    A signal whose handler ``howdah.interrupt`` was told to install raises ``Interrupted``, with the record.
    """
    done = run(request, display, archive or Archive())
    unkept = done.archive_error
    if unkept is not None and done.record.error is None:
        # The files are where they belong, and that is what was asked for.
        display.far_says(f"howdah: warning: {unkept}\n")
        unkept = None
    return record_of(done.record, done.record.error, unkept, done.stopped)


class _Progress(Quiet):
    """A display that hands progress to the caller and what the far end writes to the log."""

    def __init__(self, on_progress: Callable[[Progress], None] | None) -> None:
        super().__init__()
        self._on_progress = on_progress

    def progress(self, now: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(now)

    def far_says(self, text: str) -> None:
        log(text)


def _several(src: Name | Sequence[Name]) -> Sequence[Name]:
    return [src] if isinstance(src, str | os.PathLike) else src


def _word(name: Name) -> str:
    """The name as the command line would give it: a colon in a path object names no host."""
    if isinstance(name, str):
        return name
    text = os.fspath(name)
    return f"./{text}" if ":" in text.partition("/")[0] else text


def _plain_memory(memory: Memory) -> Memory:
    """The same with Python's own numbers."""
    kinds = get_type_hints(Memory)
    return Memory(**{name: plain(value, kinds[name]) for name, value in memory._asdict().items()})


def _check_memory(memory: Memory) -> None:
    """Raises HowdahError unless it is a size or a time, and TypeError for what is no number."""
    check_types("Memory", get_type_hints(Memory), memory._asdict())
    if (memory.size_bytes is None) == (memory.for_s is None):
        raise HowdahError("give Memory a size or a time: Memory(size_bytes=10**10), or Memory(for_s=10)")
    _check_size(memory.size_bytes)
    check_within("for_s", memory.for_s, _MEMORY_S, mend="give for example 10 s")


def _check_size(size_bytes: int | None) -> None:
    """Raises HowdahError for what no number of bytes can be."""
    check_within("size_bytes", size_bytes, Bounds(0), mend="give for example 10**10")


def _fairness(fairness: float | None, **against: object) -> float | None:
    """The knob; None: the copy does not listen. Raises BadArgument where it would change nothing."""
    given = {name: value for name, value in against.items() if value is not None}
    if fairness is None:
        return None if given else FAIRNESS
    for name, value in given.items():
        raise BadArgument(
            f"{{fairness}} changes nothing with {{{name}}}; leave one of them out",
            **{"fairness": fairness, name: value},
        )
    check_within("fairness", fairness, Bounds(0, 1), mend=f"leave it out for {FAIRNESS:g}")
    return fairness


def _given(
    streams: int | None, control: str | None, buffer_bytes: int | None, pacing_bps: int | None
) -> list[Given]:
    """The choices of the plan that the caller made, in the order in which the plan tells them.

    Raises HowdahError for one that is out of its range, which needs no far host to tell.
    """
    given = []
    if streams is not None:
        check_within("streams", streams, Bounds(1, STREAMS_MAX), mend="leave it out to take the plan's")
        given.append(Given("streams", streams, "--streams", f"Streams: {streams}"))
    if control is not None:
        given.append(Given("congestion_control", control, "--cc", f"Congestion control {control}"))
    if buffer_bytes is not None:
        check_within("buffer_bytes", buffer_bytes, _BUFFER_BYTES, mend="leave it out for autotuning")
        words = f"Buffers of {format_bytes(buffer_bytes)}"
        given.append(Given("buffer_bytes", buffer_bytes, "--buffer", words))
    if pacing_bps is not None:
        check_within("pacing_bps", pacing_bps, _PACING_BPS, mend="leave it out for no bound")
        words = f"At most {format_rate(pacing_bps)} a stream"
        given.append(Given("pacing_bps", pacing_bps, "--pace", words))
    return given
