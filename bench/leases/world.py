"""One schedule: hosts, controllers, the bus between them, and all that happens to them.

Of who plays the world knows only what messages and kernels show.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from bench.leases.controller_host import ControllerHost
from bench.leases.ground import SOUND, Ground, Variant
from bench.leases.host import Host
from bench.leases.network import STORE
from bench.leases.scene import SETTLED_LEASES, Event, Scene, drawn
from bench.leases.timeline import NS_PER_S
from bench.leases.watch import Watch
from howdah.control.allocation import Targets
from howdah.control.policy.orders import Orders


class Outcome(NamedTuple):
    """What became of a schedule."""

    broken: dict[str, int]
    """What must never be and was, with the true time in ns."""
    events: int
    looks: int
    """Instants at which the sum was checked."""
    met: Counter[str]
    """What happened, by kind."""


def run(seed: int, variant: Variant = SOUND) -> Outcome:
    """The schedule of this seed: the same seed gives the same."""
    random = Random(seed)  # noqa: S311, a schedule and no secret
    world = World(drawn(random), random, variant)
    world.start()
    done = world.timeline.run(world.scene.rough_ns + int(SETTLED_LEASES * world.lease_ns))
    world.watch.ended({name: world.goal_bps(name) for name in world.hosts})
    return Outcome(world.watch.broken, done, world.watch.looks, world.met)


class World(Ground):
    """All there is."""

    watch: Watch

    def __init__(self, scene: Scene, random: Random, variant: Variant = SOUND) -> None:
        super().__init__(scene, random, variant)
        minimums = self.targets.minimums_bps
        self.hosts = {name: Host(self, name, minimums[name], scene.clocks()) for name in minimums}
        self.controller_hosts = [
            ControllerHost(self, f"control{number}", scene.clocks())
            for number in range(scene.controller_hosts)
        ]
        self.watch = Watch(self, self.hosts, self.controller_hosts)

    def start(self) -> None:
        """Plans all that the scene says."""
        starting: list[Host | ControllerHost] = [*self.hosts.values(), *self.controller_hosts]
        for each in starting:
            self.timeline.at(self.random.randrange(NS_PER_S // 4), each.start)
        for event in self.scene.events:
            self.timeline.at(event.at_ns, self._happen, event)
        self.timeline.at(self.scene.rough_ns, self._clear)

    @property
    def leader(self) -> ControllerHost | None:
        """Whose controller the bus has as leader."""
        holder = self.store.record and self.store.record.holder
        return next(
            (each for each in self.controller_hosts if holder and holder.startswith(f"{each.name} ")), None
        )

    def order(self, orders: Orders) -> None:
        """These are wanted from now on."""
        self.orders = orders
        self._spread()

    def goal_bps(self, host: str) -> Mapping[str, int]:
        """What a host is to have in the end."""
        idle = frozenset[str]().union(*(each.idle() for each in self.hosts.values()))
        return self.rates_bps(self.targets, self.orders, idle)[host]

    def _happen(self, event: Event) -> None:
        self.met[event.kind] += 1
        match event.kind:
            case "orders":
                self._draw_order()
            case "fell silent or spoke":
                self._fall_silent()
            case "agent killed":
                self.random.choice(list(self.hosts.values())).kill(event.again_ns)
            case "host rebooted":
                self.random.choice(list(self.hosts.values())).reboot(event.again_ns)
            case "leader killed":
                (self.leader or self.controller_hosts[0]).kill(event.again_ns)
            case "controller killed":
                self.random.choice(self.controller_hosts).kill(event.again_ns)
            case "some cut off":
                self._cut(event.again_ns)
            case "two cut off from each other":
                self._part(event.again_ns)
            case "policy file changed":
                self._change_policy()

    def _fall_silent(self) -> None:
        host = self.random.choice(list(self.hosts.values()))
        host.speak(frozenset(flow for flow in host.minimums_bps if self.random.random() < 0.5))

    def _cut(self, again_ns: int) -> None:
        names = [*self.hosts, *(each.name for each in self.controller_hosts)]
        names = self.random.sample(names, self.random.randint(1, 1 + len(names) // 2))
        self.network.cut.update(names)
        self.timeline.at(self.timeline.now_ns + again_ns, self.network.cut.difference_update, names)

    def _part(self, again_ns: int) -> None:
        one, other = self.random.choice(list(self.hosts)), self.random.choice(self.controller_hosts).name
        self.network.apart.update(pairs := {(one, other), (other, one)})
        self.timeline.at(self.timeline.now_ns + again_ns, self.network.apart.difference_update, pairs)

    def _change_policy(self) -> None:
        """Controllers are started anew with another file, one after another."""
        if self.targets.policy is self.scene.policy:
            self.targets = Targets(self.scene.later)
            for host in self.hosts.values():
                host.may_fall_to(self.targets.minimums_bps[host.name])
            for each in self.controller_hosts:
                self.timeline.at(self.timeline.now_ns + self.pause_ns(), each.kill, self.pause_ns() // 2)

    def _draw_order(self) -> None:
        """Somebody asks for the images, for all hosts or one, or no longer, drains a host, or sets terms."""
        random, old = self.random, self.orders
        asked, drained, changed, hosts = old.requested, old.drained, old.changed, old.hosts
        draw = random.random()
        if draw < 0.5:
            asked ^= {"images"}
        elif draw < 0.6:
            hosts = {} if hosts else {"images": frozenset({random.choice(list(self.hosts))})}
        elif draw < 0.75:
            drained ^= {random.choice(list(self.hosts))}
        else:
            changed = {
                "background": {"weight": random.randint(1, 9)}
                if random.random() < 0.5
                else {"maximum": f"{random.randint(20, 90)}%"}
            }
        revision = old.revision + 1
        self.order(Orders(revision=revision, requested=asked, hosts=hosts, drained=drained, changed=changed))

    def _spread(self) -> None:
        for each in self.controller_hosts:
            self.network.carry(STORE, each.name, each.order, self.orders)

    def _clear(self) -> None:
        self.rough = False
        self.network.clear()
        for host in self.hosts.values():
            host.start()
        for each in self.controller_hosts:
            each.start()
        self._spread()
