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

    def __init__(
        self,
        names: str,
        means: str,
        text: str,
        *,
        gives: str | None = None,
        turned: "Callable[[str], str | None] | None" = None,
    ) -> None:
        words = names.replace(",", "").split()
        self.flags = tuple(word for word in words if word.startswith("-"))
        self.names = names
        self.takes = words[-1].isupper() and not words[-1].startswith("-")
        """Whether it has a value."""
        self.means = means
        """One of the four above."""
        self.text = text
        """What is done here, or what to write."""
        self.gives = gives
        """The option of ``howdah cp`` that it is read as; null: none."""
        self.turned = turned
        """What makes the value of that option; it answers null for what is none. Null: it has no value."""


def _bwlimit(text: str) -> str | None:
    """What rsync's ``--bwlimit`` is as a rate: KiB/s, or with suffixes K and M of 1024, KB and MB of 1000."""
    text = text.upper().removesuffix("IB")
    digits = text.rstrip("BKMGT")
    suffix = text[len(digits) :] or "K"
    whole, _, part = digits.partition(".")
    thousand = 1000 if len(suffix) == 2 else 1024
    if not f"{whole}{part}".isdigit() or not digits.isascii() or suffix not in _BW_SUFFIXES:
        return None
    bits = round(8 * float(digits) * thousand ** _BW_SUFFIXES.index(suffix[0]))
    return f"{bits}bit" if bits else "none"


_BW_SUFFIXES = ("B", "K", "M", "G", "T", "KB", "MB", "GB", "TB")
_LATER = "not built yet"
_SIZES = "use --files-from with the names that find -size prints"
_LINKS = f"{_LATER}; links are copied as links, or with -L as what they lead to"

ROWS = (
    Spelling("-n, --dry-run", SAME, "prints the plan and what would be copied"),
    Spelling("-e, --rsh COMMAND", SAME, "the ssh command with its options, as 'ssh -p 2222 -J jump'"),
    Spelling("-q, --quiet", SAME, "prints no progress and no summary"),
    Spelling("--log-file FILE", SAME, "a line for each copied file and each event (docs/jobs.md)"),
    Spelling("--exclude PATTERN", SAME, "leaves out names that match (docs/leave-out.md)"),
    Spelling("--include PATTERN", SAME, "copies names that match, unless an earlier option leaves them out"),
    Spelling("--exclude-from FILE", SAME, "leaves out names that match a pattern in FILE"),
    Spelling("--include-from FILE", SAME, "copies names that match a pattern in FILE"),
    Spelling("-f, --filter RULE", SAME, "a filter rule; rules for CVS and for absolute paths are refused"),
    Spelling(
        "-F",
        SAME,
        "rules from .rsync-filter in each folder, not above sources; for scp's -F FILE use -e 'ssh -F FILE'",
    ),
    Spelling("--files-from FILE", SAME, "copies only the names that FILE lists, relative to the only source"),
    Spelling("-0, --from0", SAME, "NUL bytes end the names and rules in files"),
    Spelling("--existing", SAME, "sends only files that exist at the target (docs/skip.md)"),
    Spelling("--ignore-existing", SAME, "sends only files that do not exist at the target"),
    Spelling("-u, --update", SAME, "skips files that are newer at the target"),
    Spelling("--size-only", SAME, "skips files of the same size"),
    Spelling("-I, --ignore-times", SAME, "also sends files of the same size and time"),
    Spelling(
        "-c, --checksum",
        SAME,
        "skips files of the same content; for scp's -c CIPHER write -e 'ssh -c CIPHER'",
    ),
    Spelling("--ignore-non-existing", NOTED, "is --existing", gives="--existing"),
    Spelling(
        "--delete",
        SAME,
        "removes what the source does not have, when all files have arrived (docs/delete.md)",
    ),
    Spelling("--delete-excluded", SAME, "with --delete, also removes what the filters leave out"),
    Spelling(
        "--max-delete N", SAME, "removes nothing if there is more than N to remove; rsync removes the first N"
    ),
    Spelling(
        "--delete-before, --delete-during, --del, --delete-delay, --delete-after",
        NOTED,
        "is --delete, which removes when all files have arrived",
        gives="--delete",
    ),
    Spelling(
        "-a, --archive",
        SAME,
        "keeps owners, groups, devices and FIFOs, as far as the receiver can (docs/keep.md)",
    ),
    Spelling(
        "-o, --owner",
        SAME,
        "keeps users, if the receiver is root; for scp's -o OPTION write -e 'ssh -o OPTION'",
    ),
    Spelling("-g, --group", SAME, "keeps groups, if the receiver is root or in the group"),
    Spelling("--numeric-ids", SAME, "matches users and groups by number"),
    Spelling("-D", SAME, "--devices --specials"),
    Spelling("--devices", SAME, "keeps devices, if the receiver is root"),
    Spelling("--specials", SAME, "keeps FIFOs and sockets"),
    Spelling(
        "-H, --hard-links", SAME, "keeps hard links: names of one file stay names of one file (docs/keep.md)"
    ),
    Spelling("-S, --sparse", SAME, "makes holes of runs of zeros; for scp's -S PROGRAM write -e PROGRAM"),
    Spelling("-A, --acls", SAME, "keeps access lists"),
    Spelling(
        "-X, --xattrs",
        SAME,
        "keeps extended attributes and flags of chattr; root's own only if the receiver is root",
    ),
    Spelling("--no-o, --no-owner", SAME, "does not keep users, for example after -a"),
    Spelling("--no-g, --no-group", SAME, "does not keep groups"),
    Spelling("--no-D", SAME, "leaves out devices, FIFOs and sockets, with a warning"),
    Spelling("--no-devices", SAME, "leaves out devices"),
    Spelling("--no-specials", SAME, "leaves out FIFOs and sockets"),
    Spelling(
        "-p, --perms",
        SAME,
        "modes are kept, also without it; set-user-ID and set-group-ID with -o as root alone; scp's -p too",
    ),
    Spelling(
        "--no-p, --no-perms", SAME, "leaves modes at the target as they are; new files follow the umask"
    ),
    Spelling("-t, --times", SAME, "modification times are kept, also without it"),
    Spelling("--no-t, --no-times", SAME, "gives files the time of the copy; a note says what follows"),
    Spelling("-O, --omit-dir-times", SAME, "gives folders the time of the copy"),
    Spelling("-L, --copy-links", SAME, "copies what links lead to, in place of the links (docs/links.md)"),
    Spelling("--copy-unsafe-links", SAME, "the same, only for links that lead out of what is copied"),
    Spelling("--safe-links", SAME, "leaves out links that lead out of what is copied, with a warning"),
    Spelling("-x, --one-file-system", SAME, "copies folders on other file systems as empty folders"),
    Spelling(
        "-r, --recursive",
        ANYWAY,
        "folders are copied with everything in them; refused with --files-from, which lists what is in them",
    ),
    Spelling("-l, --links", ANYWAY, "links are copied as links; -l 1000 is --limit 1000kbit, as in scp"),
    Spelling(
        "-E, --executability",
        ANYWAY,
        "modes are kept; with --no-perms files that are there keep theirs, and a note says so",
    ),
    Spelling("-v, --verbose", ANYWAY, "the display and the summary say what is done"),
    Spelling("--progress", ANYWAY, "progress is shown on a terminal"),
    Spelling("--info FLAGS", ANYWAY, "progress is shown on a terminal"),
    Spelling("--stats", ANYWAY, "the summary has some; howdah archive show last has all"),
    Spelling(
        "--human-readable", ANYWAY, "sizes are readable anyway; -h alone is help, but in -avh it means this"
    ),
    Spelling("--partial", ANYWAY, "the same command goes on inside of files"),
    Spelling(
        "--append-verify",
        ANYWAY,
        "the same command goes on inside of files, and compares the part that is there",
    ),
    Spelling("-W, --whole-file", ANYWAY, "files that differ are sent whole"),
    Spelling("-y, --fuzzy", ANYWAY, "files that differ are sent whole"),
    Spelling("--no-compress, --no-z", ANYWAY, "nothing is compressed"),
    Spelling(
        "--inc-recursive, --i-r, --no-inc-recursive, --no-i-r",
        ANYWAY,
        "files are sent while folders are still read, and --delete removes when all have arrived",
    ),
    Spelling("--preallocate", ANYWAY, "files have their space before their content"),
    Spelling("-8, --8-bit-output", ANYWAY, "names are shown as they are, but for control characters"),
    Spelling("--no-motd", ANYWAY, "there is no daemon"),
    Spelling("--fsync", ANYWAY, "everything is on stable storage at the end"),
    Spelling("-s, --secluded-args", ANYWAY, "no shell sees the names"),
    Spelling("--protect-args", ANYWAY, "no shell sees the names"),
    Spelling("-P", ANYWAY, "--partial --progress; -P 2222 is the port, as in scp"),
    Spelling("-z, --compress", NOTED, "nothing is compressed"),
    Spelling("-3", NOTED, "the data goes straight from one host to the other, not through this one"),
    Spelling("--compress-level NUMBER", NOTED, "nothing is compressed"),
    Spelling("--compress-choice, --zc NAME", NOTED, "nothing is compressed"),
    Spelling("--skip-compress LIST", NOTED, "nothing is compressed"),
    Spelling(
        "--partial-dir FOLDER",
        NOTED,
        "a file that has partly arrived lies beside its target, as .NAME.howdah-part",
    ),
    Spelling("--ignore-errors", REFUSED, "nothing is removed if some of the sources could not be read"),
    Spelling(
        "--force",
        REFUSED,
        "with --delete, a folder in the way of a file goes; otherwise remove it",
    ),
    Spelling("--modify-window SECONDS", REFUSED, f"{_LATER}; files are compared by exact size and time"),
    Spelling("--delay-updates", REFUSED, "each file gets its name when it is whole; copy into a new folder"),
    Spelling(
        "-m, --prune-empty-dirs", REFUSED, "name the files with --files-from, as find -type f prints them"
    ),
    Spelling("-d, --dirs", REFUSED, "name the folders with --files-from, as find -maxdepth 1 prints them"),
    Spelling("--list-only", REFUSED, "use --dry-run, or ssh HOST ls"),
    Spelling("--ignore-missing-args", REFUSED, "a source that is missing is named and left out, exit code 1"),
    Spelling("--delete-missing-args", REFUSED, "remove it at the target by hand"),
    Spelling("--fake-super", REFUSED, "owners are kept if the receiver is root"),
    Spelling("--iconv SETS", REFUSED, "names are copied byte by byte"),
    Spelling("--munge-links", REFUSED, "links are copied as they are, or with --safe-links left out"),
    Spelling("--no-implied-dirs", REFUSED, f"{_LATER}; it is for -R, which is refused as well"),
    Spelling(
        "-B, --block-size SIZE",
        REFUSED,
        "files that differ are sent whole; for scp's -B write -e 'ssh -o BatchMode=yes'",
    ),
    Spelling("--stop-after MINUTES", REFUSED, "use timeout(1); the same command goes on later"),
    Spelling("--checksum-choice NAME", REFUSED, "content is compared by BLAKE3"),
    Spelling("-M, --remote-option OPTION", REFUSED, "options are for both ends"),
    Spelling("--min-size SIZE", REFUSED, _SIZES),
    Spelling("--max-size SIZE", REFUSED, _SIZES),
    Spelling("-k, --copy-dirlinks", REFUSED, _LINKS),
    Spelling(
        "-K, --keep-dirlinks",
        REFUSED,
        "nothing is written through a link at the target; name the folder itself",
    ),
    Spelling("-R, --relative", REFUSED, f"{_LATER}; name the folder at the target: howdah cp a/b far:a/"),
    Spelling(
        "--mkpath",
        REFUSED,
        "one folder is made if its name ends in /; for more, use mkdir -p on the far host",
    ),
    Spelling(
        "--chown USER:GROUP",
        REFUSED,
        "with -og, owners are the sender's; otherwise use chown -R on the far host",
    ),
    Spelling("--chmod MODES", REFUSED, "modes are kept as they are; use chmod -R on the far host"),
    Spelling("-U, --atimes, --crtimes", REFUSED, "only modification times are kept"),
    Spelling(
        "--inplace", REFUSED, "a file gets its name when it is whole; a copy that was cut goes on anyway"
    ),
    Spelling(
        "--append", REFUSED, "a file gets its name when it is whole; a copy that was cut goes on anyway"
    ),
    Spelling("--no-whole-file", REFUSED, "files that differ are sent whole"),
    Spelling(
        "--remove-source-files",
        REFUSED,
        "sources are never removed; after the copy, run howdah verify and then rm",
    ),
    Spelling("-b, --backup", REFUSED, "files that differ are replaced; copy into a new folder to keep them"),
    Spelling("--backup-dir FOLDER, --suffix TEXT", REFUSED, "files that differ are replaced"),
    Spelling("--link-dest FOLDER", REFUSED, f"{_LATER}; files are compared only with the target itself"),
    Spelling("--compare-dest FOLDER", REFUSED, f"{_LATER}; files are compared only with the target itself"),
    Spelling("-T, --temp-dir FOLDER", REFUSED, "a file that has partly arrived lies beside its target"),
    Spelling("-i, --itemize-changes", REFUSED, "use --dry-run; for scp's -i KEY write -e 'ssh -i KEY'"),
    Spelling(
        "--out-format TEXT", REFUSED, "use --dry-run, or --manifest FILE for a list of the copied files"
    ),
    Spelling(
        "--bwlimit RATE",
        NOTED,
        "is --limit, with rsync's units: 1000 is 1000 KiB/s",
        gives="--limit",
        turned=_bwlimit,
    ),
    Spelling("--timeout SECONDS", REFUSED, "use --patience, as --patience 60s"),
    Spelling("--contimeout SECONDS", REFUSED, "use -e 'ssh -o ConnectTimeout=SECONDS'"),
    Spelling("--rsync-path PROGRAM", REFUSED, "use --far-howdah PATH"),
    Spelling("--port PORT", REFUSED, "that is the port of an rsync daemon; for ssh write -e 'ssh -p PORT'"),
    Spelling("--password-file FILE", REFUSED, "ssh logs in; use a key"),
    Spelling("-4, --ipv4", REFUSED, "set AddressFamily inet for the host in ~/.ssh/config"),
    Spelling("-6, --ipv6", REFUSED, "set AddressFamily inet6 for the host in ~/.ssh/config"),
    Spelling(
        "-C, --cvs-exclude",
        REFUSED,
        "give the patterns with --exclude; scp's -C would compress, and nothing is compressed",
    ),
    Spelling(
        "-J, --omit-link-times", REFUSED, "times of links are kept; for scp's -J HOST write -e 'ssh -J HOST'"
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
    from howdah._native import format_rate, parse_rate  # noqa: PLC0415
    from howdah.values.limit import LIMIT_BPS_MIN  # noqa: PLC0415

    try:
        rate_bps = parse_rate(rate)
    except HowdahError:
        raise HowdahError(f"{typed} is too high a rate; use for example --limit 100Mbit") from None
    if rate_bps < LIMIT_BPS_MIN:
        least = f"{format_rate(LIMIT_BPS_MIN)}, the least limit"
        raise HowdahError(f"{typed} is below {least}; to stop a copy for a while, use howdah pause")


_WITH_MODES = ("-p", "--perms", "-a", "--archive", "-A", "--acls")
_WITHOUT_MODES = ("--no-p", "--no-perms")
_NUMBERED = {"-P": _Reading.port, "-l": _Reading.limit}
"""Letters of rsync that have a number behind them in scp."""
