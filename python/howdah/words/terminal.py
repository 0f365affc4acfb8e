"""What a terminal gets: a line that stays in place, and tables within its width."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.console import Console


_WIDEST = 1000
"""The columns where no terminal says how many there are; a row that is broken in two is none for grep."""


class StandingLine:
    """One line on standard error, as long as the terminal is wide; it vanishes at the end."""

    def __init__(self, console: "Console | None" = None) -> None:
        # rich is loaded for a terminal only.
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        console = console or Console(stderr=True, highlight=False)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def start(self) -> None:
        """Takes the terminal, which ssh may have had until now, for passwords."""
        self._live.start()

    def draw(self, line: str) -> None:
        """Draws the line in place of the last one."""
        from rich.text import Text  # noqa: PLC0415

        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def stop(self) -> None:
        """Takes the line away, until it is started again."""
        self._live.stop()


def print_parts(*parts: object) -> None:
    """Prints each part below the other: within a terminal's width, and elsewhere a row a line."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDEST)
    for part in parts:
        console.print(part)
