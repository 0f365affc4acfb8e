"""What goes wrong again and again is said once, until it is right again."""

from collections.abc import Callable

Tell = Callable[[str], None]


class Complaints:
    """Of one party; ``about`` is what it is that goes wrong, as a key of the bus."""

    def __init__(self, tell: Tell) -> None:
        """``tell`` gets one line each."""
        self._tell = tell
        self._told: dict[str, str] = {}

    def wrong(self, about: str, error: Exception) -> None:
        """Says so, unless it was said last."""
        if self._told.get(about) != str(error):
            self._told[about] = str(error)
            self._tell(str(error))

    def right(self, about: str) -> None:
        """It works."""
        self._told.pop(about, None)
