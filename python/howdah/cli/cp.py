"""The table of ``howdah cp``, and what is done before anything else is loaded: ssh is started.

A copy waits for ssh before its first byte, so whatever it can load while ssh connects costs nothing.
"""

import gc
import os

from howdah.cli.table import FAR_HOWDAH, PORTS, QUIET, Argument, Command, Option, as_json, path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def start(**given: "Any") -> int:  # noqa: ANN401
    """Starts ssh, and then copies what ``howdah.cli.copy_command.copy`` is given. Returns the exit code."""
    from howdah import interrupt  # noqa: PLC0415
    from howdah.remote import standby  # noqa: PLC0415

    interrupt.install()
    use_ssh(given.pop("rsh"))
    try:
        # A share is asked for before ssh connects, which may be held to it.
        if given["traffic_class"] is None:
            standby.begin(
                given["names"],
                given["far_howdah"],
                memory=given["memory"] is not None,
                patience_s=lambda: patience_of(given["patience"]),
                ports=lambda: ports_of(given["ports"]),
            )
        gc.enable()
        # A C extension whose loading is broken off crashes when Python ends.
        with interrupt.Held():
            from howdah.cli import copy_command  # noqa: PLC0415
            from howdah.guarded import guarded  # noqa: PLC0415

        return guarded(lambda: copy_command.copy(**given))
    finally:
        standby.drop()


def use_ssh(command: str | None) -> None:
    """Has ``command``, as ``-e`` says it, start what goes over ssh. Raises HowdahError for another shell."""
    if command is None:
        return
    program = command.split(" ")[0].rpartition("/")[2]
    if "ssh" not in program:
        from howdah import HowdahError  # noqa: PLC0415

        raise HowdahError(
            f"-e {command}: howdah goes over ssh; give it with its options, as -e 'ssh -p 2222 -J jump'"
        )
    os.environ["HOWDAH_SSH"] = command


def patience_of(text: str | None) -> float:
    """The seconds that ``--patience`` says. Raises HowdahError for what is no time."""
    from howdah import HowdahError  # noqa: PLC0415
    from howdah._native import parse_duration  # noqa: PLC0415
    from howdah.remote.ssh import PATIENCE_S  # noqa: PLC0415

    if text is None or text == "0":
        return PATIENCE_S if text is None else 0.0
    try:
        return parse_duration(text) / 1e9
    except HowdahError:
        raise HowdahError(f"--patience {text} is no time; give for example --patience 5min, or 0") from None


def ports_of(text: str | None) -> "tuple[int, int] | None":
    """The range that ``--ports`` says. Raises HowdahError for what is none."""
    from howdah import HowdahError  # noqa: PLC0415
    from howdah.ports import parse  # noqa: PLC0415

    try:
        return None if text is None else parse(text)
    except ValueError:
        raise HowdahError(
            f"--ports {text} is no range of ports; give for example --ports 50000-50100"
        ) from None


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
                    "One side, or both, is [user@]host:path; - is a pipe.",
                    key="names",
                    many=True,
                ),
                Option(
                    "--memory SIZE|TIME",
                    "Send so much, or for so long, from memory to memory; DST is HOST:",
                    rare=True,
                ),
                Option("--verify", "Read each file again from the target's disk, and compare it."),
                Option(
                    "--manifest FILE",
                    "List what was moved with digests, of the kind that FILE ends in, as x.sha256.",
                    rare=True,
                ),
                Option("-n, --dry-run", "Print the plan and what would be done; do nothing."),
            ],
            "What is left out": [
                _filter("--exclude PATTERN", "Leave out what matches, as rsync does: '*.o'.", rare=False),
                _filter("--include PATTERN", "Copy what matches, if no option before leaves it out."),
                _filter("--exclude-from FILE", "A file of patterns to leave out; - is standard input."),
                _filter("--include-from FILE", "A file of patterns to copy; - is standard input."),
                _filter("-f, --filter RULE", "A rule of rsync's, as '- *.o', '. FILE' or ': .rsync-filter'."),
                Option(
                    "-F",
                    "Read rules from the .rsync-filter of each folder; a second -F leaves these files out.",
                    key="filters",
                    many=True,
                    kind=lambda _: ("F", ""),
                    rare=True,
                ),
                Option(
                    "--files-from FILE",
                    "Copy what FILE names in SRC and nothing else; - is standard input.",
                    rare=True,
                ),
                Option(
                    "-0, --from0",
                    "Names and rules in files are set apart by NUL bytes, as by find -print0.",
                    rare=True,
                ),
            ],
            "What is skipped": [
                Option("--existing", "Send only what is at the target already.", rare=True),
                Option("--ignore-existing", "Send only what is not at the target.", rare=True),
                Option("-u, --update", "Send no file that is newer at the target.", rare=True),
                Option("--size-only", "Send no file of the same size, whatever its time.", rare=True),
                Option("-I, --ignore-times", "Send files of the same size and time too.", rare=True),
                Option(
                    "-c, --checksum",
                    "Send no file of the same content, which both ends read, whatever its time.",
                    rare=True,
                ),
            ],
            "Links and other file systems": [
                Option("-L, --copy-links", "Links are copied as what they lead to.", rare=True),
                Option(
                    "--copy-unsafe-links",
                    "So are links that lead out of what is copied; the others stay links.",
                    rare=True,
                ),
                Option("--safe-links", "Links that lead out of what is copied are left out.", rare=True),
                Option(
                    "-x, --one-file-system",
                    "Folders of another file system than their source's stay empty.",
                    rare=True,
                ),
            ],
            "What is removed at the target": [
                Option("--delete", "Remove there what is not in the folders that are copied.", rare=True),
                Option("--delete-excluded", "So too what is left out.", rare=True),
                Option(
                    "--max-delete N",
                    "Remove nothing where it would be more than so many.",
                    kind=int,
                    rare=True,
                ),
            ],
            "What is kept": [
                _keep(
                    "-a, --archive",
                    "The same as -ogD; with SRC/. DST itself becomes as SRC is. All else is kept anyway.",
                ),
                _keep("-o, --owner", "Files keep their users, where the receiver is root."),
                _keep("-g, --group", "Files keep their groups, where the receiver is root or in the group."),
                _keep("--numeric-ids", "Users and groups are told by number, not by name."),
                _keep("-D", "The same as --devices --specials."),
                _keep("--devices", "Devices are made, where the receiver is root."),
                _keep("--specials", "FIFOs and sockets are made."),
                _keep("-H, --hard-links", "Names of one file stay names of one file."),
                _keep("-S, --sparse", "Runs of zeros become holes."),
                _keep("-A, --acls", "Access lists are kept."),
                _keep(
                    "-X, --xattrs",
                    "Extended attributes and flags of chattr are kept; root's where the receiver is root.",
                ),
                _keep("--no-o, --no-owner", "Users are not kept, as behind -a."),
                _keep("--no-g, --no-group", "Groups are not kept."),
                _keep("--no-D", "Devices, FIFOs and sockets are left out."),
                _keep("--no-devices", "Devices are left out."),
                _keep("--no-specials", "FIFOs and sockets are left out."),
                _keep("-p, --perms", "Modes are kept, as they are without it; it takes back --no-perms."),
                _keep(
                    "--no-p, --no-perms", "Files keep the modes that they have; new ones are as umask says."
                ),
                _keep("-t, --times", "Times are kept, as they are without it; it takes back --no-times."),
                _keep("--no-t, --no-times", "Times of modification are those of the copy."),
                _keep("-O, --omit-dir-times", "Times of folders are those of the copy."),
            ],
            "Who else is on the path": [
                Option("--path KIND", "The kind of path: shared, dedicated or guaranteed. Default: shared."),
                Option(
                    "--class NAME",
                    "Whose share of a guaranteed path it asks for.",
                    key="traffic_class",
                    rare=True,
                ),
                Option(
                    "--fairness 0..1",
                    "On a shared path, what counts: 0, its own rate; 1, what others lose. Default: 0.5.",
                    rare=True,
                ),
                Option("--no-listen", "Listen to nobody on a shared path, and change nothing.", rare=True),
            ],
            "How it is sent": [
                Option(
                    "-e, --rsh COMMAND",
                    "The ssh to use, with its options, as 'ssh -p 2222 -J jump'. Default: ssh.",
                ),
                Option("--streams N", "How many TCP connections.", rare=True),
                Option("--cc NAME", "The congestion control.", rare=True),
                Option("--buffer SIZE", "The socket buffers of each stream.", rare=True),
                Option("--pace RATE", "The most that each stream sends.", rare=True),
                Option(
                    "--limit RATE",
                    "The most that all streams send together; by the hour too: '100Mbit 08:00-18:00'.",
                    rare=True,
                ),
                Option("--plan FILE", "A plan, or a record whose plan is used again.", rare=True),
                Option("--plaintext", "Do not encrypt the data: for a fibre you own.", rare=True),
                Option(
                    "--no-sync",
                    "Do not wait for stable storage: for scratch, which a power cut may take.",
                    rare=True,
                ),
                FAR_HOWDAH,
                Option("--bring", "Bring a far end to a host without howdah, and do not ask whether to."),
                PORTS,
                Option(
                    "--patience TIME",
                    "How long to try again when the path or the far host is gone. Default: 5min.",
                    rare=True,
                ),
            ],
            "Output": [
                as_json("Print the record, and nothing else; its error is null when all went well."),
                QUIET,
                Option(
                    "--log-file FILE",
                    "Append what is done to FILE, a line each with its time.",
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
howdah cp run42/. dtn2:/archive/42/                        what is in run42 into /archive/42, made if missing
howdah cp me@dtn2:a.h5 me@dtn2:b.h5 .                      two files from there to here
howdah cp 'dtn2:run*/x?.dat' .                             what matches there
howdah cp dtn1:run42/ dtn2:/archive/                       straight from dtn1 to dtn2
howdah cp 'me@[2001:db8::7]:/d' /data                      an IPv6 address
howdah cp --memory 10s dtn2:                               memory to memory: what the path carries, no disk
pg_dump db | howdah cp - dtn2:/backup/db.sql               what a pipe gives, as a file there (docs/pipes.md)
howdah cp dtn2:/backup/db.sql - | psql db                  and a file there into a pipe
howdah cp --path dedicated big dtn2:/d                     by what was measured on this path (howdah sweep)
howdah cp --path guaranteed --class images run42/ dtn2:/d  at the share that its controller gives images
howdah cp --verify run42/ dtn2:/d                          and read it again there, from the disk
howdah cp --manifest 42.sha256 run42/ dtn2:/d              and list the SHA-256 of each file, for a catalogue
howdah cp --exclude '*.o' run42/ dtn2:/d                    all but object files
howdah cp --delete run42/. dtn2:/d/run42/                  and nothing there that is not in run42
howdah cp --dry-run run42/ dtn2:/d                         the plan, its reasons, and what would be copied""",
        notes="""\
Options of rsync and scp mean what they mean there, or a line says what to write: howdah help rsync.

What is at the destination already with the same size and time is skipped. A file appears under its name when
it is whole. Of the options that leave something out the first that matches a name counts (docs/leave-out.md).
The controller of a guaranteed path is at HOWDAH_CONTROL (docs/control.md). The far end is started over ssh.
A host without howdah is brought one, which asks first on a terminal.""",
    ),
)
