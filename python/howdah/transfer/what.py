"""What of the sources is looked at and sent, and what of the target removed, by what rsync's options say."""

import msgspec

from howdah.arguments import BadArgument, check_within
from howdah.bounds import Bounds
from howdah.remote.endpoints import Route
from howdah.remote.messages import Skip, Walk
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
