"""The keys of ``config.toml``: ``[host.NAME]``, where NAME is a pattern of far hosts."""

import msgspec

from howdah import ports
from howdah._native import check_host_pattern
from howdah.tomlfile import Tables


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[host.NAME]``: far hosts whose name fits."""

    ports: str | None = None

    def __post_init__(self) -> None:
        self.range()

    def range(self) -> tuple[int, int] | None:
        """The ports of which the far end opens one. Raises ValueError, in words."""
        return None if self.ports is None else ports.parse(self.ports)


class HostFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    host: Tables[Host] = msgspec.field(default_factory=Tables[Host])

    def __post_init__(self) -> None:
        for pattern in self.host:
            check_host_pattern(pattern)
