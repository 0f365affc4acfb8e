"""What follows a copy that is to be verified or listed: its files are read again from the target's disk.

The digests that the copy kept are the list. They are of what the source gave, and both ends have compared
them; so another digest, made of the same read of a file whose BLAKE3 agrees, is of the source's content too.
"""

import os
from contextlib import nullcontext
from pathlib import Path

import msgspec

from howdah import HowdahError
from howdah.remote.endpoints import Endpoint
from howdah.text import count, printable, some
from howdah.transfer.display import Display
from howdah.transfer.request import Request
from howdah.values.outcome import Outcome
from howdah.values.verification import Algorithm, Counts, Verification
from howdah.verification.check import Listener, ask, check, nothing
from howdah.verification.lists import NewList, algorithm_of, check_new, listed

_LIST = "the list of the copy's digests"
_UNCHECKED = "so the copied files cannot be read again or listed; make room there, or set XDG_DATA_HOME"
_MEND = "remove them there, and the same command copies them again; check the target's disk and memory"


class Rereading:
    """What a request wants beside the copy."""

    def __init__(self, request: Request) -> None:
        """Raises HowdahError where it cannot be had; nothing has begun yet."""
        self._request, self._new = request, request.manifest
        self._algorithm: Algorithm = "blake3"
        if self._new is not None:
            self._algorithm = algorithm_of(self._new)
            check_new(self._new)
        self._rereads = request.verify or self._algorithm != "blake3"
        route = request.route
        self._at = Endpoint(route.host if route.direction == "push" else None, route.destination)

    def ask(self) -> None:
        """Asks a far target whether it reads files again. Raises HowdahError where it does not."""
        if self._rereads and self._at.host is not None:
            ask(self._at.host, self._request.far_howdah)

    def reread(self, digests: Path | None, outcome: Outcome, display: Display) -> Verification | None:
        """Reads again what was moved, and writes the list; None where nothing was to be read again.

        Raises HowdahError where that cannot be done; that a file differs is a result.
        """
        if not outcome.files:
            if self._new is not None:
                shown = printable(os.fsencode(self._new))
                display.far_says(f"howdah: no file was moved, so {shown} was not written\n")
            return self._with_skipped(nothing(_LIST, self._at), outcome) if self._rereads else None
        with NewList(self._new) if self._new is not None else nullcontext() as new:
            if digests is None or not digests.is_file():
                raise HowdahError(f"the archive could not keep the digests, {_UNCHECKED}")
            found = listed(_LIST, digests, "blake3")
            if found.files != outcome.files:
                raise HowdahError(
                    f"the archive could keep {found.files:,} digests of {outcome.files:,} files moved, "
                    f"{_UNCHECKED}"
                )
            if new is not None and self._algorithm == "blake3":
                new.add_all(digests)
            if not self._rereads:
                return None
            also = None if self._algorithm == "blake3" else self._algorithm
            listener = _Listener(display, found.files, new)
            made = check(found, self._at, listener, also=also, far_howdah=self._request.far_howdah)
            return self._with_skipped(made, outcome)

    @staticmethod
    def _with_skipped(made: Verification, outcome: Outcome) -> Verification:
        return msgspec.structs.replace(made, skipped=outcome.files_skipped)

    def check(self, verification: Verification | None) -> None:
        """Raises HowdahError, naming files, where the target does not give back what was written to it."""
        if verification is None or verification.agrees:
            return
        number = verification.counts.disagreeing
        named = some(f"{each.name} ({each.why or each.what})" for each in verification.findings)
        more = f" and {verification.findings_more:,} more" if verification.findings_more else ""
        raise HowdahError(
            f"{count(number, 'file')}, read again from the target's disk, {'is' if number == 1 else 'are'} "
            f"not what was sent: {named}{more}; {_MEND}"
        )


class _Listener(Listener):
    """Shows a check, and writes the digests that it makes."""

    def __init__(self, display: Display, files: int, new: NewList | None) -> None:
        self._display, self._files, self._new = display, files, new

    def progress(self, now: Counts) -> None:
        self._display.rereading(self._files, now)

    def digest(self, name: bytes, digest: str) -> None:
        if self._new is not None:
            self._new.add(name, digest)

    def far_says(self, text: str) -> None:
        self._display.far_says(text)
