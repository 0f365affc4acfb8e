"""Controllers, agents and their bus in virtual time: what may never be, never is, and mistakes are found."""

from itertools import count

import pytest

from bench.leases.clock import PPM_MAX, Clock
from bench.leases.mutants import FOUND_WITHIN, MUTANTS, schedules_until
from bench.leases.quiet import at_goal, change_ns, takeover_ns, world_of
from bench.leases.watch import NEVER
from bench.leases.world import World, run

SCHEDULES = 400
DELAY_NS = 10_000_000


def test_nothing_is_ever_promised_twice_and_all_get_theirs_in_the_end() -> None:
    """``make bench-leases`` looks at hundreds of thousands."""
    broken = {seed: found for seed in range(SCHEDULES) if (found := run(seed).broken)}
    assert broken == {}


def test_nothing_is_promised_twice_where_every_agent_seems_older_than_its_forerunner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only how soon all get theirs depends on the order of incarnations."""
    numbers = count(1_000_000, -1)
    monkeypatch.setattr(World, "number", lambda world: next(numbers))
    broken = {seed: found for seed in range(SCHEDULES) if (found := run(seed).broken.keys() & NEVER)}
    assert broken == {}


def test_schedules_meet_all_that_can_go_wrong() -> None:
    met = sum((run(seed).met for seed in range(40)), start=run(40).met)
    assert met.keys() == {
        "agent killed",
        "agent killed while it wrote",
        "controller killed",
        "doubled",
        "fell silent or spoke",
        "host rebooted",
        "late",
        "leader killed",
        "lost",
        "orders",
        "policy file changed",
        "some cut off",
        "takeover",
        "two cut off from each other",
    }
    assert min(met.values()) >= 5


def test_a_seed_tells_all() -> None:
    assert run(5) == run(5)
    assert run(5) != run(6)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_every_mistake_is_found(mistake: str) -> None:
    assert schedules_until(mistake, NEVER, FOUND_WITHIN) is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_change_takes_the_time_of_four_messages(seed: int) -> None:
    """The order, to who is lowered, back, to who is raised; each takes 0.5 to 1.5 of the delay."""
    world = world_of(DELAY_NS, seed)
    assert at_goal(world)
    for _ in range(2):
        assert 2 * DELAY_NS < change_ns(world) < 6 * DELAY_NS
        world.timeline.run(world.timeline.now_ns + 50 * DELAY_NS)


@pytest.mark.parametrize("seed", range(3))
def test_a_takeover_takes_less_than_2_s_and_no_rate_changes(seed: int) -> None:
    world = world_of(DELAY_NS, seed)
    change_ns(world)
    took_ns, kept = takeover_ns(world)
    assert kept
    assert 0 < took_ns < 2_000_000_000


@pytest.mark.parametrize("ppm", [-PPM_MAX, -1, 0, 1, PPM_MAX])
def test_a_clock_is_read_as_it_is_waited_for(ppm: int) -> None:
    clock = Clock(123, ppm)
    for shown_ns in range(1_000_000_000_000, 1_000_000_000_400):
        when_ns = clock.when(shown_ns)
        assert clock.read(when_ns) >= shown_ns > clock.read(when_ns - 1)
