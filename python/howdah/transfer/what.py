"""What rsync's options say of a copy.

That is what of the sources is looked at and sent, by which filter rules; what is kept of files beside names
and contents; and what is removed from the target.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from howdah import HowdahError, decoding
from howdah._native import expand_filters
from howdah.arguments import BadArgument, check_within
from howdah.bounds import Bounds
from howdah.remote.endpoints import Route
from howdah.remote.messages import Keep, Skip, Walk
from howdah.text import printable
from howdah.transfer.request import Delete


def made_skip(
    *,
    existing: bool,
    ignore_existing: bool,
    update: bool,
    size_only: bool,
    ignore_times: bool,
    checksum: bool,
    files: bool,
) -> Skip:
    """What is skipped. Raises HowdahError for what cannot be."""
    if size_only and ignore_times:
        raise BadArgument("{size_only} skips what {ignore_times} sends; leave one of them out")
    if checksum and (size_only or ignore_times):
        other = "{size_only}" if size_only else "{ignore_times}"
        raise BadArgument(f"{{checksum}} compares contents and {other} does not; leave one of them out")
    made = Skip(missing=existing, there=ignore_existing, newer=update)
    if checksum:
        made = msgspec.structs.replace(made, same="content")
    elif size_only:
        made = msgspec.structs.replace(made, same="size")
    elif ignore_times:
        made = msgspec.structs.replace(made, same="nothing")
    if not files and made != Skip():
        raise BadArgument("{memory} moves no files, so there is nothing to skip")
    return made


def made_walk(
    *, one_file_system: bool, copy_links: bool, copy_unsafe_links: bool, safe_links: bool, files: bool
) -> Walk:
    """How the sources are gone through. Raises HowdahError where there are none."""
    made = Walk(
        one_file_system=one_file_system,
        links="followed" if copy_links else "unsafe" if copy_unsafe_links else "kept",
        safe_links=safe_links,
    )
    if not files and made != Walk():
        raise BadArgument("{memory} moves no files, so there are no links and no file systems")
    return made


def made_delete(delete: bool, excluded: bool, most: int | None) -> Delete | None:
    """What is removed. Raises HowdahError for a bound that bounds nothing."""
    if most is not None and not delete:
        raise BadArgument("{max_delete} bounds what {delete} removes; give {delete} too", max_delete=most)
    check_within("max_delete", most, Bounds(0), mend="leave it out for no bound")
    return Delete(excluded, most) if delete else None


def is_content(source: bytes) -> bool:
    """Whether a source is only what is in a folder, as ``SRC/.`` is."""
    return source.rstrip(b"/").rpartition(b"/")[2] in {b"", b"."}


def check_delete(way: Route, from_memory: bool, listed: bool) -> None:
    """Raises HowdahError where nothing says what is at the source."""
    if from_memory:
        raise BadArgument("{memory} moves no files, so {delete} has nothing to remove; leave it out")
    if listed:
        raise BadArgument(
            "{files_from} hides what else is in the source, so {delete} would remove that at the target; "
            "copy whole folders with {delete}"
        )
    if len(way.sources) > 1 and any(map(is_content, way.sources)):
        raise BadArgument(
            "{delete} takes several sources only if each becomes a folder of its own at the target; "
            "copy SRC/. in a separate command"
        )


_SETS = {
    "archive": ("owner", "group", "devices", "specials", "top"),
    "D": ("devices", "specials"),
}
_BACK = {"archive": ("perms", "times"), "acls": ("perms",)}
"""What a word says as well of what is kept anyway, so that it takes back a ``no_`` before it."""
WORDS = (*_SETS, *Keep.__struct_fields__)
"""The words there are. With ``no_`` before it a word takes back what one before it says."""


def read_keep(words: Sequence[str]) -> Keep:
    """What ``words`` say in their order, of which the last counts: ``["archive", "no_owner"]``.

    Raises HowdahError for a word that is none.
    """
    kept: dict[str, bool] = {}
    for word in words:
        name = word.removeprefix("no_")
        if name not in WORDS:
            raise HowdahError(f"keep {word} is unknown; it is one of {', '.join(WORDS)}, or no_ before one")
        kept |= dict.fromkeys(_SETS.get(name, (name,)), name == word)
        if name == word:
            kept |= dict.fromkeys(_BACK.get(name, ()), True)
    return decoding.from_plain(kept, Keep)


By = Literal["filter", "exclude", "include", "exclude-from", "include-from"]
"""The option that says what its value is: a rule, a pattern, or a file of patterns."""

Rule = str | tuple[By, str | os.PathLike[str]]
"""A rule as ``--filter`` takes it, or an option with its value."""

_MOST_BYTES = 1 << 20
"""The largest file of rules; crates/filter refuses a list that is longer."""


def read_filters(given: Sequence[Rule], *, nul_separated: bool = False) -> tuple[bytes, ...]:
    """The rules in their order, a text each, with those of the files that they name.

    Raises HowdahError for what is no rule, and for a file that cannot be read.
    """
    if isinstance(given, str):
        raise HowdahError(f"filters must be a list of rules: filters=[{given!r}]")
    pairs = [("filter", each) if isinstance(each, str) else each for each in given]
    return tuple(expand_filters([(by, os.fsencode(text)) for by, text in pairs], nul_separated, _text))


def _text(name: bytes) -> bytes:
    """The text of a file of rules, or of standard input."""
    try:
        if name == b"-":
            return sys.stdin.buffer.read(_MOST_BYTES + 1)
        with Path(os.fsdecode(name)).open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise HowdahError(
            f"cannot read the filter rules in {printable(name)}: {error.strerror}; check the name"
        ) from None
