"""How long things take where nothing is lost: a change of shares, and a takeover."""

from random import Random

from bench.leases.clock import Clock
from bench.leases.network import Weather
from bench.leases.scene import Scene, class_of, policy_of
from bench.leases.timeline import NS_PER_S
from bench.leases.world import World
from howdah.control.policy.orders import Orders
from howdah.control.policy.terms import Change, Terms

LEASE_NS = 2 * NS_PER_S
STEP_NS = NS_PER_S // 10_000


def world_of(delay_ns: int, seed: int = 1) -> World:
    """The four hosts of the paper and two controllers, at work for 3 s."""
    percent = 10_000_000
    classes = [
        class_of("background", ["base23"], Terms(percent), {}),
        class_of("images", ["base20", "base21"], Terms(2 * percent, priority=1), {"background": Change()}),
        class_of("replication", ["base22"], Terms(5 * percent, 5 * percent)),
    ]
    random = Random(seed)  # noqa: S311, a schedule and no secret
    policy = policy_of(classes, LEASE_NS)
    scene = Scene(
        policy=policy,
        later=policy,
        weather=Weather(delay_ns, lost=0, doubled=0, late=0),
        clocks=lambda: Clock(random.randrange(10**16), random.randint(-100, 100)),
        controller_hosts=2,
        events=[],
        rough_ns=0,
    )
    world = World(scene, random)
    world.start()
    world.timeline.run(3 * NS_PER_S)
    return world


def change_ns(world: World) -> int:
    """From an order on the bus until all that it wants is in force."""
    began_ns = world.timeline.now_ns
    world.order(Orders(revision=world.orders.revision + 1, requested=world.orders.requested ^ {"images"}))
    while not at_goal(world):
        _step(world, began_ns)
    return world.timeline.now_ns - began_ns


def takeover_ns(world: World) -> tuple[int, bool]:
    """From the leader's death until all agents have a new Grant, and whether all kept what they had."""
    dead = world.leader
    if dead is None:
        raise RuntimeError("nobody leads")
    began_ns, epochs, kept = world.timeline.now_ns, _epochs(world), at_goal(world)
    dead.kill(again_ns=1000 * NS_PER_S)
    while any(epoch in epochs for epoch in _epochs(world)):
        _step(world, began_ns)
        kept &= at_goal(world)
    return world.timeline.now_ns - began_ns, kept


def at_goal(world: World) -> bool:
    """Whether all that is wanted is in force."""
    now_ns = world.timeline.now_ns
    return all(host.rates_bps(now_ns) == world.goal_bps(name) for name, host in world.hosts.items())


def _epochs(world: World) -> set[int]:
    return {host.obeys.epoch if host.obeys else 0 for host in world.hosts.values()}


def _step(world: World, began_ns: int) -> None:
    if world.timeline.now_ns > began_ns + 10 * LEASE_NS:
        raise RuntimeError("it never came to an end")
    world.timeline.run(world.timeline.now_ns + STEP_NS)
