"""The table of ``howdah cp``, and what is done before anything else is loaded: ssh is started.

A copy waits for ssh before its first byte, so whatever it can load while ssh connects costs nothing.
"""

import gc
import os
import sys

from howdah._native import HowdahError
from howdah.cli.table import (
    FAR_HOWDAH,
    PORTS,
    QUIET,
    Argument,
    Command,
    Option,
    WrongLine,
    as_json,
    duration,
    path,
    rate,
    share,
    size,
    with_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOADED = ("pathlib", "threading", "shlex", "msgspec")
"""What every copy loads, the smallest first."""
_SLOW = "typing_extensions"
"""Where this is installed, msgspec would load it, and with it inspect, ast and dis."""


def start(**given: "Any") -> int:  # noqa: ANN401
    """Starts ssh, and then copies what ``howdah.cli.copy_command.copy`` is given. Returns the exit code."""
    from howdah import interrupt  # noqa: PLC0415
    from howdah.remote import ssh, standby  # noqa: PLC0415

    interrupt.install()
    if given["memory"] is None and len(given["names"]) < 2:
        raise WrongLine("a copy needs a source and a destination; write: howdah cp SRC… DST")
    use_ssh(given.pop("rsh"))
    # While it is None, msgspec takes the same from typing, in 10 ms less.
    loaded = _SLOW in sys.modules
    sys.modules.setdefault(_SLOW, None)  # type: ignore[arg-type]
    try:
        # A share is asked for before ssh connects, which may be held to it.
        if given["traffic_class"] is None:
            standby.begin(
                given["names"],
                given["far_howdah"],
                memory=given["memory"] is not None,
                patience_s=ssh.PATIENCE_S if given["patience"] is None else given["patience"].value,
                ports=given["ports"],
                modules=_LOADED,
                encrypt=not given["plaintext"],
                bounded=given["limit"] is not None or given["pace"] is not None,
            )
        gc.enable()
        # A C extension whose loading is broken off crashes when Python ends.
        with interrupt.Held():
            from howdah.cli import copy_command  # noqa: PLC0415
            from howdah.guarded import guarded  # noqa: PLC0415

        if not loaded:
            del sys.modules[_SLOW]
        return guarded(lambda: copy_command.copy(**given))
    finally:
        standby.drop()


def use_ssh(command: str | None) -> None:
    """Has ``command``, as ``-e`` says it, start what goes over ssh. Raises HowdahError for another shell."""
    if command is None:
        return
    program = command.split(" ")[0].rpartition("/")[2]
    if "ssh" not in program:
        raise HowdahError(
            f"-e {command} is not ssh, which howdah needs; give for example -e 'ssh -p 2222 -J jump'"
        )
    os.environ["HOWDAH_SSH"] = command


def _memory(text: str) -> "dict[str, Any]":
    """The size, or the seconds, as the arguments of ``Memory``. Raises HowdahError for what is neither."""
    for name, kind in (("size_bytes", size), ("for_s", duration)):
        try:
            return {name: kind(text)}
        except HowdahError:
            continue
    raise HowdahError(f"{text} is neither a size, as 10GiB, nor a time, as 10s")


def _patience(text: str) -> float:
    """The seconds. Raises HowdahError for what is no time."""
    try:
        return 0.0 if text == "0" else duration(text)
    except HowdahError:
        raise HowdahError(f"{text} is not a time; give for example 5min, or 0") from None


def _fairness(text: str) -> float:
    """The number, also one that is out of range. Raises ValueError for what is none."""
    try:
        return share(text)
    except HowdahError:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _limit(text: str) -> str:
    """The text. Raises HowdahError for what is no limit, however low."""
    from howdah.values.limit import Limits  # noqa: PLC0415, of the few copies that have one

    Limits.parse(text, "", least_bps=0)
    return text


def _filter(names: str, text: str, *, rare: bool = True) -> Option:
    """An option of which the order among its like counts."""
    by = names.split()[-2].lstrip("-")
    return Option(names, text, key="filters", many=True, kind=lambda value: (by, value), rare=rare)


def _keep(names: str, text: str) -> Option:
    """An option that says what is kept of files; the last that says it counts."""
    word = names.rsplit(maxsplit=1)[-1].lstrip("-").replace("-", "_")
    return Option(names, text, key="keep", many=True, kind=lambda _: word, rare=True)


COMMANDS = (
    Command(
        "cp",
        "Copy files and folders to or from another host, or from one to another.",
        run="cp.start",
        spelt=True,
        rows={
            "What is copied": [
                Argument(
                    "SRC... DST",
                    "A far name is [user@]host:path; - is a pipe.",
                    key="names",
                    many=True,
                ),
                Option(
                    "--memory SIZE|TIME",
                    "Send SIZE, or for TIME, from memory to memory, and no files. DST is HOST:",
                    kind=with_text(_memory),
                    rare=True,
                    sets=["memory", "size_bytes", "for_s"],
                ),
                Option("--verify", "At the end, read from the target's disk what was sent, and compare it."),
                Option(
                    "--manifest FILE",
                    "List the copied files with their digests. FILE's ending names the kind, as x.sha256.",
                    rare=True,
                ),
                Option(
                    "-n, --dry-run",
                    "Print the plan and all that would be made, replaced or removed; do nothing.",
                ),
            ],
            "What is left out": [
                _filter("--exclude PATTERN", "Leave out names that match, as in rsync: '*.o'.", rare=False),
                _filter(
                    "--include PATTERN", "Copy names that match, unless an earlier option leaves them out."
                ),
                _filter("--exclude-from FILE", "A file of patterns to leave out; - is standard input."),
                _filter("--include-from FILE", "A file of patterns to copy; - is standard input."),
                _filter(
                    "-f, --filter RULE", "A filter rule of rsync, as '- *.o', '. FILE' or ': .rsync-filter'."
                ),
                Option(
                    "-F",
                    "Read rules from .rsync-filter in each folder. A second -F leaves these files out.",
                    key="filters",
                    many=True,
                    kind=lambda _: ("F", ""),
                    rare=True,
                ),
                Option(
                    "--files-from FILE",
                    "Copy only the names that FILE lists, relative to SRC; - is standard input.",
                    rare=True,
                ),
                Option(
                    "-0, --from0",
                    "NUL bytes end the names and rules in files, as in find -print0.",
                    rare=True,
                ),
            ],
            "What is skipped": [
                Option("--existing", "Send only files that exist at the target.", rare=True),
                Option("--ignore-existing", "Send only files that do not exist at the target.", rare=True),
                Option("-u, --update", "Skip files that are newer at the target.", rare=True),
                Option("--size-only", "Skip files of the same size, whatever their time.", rare=True),
                Option("-I, --ignore-times", "Also send files of the same size and time.", rare=True),
                Option(
                    "-c, --checksum",
                    "Skip files of the same content, whatever their time. Both ends read them.",
                    rare=True,
                ),
            ],
            "Links and other file systems": [
                Option("-L, --copy-links", "Copy what links lead to, in place of the links.", rare=True),
                Option(
                    "--copy-unsafe-links",
                    "The same, only for links that lead out of what is copied. Others stay links.",
                    rare=True,
                ),
                Option("--safe-links", "Leave out links that lead out of what is copied.", rare=True),
                Option(
                    "-x, --one-file-system",
                    "Copy folders on another file system than SRC as empty folders.",
                    rare=True,
                ),
            ],
            "What is removed at the target": [
                Option(
                    "--delete", "Remove from the copied folders what the source does not have.", rare=True
                ),
                Option(
                    "--delete-excluded", "With --delete, also remove what the filters leave out.", rare=True
                ),
                Option(
                    "--max-delete N",
                    "Remove nothing if there is more than N to remove.",
                    kind=int,
                    rare=True,
                ),
            ],
            "What is kept": [
                _keep(
                    "-a, --archive",
                    "The same as -ogD. With SRC/., DST itself also gets SRC's mode, time and owner.",
                ),
                _keep("-o, --owner", "Keep the users of files, if the receiver is root."),
                _keep("-g, --group", "Keep the groups of files, if the receiver is root or in the group."),
                _keep("--numeric-ids", "Match users and groups by number, not by name."),
                _keep("-D", "The same as --devices --specials."),
                _keep("--devices", "Keep devices, if the receiver is root."),
                _keep("--specials", "Keep FIFOs and sockets."),
                _keep("-H, --hard-links", "Keep hard links: names of one file stay names of one file."),
                _keep("-S, --sparse", "Make holes of runs of zeros."),
                _keep("-A, --acls", "Keep access lists."),
                _keep(
                    "-X, --xattrs",
                    "Keep extended attributes and flags of chattr; root's own only if the receiver is root.",
                ),
                _keep("--no-o, --no-owner", "Do not keep users, for example after -a."),
                _keep("--no-g, --no-group", "Do not keep groups."),
                _keep("--no-D", "Leave out devices, FIFOs and sockets."),
                _keep("--no-devices", "Leave out devices."),
                _keep("--no-specials", "Leave out FIFOs and sockets."),
                _keep("-p, --perms", "Keep modes, which is the default; cancels --no-perms."),
                _keep(
                    "--no-p, --no-perms", "Leave modes at the target as they are; new files follow the umask."
                ),
                _keep("-t, --times", "Keep modification times, which is the default; cancels --no-times."),
                _keep("--no-t, --no-times", "Give files the time of the copy."),
                _keep("-O, --omit-dir-times", "Give folders the time of the copy."),
            ],
            "The path and other traffic on it": [
                Option(
                    "--path KIND",
                    "The kind of path: shared, dedicated or guaranteed. Default: shared.",
                    choices=("shared", "dedicated", "guaranteed"),
                ),
                Option(
                    "--class NAME",
                    "On a guaranteed path, the class whose share the copy takes.",
                    key="traffic_class",
                    rare=True,
                ),
                Option(
                    "--fairness 0..1",
                    "On a shared path: 0 weighs only the copy's rate, 1 only fairness. Default: 0.5.",
                    kind=with_text(_fairness),
                    rare=True,
                ),
                Option(
                    "--no-listen",
                    "On a shared path, measure no competing traffic and keep to the plan.",
                    sets=["listen"],
                    rare=True,
                ),
            ],
            "How it is sent": [
                Option(
                    "-e, --rsh COMMAND",
                    "The ssh command with its options, as 'ssh -p 2222 -J jump'. Default: ssh.",
                ),
                Option("--streams N", "The number of TCP connections.", kind=int, rare=True),
                Option("--cc NAME", "The congestion control.", rare=True, sets=["congestion_control"]),
                Option(
                    "--buffer SIZE",
                    "The size of each stream's socket buffers.",
                    kind=with_text(size),
                    rare=True,
                    sets=["buffer_bytes"],
                ),
                Option(
                    "--pace RATE",
                    "The highest rate of each stream.",
                    kind=with_text(rate),
                    rare=True,
                    sets=["pacing_bps"],
                ),
                Option(
                    "--limit RATE",
                    "The highest rate of all streams together, also by the hour: '100Mbit 08:00-18:00'.",
                    kind=_limit,
                    rare=True,
                ),
                Option("--plan FILE", "A plan, or a record whose plan is used again.", rare=True),
                Option(
                    "--plaintext",
                    "Do not encrypt the data. Only for a fibre that you own.",
                    sets=["encrypt"],
                    rare=True,
                ),
                Option(
                    "--no-sync",
                    "Do not wait for stable storage. A power cut may then lose files.",
                    sets=["sync"],
                    rare=True,
                ),
                FAR_HOWDAH,
                Option("--bring", "If the far host has no howdah, bring it there without asking."),
                PORTS,
                Option(
                    "--patience TIME",
                    "How long to keep trying when the path or the far host fails, "
                    "a silent path at least 15s. Default: 5min.",
                    kind=with_text(_patience),
                    rare=True,
                    sets=["patience_s"],
                ),
            ],
            "Output": [
                as_json("Print only the record, as JSON. Its error is null after success."),
                QUIET,
                Option(
                    "--log-file FILE",
                    "Append a log of the copy to FILE, one line for each event.",
                    kind=path,
                    rare=True,
                ),
                Option(
                    "--metrics FILE|PORT",
                    "Keep Prometheus metrics of the copy in FILE, or serve them at 127.0.0.1:PORT.",
                    rare=True,
                ),
            ],
        },
        examples="""\
howdah cp run42/ dtn2:/archive/                            the folder run42 into /archive
howdah cp run42/. dtn2:/archive/42/                        the content of run42 into the folder /archive/42
howdah cp me@dtn2:a.h5 me@dtn2:b.h5 .                      two files from dtn2 to here
howdah cp 'dtn2:run*/x?.dat' .                             all names that match on dtn2
howdah cp dtn1:run42/ dtn2:/archive/                       straight from dtn1 to dtn2
howdah cp 'me@[2001:db8::7]:/d' /data                      an IPv6 address
howdah cp --memory 10s dtn2:                               memory to memory: measures the path without disks
pg_dump db | howdah cp - dtn2:/backup/db.sql               from a pipe into a file (docs/pipes.md)
howdah cp dtn2:/backup/db.sql - | psql db                  from a file into a pipe
howdah cp --path dedicated big dtn2:/d                     the best transport that howdah sweep measured
howdah cp --path guaranteed --class images run42/ dtn2:/d  at the share of the class images
howdah cp --verify run42/ dtn2:/d                          then compare what was sent with dtn2's disk
howdah cp --manifest 42.sha256 run42/ dtn2:/d              then list each file's SHA-256, for a catalogue
howdah cp --exclude '*.o' run42/ dtn2:/d                   all but object files
howdah cp --delete run42/. dtn2:/d/run42/                  then remove there what run42 does not have
howdah cp --dry-run run42/ dtn2:/d                         the plan, its reasons, and what would be copied""",
        notes="""\
Options of rsync and scp work as they do there, or an error says what to write: howdah help rsync.

Files that the destination has with the same size and time are skipped. A file appears under its name when it
is whole. Of the options that leave names out, the first that matches a name decides (docs/leave-out.md).
HOWDAH_CONTROL is the address of a guaranteed path's controller (docs/control.md). ssh starts howdah on the
far host. If it is missing there, the copy offers to bring it.""",
    ),
)
