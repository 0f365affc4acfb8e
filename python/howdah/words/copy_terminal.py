"""Progress on a terminal: three lines that stay in place."""

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howdah.remote.messages import FarHello, Progress
from howdah.remote.meter import Meter
from howdah.text import count
from howdah.transfer.display import Display
from howdah.values.plan import Plan
from howdah.values.verification import Counts
from howdah.words.copy_progress import Changes, amount, rates, rereading

_BAR_WIDTH = 24
_WAITING = {"connecting": "connecting …", "scanning": "looking …", "finishing": "finishing …"}


class Terminal(Display):
    """Three lines that stay in place; they vanish at the end, when the summary is printed."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._meter = Meter()
        self._changes = Changes()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def planned(self, decided: Plan, far: FarHello) -> None:
        """Names the plan while the streams connect. Until now the terminal was ssh's, for passwords."""
        self._live.start()
        self._live.update(Text(f"{decided.in_short()}; connecting …", style="dim"), refresh=True)

    def progress(self, now: Progress) -> None:
        """Draws the three lines."""
        self._meter.add(now)
        if (said := self._changes.next(now)) is not None:
            self.far_says(said)
        if now.phase not in {"done", "failed"}:
            self._live.update(view(now, self._meter, self._console.width), refresh=True)

    def rereading(self, files: int, now: Counts) -> None:
        """Draws a line in their place."""
        self._live.update(Text(rereading(files, now), style="dim"), refresh=True)

    def far_says(self, text: str) -> None:
        """Prints it above the lines."""
        if text:
            self._console.print(text.rstrip("\n"), markup=False)

    def waiting(self, text: str) -> None:
        """Shows it in place of the three lines."""
        self._live.update(Text(text, style="yellow"), refresh=True)

    def close(self) -> None:
        """Takes the lines away."""
        self._live.stop()


def view(now: Progress, meter: Meter, columns: int) -> Group:
    """The three lines: how far, how fast, which file."""
    share = now.bytes_placed / now.bytes_to_place if now.bytes_to_place else None
    top = Table.grid(padding=(0, 1))
    for width in (4, _BAR_WIDTH, None, None):
        top.add_column(no_wrap=True, width=width)
    left_s = meter.left_s(now)
    top.add_row(
        "" if share is None else f"{share:4.0%}",
        ProgressBar(total=1.0, completed=share or 0.0, width=_BAR_WIDTH, pulse=share is None),
        amount(now),
        "" if left_s is None else f"{_clock(left_s)} left",
    )
    parts = [*rates(meter), count(now.streams, "stream"), count(now.retransmissions, "retransmission")]
    return Group(
        top,
        Text("     " + " · ".join(parts), no_wrap=True, overflow="ellipsis"),
        Text(f"     {_files(now, columns - 5)}", style="dim", no_wrap=True, overflow="ellipsis"),
    )


def _files(now: Progress, columns: int) -> str:
    if now.phase != "moving":
        return _WAITING.get(now.phase, "")
    parts = []
    if now.files_total:
        parts.append(f"file {now.files_done:,} of {now.files_total:,}")
    if now.files_skipped:
        parts.append(f"{now.files_skipped:,} there already")
    # A source that is a file has no path below itself.
    if not now.current:
        return " · ".join(parts)
    head = "".join(f"{part} · " for part in parts)
    return head + _end_of(now.current, columns - cell_len(head))


def _end_of(name: str, columns: int) -> str:
    """The name, or as much of its end as fits: that is where names differ."""
    if cell_len(name) <= columns:
        return name
    while name and cell_len(name) >= columns:
        name = name[1:]
    return f"…{name}"


def _clock(duration_s: float) -> str:
    minutes, seconds = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
