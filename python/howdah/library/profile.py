"""What the runs in an archive say of their paths: throughput over the round trip."""

from collections.abc import Collection

from howdah.archive import Archive
from howdah.profiles.profile import DRAWS
from howdah.profiles.study import Study, runs_with, study


def profile(
    *,
    path: Collection[str] | None = None,
    congestion_control: Collection[str] | None = None,
    streams: Collection[int] | None = None,
    buffer_bytes: Collection[int | None] | None = None,
    sweep: Collection[str] | None = None,
    late: bool = False,
    files: bool = False,
    intervals: bool = True,
    archive: Archive | None = None,
) -> Study:
    """The profiles of each path by its runs, as ``howdah profile`` shows them, and where they bend.

    Args:
        path: of these alone: hosts, or links of labs in words. None takes all, as in the four that follow.
        congestion_control: as the records name them.
        streams: TCP connections.
        buffer_bytes: socket buffers of each stream; a None among them: autotuned.
        sweep: names of sweeps.
        late: counts runs for which the machine of a lab was too slow.
        files: counts copies of files as well, which a disk may have slowed.
        intervals: resamples the fitted curves for their intervals, which takes the longest of all.
        archive: whose runs; by default the user's.

    Raises:
        HowdahError: when no such run is there, with what is.

    >>> from howdah.library.profile import profile
    >>> try:
    ...     study = profile(path=["dtn2"])
    ... except howdah.HowdahError as error:
    ...     print(error)
    """
    chosen = runs_with(
        (archive or Archive()).runs(),
        path=path,
        congestion_control=congestion_control,
        streams=streams,
        buffer_bytes=buffer_bytes,
        sweep=sweep,
    )
    return study(chosen, late=late, files=files, draws=DRAWS if intervals else 0)
