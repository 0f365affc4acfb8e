"""What options of rsync and scp mean to ``howdah cp``: as people have them in their fingers.

``ROWS`` is the one table: a line is read by it, ``howdah help rsync`` prints it, and docs/rsync.md shows it.
An option is the same here, or done anyway, or done but for something that a note says; or it is refused with
a line that says what to write, because its effect would be missing. ssh waits for this, so nothing is loaded.
"""

import os

from howdah.cli.table import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from howdah.cli.table import Option

SAME, ANYWAY, NOTED, REFUSED = "the same", "done anyway", "with a note", "refused"

SEE = "howdah help rsync"
"""Where the table is."""


class Spelling:
    """An option of rsync or scp."""

    def __init__(self, names: str, means: str, text: str) -> None:
        words = names.replace(",", "").split()
        self.flags = tuple([word for word in words if word[0] == "-"])
        self.names = names
        self.takes = len(self.flags) < len(words)
        """Whether it has a value."""
        self.means = means
        """One of the four above."""
        self.text = text
        """What is done here, or what to write."""
        self.gives, self.turned = _READ_AS.get(names, _AS_ITSELF)
        """The option of ``howdah cp`` that it is read as, and what makes its value; null: there is none.

        What makes it answers null for what is no value.
        """


def _bwlimit(text: str) -> str | None:
    """What rsync's ``--bwlimit`` is as a rate: KiB/s, or with suffixes K and M of 1024, KB and MB of 1000."""
    text = text.upper().removesuffix("IB")
    digits = text.rstrip("BKMGT")
    suffix = text[len(digits) :] or "K"
    whole, _, part = digits.partition(".")
    thousand = 1000 if len(suffix) == 2 else 1024
    if (
        not f"{whole}{part}".isdigit()
        or not digits.isascii()
        or len(digits) > 99
        or suffix not in _BW_SUFFIXES
    ):
        return None
    bits = round(8 * float(digits) * thousand ** _BW_SUFFIXES.index(suffix[0]))
    return f"{bits}bit" if bits else "none"


_BW_SUFFIXES = ("B", "K", "M", "G", "T", "KB", "MB", "GB", "TB")


def _rows(means: str, table: str) -> "list[Spelling]":
    """The options that mean so here: a line has names and text, and goes on in indented ones."""
    lines = [line.split(": ", 1) for line in table.replace("\n    ", " ").split("\n")]
    return [Spelling(names, means, text) for names, text in lines]


_AS_ITSELF = (None, None)
_READ_AS: "Mapping[str, tuple[str | None, Callable[[str], str | None] | None]]" = {
    "--ignore-non-existing": ("--existing", None),
    "--delete-before, --delete-during, --del, --delete-delay, --delete-after": ("--delete", None),
    "--bwlimit RATE": ("--limit", _bwlimit),
}
"""The options of ``howdah cp`` that some are read as, with what makes the value."""

ROWS = (
    *_rows(
        SAME,
        """\
-n, --dry-run: prints the plan and all that would be made, replaced or removed
-e, --rsh COMMAND: the ssh command with its options, as 'ssh -p 2222 -J jump'
-q, --quiet: prints no progress and no summary
--log-file FILE: a line for each copied file and each event (docs/jobs.md)
--exclude PATTERN: leaves out names that match (docs/leave-out.md)
--include PATTERN: copies names that match, unless an earlier option leaves them out
--exclude-from FILE: leaves out names that match a pattern in FILE
--include-from FILE: copies names that match a pattern in FILE
-f, --filter RULE: a filter rule; rules for CVS and for absolute paths are refused
-F: rules from .rsync-filter in each folder, not above sources; for scp's -F FILE use -e 'ssh -F FILE'
--files-from FILE: copies only the names that FILE lists, relative to the only source
-0, --from0: NUL bytes end the names and rules in files
--existing: sends only files that exist at the target (docs/skip.md)
--ignore-existing: sends only files that do not exist at the target
-u, --update: skips files that are newer at the target
--size-only: skips files of the same size
-I, --ignore-times: also sends files of the same size and time
-c, --checksum: skips files of the same content; for scp's -c CIPHER write -e 'ssh -c CIPHER'
--delete: removes what the source does not have, when all files have arrived (docs/delete.md)
--delete-excluded: with --delete, also removes what the filters leave out
--max-delete N: removes nothing if there is more than N to remove; rsync removes the first N
-a, --archive: keeps owners, groups, devices and FIFOs, as far as the receiver can (docs/keep.md)
-o, --owner: keeps users, if the receiver is root; for scp's -o OPTION write -e 'ssh -o OPTION'
-g, --group: keeps groups, if the receiver is root or in the group
--numeric-ids: matches users and groups by number
-D: --devices --specials
--devices: keeps devices, if the receiver is root
--specials: keeps FIFOs and sockets
-H, --hard-links: keeps hard links: names of one file stay names of one file (docs/keep.md)
-S, --sparse: makes holes of runs of zeros; for scp's -S PROGRAM write -e PROGRAM
-A, --acls: keeps access lists
-X, --xattrs: keeps extended attributes and flags of chattr; root's own only if the receiver is root
--no-o, --no-owner: does not keep users, for example after -a
--no-g, --no-group: does not keep groups
--no-D: leaves out devices, FIFOs and sockets, with a warning
--no-devices: leaves out devices
--no-specials: leaves out FIFOs and sockets
-p, --perms: modes are kept, also without it; set-user-ID and set-group-ID with -og as root; scp's -p too
--no-p, --no-perms: leaves modes at the target as they are; new files follow the umask
-t, --times: modification times are kept, also without it
--no-t, --no-times: gives files the time of the copy; a note says what follows
-O, --omit-dir-times: gives folders the time of the copy
-L, --copy-links: copies what links lead to, in place of the links (docs/links.md)
--copy-unsafe-links: the same, only for links that lead out of what is copied
--safe-links: leaves out links that lead out of what is copied, with a warning
-x, --one-file-system: copies folders on other file systems as empty folders""",
    ),
    *_rows(
        ANYWAY,
        """\
-r, --recursive: folders are copied with everything in them; refused with --files-from, which lists what is in
    them
-l, --links: links are copied as links; -l 1000 is --limit 1000kbit, as in scp
-E, --executability: modes are kept; with --no-perms files that are there keep theirs, and a note says so
-v, --verbose: the display and the summary say what is done
--progress: progress is shown on a terminal
--info FLAGS: progress is shown on a terminal
--stats: the summary has some; howdah archive show last has all
--human-readable: sizes are readable anyway; -h alone is help, but in -avh it means this
--partial: the same command goes on inside of files
--append-verify: the same command goes on inside of files, and compares the part that is there
-W, --whole-file: files that differ are sent whole
-y, --fuzzy: files that differ are sent whole
--no-compress, --no-z: nothing is compressed
--inc-recursive, --i-r, --no-inc-recursive, --no-i-r: files are sent while folders are still read, and
    --delete removes when all have arrived
--preallocate: files have their space before their content
-8, --8-bit-output: names are shown as they are, but for control characters
--no-motd: there is no daemon
--fsync: everything is on stable storage at the end
-s, --secluded-args: no shell sees the names
--protect-args: no shell sees the names
-P: --partial --progress; -P 2222 is the port, as in scp""",
    ),
    *_rows(
        NOTED,
        """\
--ignore-non-existing: is --existing
--delete-before, --delete-during, --del, --delete-delay, --delete-after: is --delete, which removes when all
    files have arrived
-z, --compress: nothing is compressed
-3: the data goes straight from one host to the other, not through this one
--compress-level NUMBER: nothing is compressed
--compress-choice, --zc NAME: nothing is compressed
--skip-compress LIST: nothing is compressed
--partial-dir FOLDER: a file that has partly arrived lies beside its target, as .NAME.howdah-part
--bwlimit RATE: is --limit, with rsync's units: 1000 is 1000 KiB/s""",
    ),
    *_rows(
        REFUSED,
        """\
--ignore-errors: nothing is removed if some of the sources could not be read
--force: with --delete, a folder in the way of a file goes; otherwise remove it
--modify-window SECONDS: not built yet; files are compared by exact size and time
--delay-updates: each file gets its name when it is whole; copy into a new folder
-m, --prune-empty-dirs: name the files with --files-from, as find -type f prints them
-d, --dirs: name the folders with --files-from, as find -maxdepth 1 prints them
--list-only: use --dry-run, or ssh HOST ls
--ignore-missing-args: a source that is missing is named and left out, exit code 1
--delete-missing-args: remove it at the target by hand
--fake-super: owners are kept if the receiver is root
--iconv SETS: names are copied byte by byte
--munge-links: links are copied as they are, or with --safe-links left out
--no-implied-dirs: not built yet; it is for -R, which is refused as well
-B, --block-size SIZE: files that differ are sent whole; for scp's -B write -e 'ssh -o BatchMode=yes'
--stop-after MINUTES: use timeout(1); the same command goes on later
--checksum-choice NAME: content is compared by BLAKE3
-M, --remote-option OPTION: options are for both ends
--min-size SIZE: use --files-from with the names that find -size prints
--max-size SIZE: use --files-from with the names that find -size prints
-k, --copy-dirlinks: not built yet; links are copied as links, or with -L as what they lead to
-K, --keep-dirlinks: nothing is written through a link at the target; name the folder itself
-R, --relative: not built yet; name the folder at the target: howdah cp a/b far:a/
--mkpath: one folder is made if its name ends in /; for more, use mkdir -p on the far host
--chown USER:GROUP: with -og, owners are the sender's; otherwise use chown -R on the far host
--chmod MODES: modes are kept as they are; use chmod -R on the far host
-U, --atimes, --crtimes: only modification times are kept
--inplace: a file gets its name when it is whole; a copy that was cut goes on anyway
--append: a file gets its name when it is whole; a copy that was cut goes on anyway
--no-whole-file: files that differ are sent whole
--remove-source-files: sources are never removed; after the copy, run howdah verify and then rm
-b, --backup: files that differ are replaced; copy into a new folder to keep them
--backup-dir FOLDER, --suffix TEXT: files that differ are replaced
--link-dest FOLDER: not built yet; files are compared only with the target itself
--compare-dest FOLDER: not built yet; files are compared only with the target itself
-T, --temp-dir FOLDER: a file that has partly arrived lies beside its target
-i, --itemize-changes: use --dry-run; for scp's -i KEY write -e 'ssh -i KEY'
--out-format TEXT: use --dry-run, or --manifest FILE for a list of the copied files
--timeout SECONDS: use --patience, as --patience 60s
--contimeout SECONDS: use -e 'ssh -o ConnectTimeout=SECONDS'
--rsync-path PROGRAM: use --far-howdah PATH
--port PORT: that is the port of an rsync daemon; for ssh write -e 'ssh -p PORT'
--password-file FILE: ssh logs in; use a key
-4, --ipv4: set AddressFamily inet for the host in ~/.ssh/config
-6, --ipv6: set AddressFamily inet6 for the host in ~/.ssh/config
-C, --cvs-exclude: give the patterns with --exclude; scp's -C would compress, and nothing is compressed
-J, --omit-link-times: times of links are kept; for scp's -J HOST write -e 'ssh -J HOST'""",
    ),
)


def known() -> "dict[str, Spelling]":
    """The rows by flag."""
    return {flag: row for row in ROWS for flag in row.flags}


def ours(words: "Sequence[str]", options: "Mapping[str, Option]") -> "tuple[list[str], list[str]]":
    """A line with its options of rsync and scp as ``howdah cp`` has them, and notes on what they will not do.

    ``options`` are those of the command, by flag; what is one of them, or of neither, is left as it is.
    Raises UsageError for options that are refused, and HowdahError for a rate that cannot be.
    """
    reading = _Reading(words, options)
    while reading.left:
        reading.take_word(reading.left.pop())
    reading.give_port()
    reading.note_modes()
    reading.refuse_recursion()
    if reading.refused:
        raise UsageError("; ".join(reading.refused), see=SEE)
    return reading.words, reading.notes


class _Reading:
    """A line while it is read."""

    def __init__(self, words: "Sequence[str]", options: "Mapping[str, Option]") -> None:
        self.left = [*reversed(words)]
        """What is not read yet, the next word last."""
        self.options = options
        self.rows = known()
        self.words: list[str] = []
        self.notes: list[str] = []
        self.refused: list[str] = []
        self.ssh_port: str | None = None
        """The port that scp's ``-P`` gives."""
        self.has_rsh = False
        """Whether ``-e`` says which ssh to use."""
        self.modes: str | None = None
        """The ``-E`` that was given."""
        self.recursive: str | None = None
        """The ``-r`` that was given."""

    def take_word(self, word: str) -> None:
        """Takes a word, and its value where that is the next one."""
        flag, equals, value = word.partition("=")
        if word == "--":
            self.words += [word, *reversed(self.left)]
            self.left.clear()
        elif word.startswith("-") and not word.startswith("--") and word not in {"-", "-h"}:
            self._take_letters(word[1:])
        elif word.startswith("--") and flag not in self.options and flag in self.rows:
            self._take(self.rows[flag], flag, value if equals else None)
        else:
            self._leave(word, self.options.get(flag), has_value=bool(equals))

    def _take_letters(self, letters: str) -> None:
        """Takes ``-avhP`` apart. The ``h`` in it is rsync's, that numbers are for people to read."""
        alone = len(letters) == 1
        while letters:
            flag, letters = f"-{letters[0]}", letters[1:]
            option = self.options.get(flag)
            if flag == "-h" and not alone:
                continue
            if flag == "-o" and (value := self._ssh_option(letters)):
                self.refused.append(f"-o {value}: give it to ssh, as -e 'ssh -o {value}'")
                return
            if option is not None and option.metavar is not None:
                self._leave(f"{flag}{letters}", option, has_value=bool(letters))
                return
            if option is not None or flag not in self.rows:
                self.words.append(flag)
            elif flag in _NUMBERED and (number := self._number(letters)):
                _NUMBERED[flag](self, number)
                return
            elif self.rows[flag].takes:
                self._take(self.rows[flag], flag, letters or None)
                return
            else:
                self._take(self.rows[flag], flag, None)

    def _leave(self, word: str, option: "Option | None", *, has_value: bool) -> None:
        """Leaves a word as it is; the value that follows it too, whatever it looks like."""
        self.words.append(word)
        self.has_rsh = self.has_rsh or (option is not None and "--rsh" in option.flags)
        if option is not None and option.metavar is not None and not has_value and self.left:
            self.words.append(self.left.pop())

    def _take(self, row: Spelling, flag: str, value: str | None) -> None:
        """Takes an option of rsync, with its value."""
        if row.takes and value is None and self.left:
            value = self.left.pop()
        if row.means == NOTED and f"{flag}: {row.text}" not in self.notes:
            self.notes.append(f"{flag}: {row.text}")
        if "-E" in row.flags:
            self.modes = flag
        if "-r" in row.flags:
            self.recursive = flag
        if row.gives is not None:
            self.words.append(row.gives)
        if row.turned is not None:
            made = row.turned(value or "")
            if made is None:
                self.refused.append(
                    f"{flag} {value or ''}: not a rate in rsync's units; use for example --limit 100Mbit"
                )
            elif made != "none":
                _check_limit(f"{flag} {value}", made)
            self.words.append(made or "")
        if row.means == REFUSED:
            self.refused.append(f"{flag}: {row.text}")

    def _ssh_option(self, letters: str) -> str | None:
        """The option that scp's ``-o`` has here; rsync's has none. The name of a file is none."""
        if letters or not self.left:
            return letters if "=" in letters else None
        word = self.left[-1]
        return self.left.pop() if "=" in word and not os.path.lexists(word) else None

    def _number(self, letters: str) -> str | None:
        """The number that scp's option has here. A word that is the name of a file is none."""
        if letters:
            return letters if letters.isdigit() and letters.isascii() else None
        word = self.left[-1] if self.left else ""
        if not (word.isdigit() and word.isascii()) or os.path.lexists(word):
            return None
        return self.left.pop()

    def port(self, number: str) -> None:
        """Takes scp's ``-P 2222``."""
        self.ssh_port = number

    def give_port(self) -> None:
        """Gives ssh the port that ``-P`` said, which cannot be beside ``-e``, wherever that stands."""
        if self.ssh_port is None:
            return
        command = f"ssh -p {self.ssh_port}"
        if self.has_rsh:
            self.refused.append(f"-P {self.ssh_port}: give the port in -e, as -e '{command}'")
        self.words = ["--rsh", command, *self.words]

    def note_modes(self) -> None:
        """Notes what ``-E`` does not do where modes are not kept; elsewhere they are kept whole."""
        said = [word for word in self.words if word in _WITH_MODES or word in _WITHOUT_MODES]
        if self.modes is not None and said and said[-1] in _WITHOUT_MODES:
            self.notes.append(f"{self.modes}: files that are there keep their modes with --no-perms")

    def refuse_recursion(self) -> None:
        """Refuses ``-r`` beside a list of names: its folders come without what is in them."""
        if self.recursive is not None and any(word.startswith("--files-from") for word in self.words):
            self.refused.append(
                f"{self.recursive}: folders that --files-from lists are copied without what is in them; "
                "list that too, as find prints it"
            )

    def limit(self, number: str) -> None:
        """Takes scp's ``-l 1000``, in kbit/s."""
        _check_limit(f"-l {number}", f"{number}kbit")
        self.words += ["--limit", f"{number}kbit"]


def _check_limit(typed: str, rate: str) -> None:
    """Raises HowdahError for a rate that no limit can have; the line knows it as ``typed``."""
    # Other lines are read before that is loaded.
    from howdah import HowdahError  # noqa: PLC0415
    from howdah._native import parse_rate  # noqa: PLC0415
    from howdah.values.limit import check_least  # noqa: PLC0415

    try:
        rate_bps = parse_rate(rate)
    except HowdahError:
        raise HowdahError(f"{typed} is too high a rate; use for example --limit 100Mbit") from None
    check_least(rate_bps, typed)


_WITH_MODES = ("-p", "--perms", "-a", "--archive", "-A", "--acls")
_WITHOUT_MODES = ("--no-p", "--no-perms")
_NUMBERED = {"-P": _Reading.port, "-l": _Reading.limit}
"""Letters of rsync that have a number behind them in scp."""
