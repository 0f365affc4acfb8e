"""``howdah verify`` from its arguments to its exit code."""

from howdah import document, interrupt
from howdah.library.verify import carry_out, listed_in
from howdah.values.verification import Algorithm
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
    listed = listed_in(manifest, algorithm)
    shown = Shown(listed.files, findings=not json, progress=not (json or quiet))
    try:
        result = carry_out(listed, at, shown, extra=extra, far_howdah=far_howdah)
    finally:
        shown.clear()
    if json:
        document.show(result)
    elif not quiet:
        print(in_short(result))
    return 0 if result.agrees else 1
