"""``howdah verify`` from its arguments to its exit code."""

from howdah import document, interrupt
from howdah.archive import Archive
from howdah.remote.endpoints import parse
from howdah.values.verification import Algorithm
from howdah.verification.check import check
from howdah.verification.lists import find
from howdah.words.verification import Shown, in_short


def verify(
    *,
    manifest: str,
    at: str,
    algorithm: Algorithm | None,
    extra: bool,
    far_howdah: str | None,
    json: bool,
    quiet: bool,
) -> int:
    """Checks, prints what does not agree, and returns the exit code. Raises HowdahError."""
    interrupt.install()
    listed = find(manifest, algorithm, Archive())
    shown = Shown(listed.files, findings=not json, progress=not (json or quiet))
    try:
        result = check(listed, parse(at), shown, extra=extra, far_howdah=far_howdah)
    finally:
        shown.clear()
    if json:
        document.show(result)
    elif not quiet:
        print(in_short(result))
    return 0 if result.agrees else 1
