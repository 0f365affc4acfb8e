"""All of a lab's network: the link and what is at its ends, hosts or whole LANs.

Its namespaces exist only as descriptors of this process, so they end with it.
"""

from typing import NamedTuple

import msgspec

from howdah import decoding
from howdah._native import Emulator, LinkMark
from howdah.lab import hosts, lan, namespaces
from howdah.lab.hosts import HostCommands
from howdah.lab.topology import ENDS, Topology
from howdah.values.link import LinkSpec, LinkStats


class NetworkMark(NamedTuple):
    """The counters at an instant."""

    link: LinkMark
    cables: lan.Drops


class Network:
    """The network of one lab; no packet crosses the link before ``start``."""

    def __init__(self, link: LinkSpec, topology: Topology, congestion_control: str) -> None:
        """Makes the whole network. Raises HowdahError naming what the machine refuses."""
        self._link, self._topology = link, topology
        self._emulator = Emulator(msgspec.json.encode(link))
        self.namespaces = {name: self._emulator.namespace_fd(end) for end, name in topology.ends.items()}
        """Descriptors of this process, by host or router."""
        self.notes: list[str] = []
        """The features that the network must do without, a line each."""
        self._begun: lan.Drops = {}
        settings = hosts.sysctls(link, congestion_control)
        if topology.lan is None:
            for end, name in topology.ends.items():
                self._configure(
                    name, HostCommands(settings, hosts.end_of_link(end, self._emulator.device, link))
                )
        else:
            self._make_lans(settings)

    def path(self, name: str) -> str:
        """The path to the namespace of a host or router."""
        return namespaces.path(self.namespaces[name])

    def start(self) -> None:
        """Starts the clock of the link's schedule."""
        if self._topology.lan:
            # Cables came up one end after the other, and what IPv6 said meanwhile was lost.
            lan.settle_cables(self._topology, self.namespaces)
        self._begun = self._drops()
        self._emulator.start()

    def ended_fd(self) -> int:
        """A descriptor that is readable once packets move no more; ``stop`` then raises the reason."""
        return self._emulator.ended_fd()

    def mark(self) -> NetworkMark:
        """A mark from which statistics may count."""
        return NetworkMark(self._emulator.mark(), self._drops())

    def stats(self, since: NetworkMark | None = None) -> LinkStats:
        """The statistics so far, or since a mark."""
        return self._whole(self._emulator.stats(since.link if since else None), since)

    def stop(self) -> LinkStats:
        """Stops the link. Raises HowdahError when it had stopped by itself."""
        return self._whole(self._emulator.stop(), None)

    def _make_lans(self, settings: dict[str, str]) -> None:
        topology, link = self._topology, self._link
        names = [host.name for host in topology.hosts]
        self.namespaces |= dict(zip(names, namespaces.make(len(names)), strict=True))
        paths = {name: self.path(name) for name in names}
        for end in ENDS:
            router = lan.router(end, topology, link, self._emulator.device, paths)
            self._configure(topology.ends[end], router)
            for host in topology.side(end):
                own = lan.host(end, host, topology, link)
                self._configure(host.name, msgspec.structs.replace(own, sysctls={**settings, **own.sysctls}))

    def _configure(self, name: str, commands: HostCommands) -> None:
        self.notes += hosts.configure(name, self.path(name), commands)

    def _drops(self) -> lan.Drops:
        return lan.count_drops(self._topology, self.namespaces) if self._topology.lan else {}

    def _whole(self, counted: bytes, since: NetworkMark | None) -> LinkStats:
        stats = decoding.from_json(counted, LinkStats)
        if self._topology.lan is None:
            return stats
        earlier = since.cables if since else self._begun
        return lan.with_drops(stats, lan.drops_since(self._drops(), earlier))
