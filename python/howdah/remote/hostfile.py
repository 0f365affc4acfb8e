"""The keys of ``config.toml``: ``[host.NAME]``, where NAME is a pattern of far hosts."""

import msgspec

from howdah import HowdahError, bounds
from howdah._native import check_host_pattern
from howdah.tomlfile import Tables
from howdah.values.limit import Limits


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[host.NAME]``: far hosts whose name fits."""

    ports: str | None = None
    limit: str | None = None

    def __post_init__(self) -> None:
        self.range()
        try:
            self.limits()
        except HowdahError as error:
            raise ValueError(str(error)) from None

    def range(self) -> tuple[int, int] | None:
        """The ports of which the far end opens one. Raises ValueError, in words."""
        return None if self.ports is None else bounds.ports(self.ports)

    def limits(self) -> Limits:
        """What copies from and to there may send. Raises HowdahError."""
        return Limits() if self.limit is None else Limits.parse(self.limit, "limit =")


class HostFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    host: Tables[Host] = msgspec.field(default_factory=Tables[Host])

    def __post_init__(self) -> None:
        for pattern in self.host:
            check_host_pattern(pattern)
