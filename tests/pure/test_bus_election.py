"""Leadership over a store that is slow, lossy, and may lose everything; by clocks that run apart."""

import asyncio
import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shaky import ShakyBus, Store
from virtual import run

from howdah.control.bus import Entry, LocalBus, leadership
from howdah.control.bus.leadership import DRIFT, Claim, Election, LeaderRecord, Leadership, stand

TTL_S = 1.0
FAULTS_S = 15.0
CALM_S = 4 * TTL_S
SEEDS = st.integers(0, 2**32)


class Candidate:
    """A party with a clock of its own; when it crashes, what it believed goes on being checked."""

    def __init__(self, store: Store, rng: random.Random, drift: float) -> None:
        self.bus = ShakyBus(store, rng)
        self._rate = 1 + rng.choice([-drift, 0, drift])
        self._offset_ns = rng.randrange(10**15)
        self.leadership = self._new()
        self._task = asyncio.create_task(self.leadership.campaign())

    def restart(self) -> Leadership:
        """Crashes, and starts again; returns who it was."""
        self._task.cancel()
        before, self.leadership = self.leadership, self._new()
        self._task = asyncio.create_task(self.leadership.campaign())
        return before

    def _new(self) -> Leadership:
        return Leadership(self.bus, "leader.control", TTL_S, self._clock_ns)

    def _clock_ns(self) -> int:
        return self._offset_ns + round(asyncio.get_running_loop().time() * self._rate * 1e9)


class Simulation:
    """Some seconds of faults, then calm; who leads is looked at whenever anything has happened."""

    def __init__(self, seed: int, drift: float = DRIFT) -> None:
        self._rng = random.Random(seed)  # noqa: S311
        self._drift = drift
        self._store = Store()
        self._candidates: list[Candidate] = []
        self._believers: list[Leadership] = []
        self.together = 0
        self.epochs: list[int] = []
        self.led_in_the_end = False

    def run(self) -> "Simulation":
        run(self._main(), each=self._look)
        return self

    async def _main(self) -> None:
        self._candidates = [
            Candidate(self._store, self._rng, self._drift) for _ in range(self._rng.randint(2, 4))
        ]
        self._believers = [each.leadership for each in self._candidates]
        while asyncio.get_running_loop().time() < FAULTS_S:
            self._fault()
            await asyncio.sleep(self._rng.expovariate(2.0))
        for candidate in self._candidates:
            candidate.bus.loss, candidate.bus.delay_s = 0.0, 0.01
        await asyncio.sleep(CALM_S)
        self.led_in_the_end = any(each.leadership.epoch for each in self._candidates)

    def _fault(self) -> None:
        candidate = self._rng.choice(self._candidates)
        match self._rng.randrange(5):
            case 0:
                candidate.bus.connection += 1
            case 1:
                candidate.bus.loss = self._rng.choice([0.0, 0.0, 0.3, 1.0])
            case 2:
                candidate.bus.delay_s = self._rng.choice([0.001, 0.01, 0.1])
            case 3:
                candidate.restart()
                self._believers.append(candidate.leadership)
            case 4:
                self._store.lose_all()

    def _look(self) -> None:
        leading = [epoch for each in self._believers if (epoch := each.epoch) is not None]
        self.together = max(self.together, len(leading))
        for epoch in leading:
            if epoch not in self.epochs:
                self.epochs.append(epoch)


@given(SEEDS)
@settings(max_examples=60)
def test_nobody_leads_beside_another_and_epochs_grow_whatever_happens(seed: int) -> None:
    simulation = Simulation(seed).run()
    assert simulation.together <= 1
    assert all(earlier < later for earlier, later in pairwise(simulation.epochs))
    assert simulation.led_in_the_end


class CountsFromTheReply(Election):
    def sending(self, claim: Claim, connection: int, now_ns: int) -> None:
        super().sending(claim, connection, now_ns + round(0.3 * TTL_S * 1e9))


class TakesWhatIsMissing(Election):
    def __init__(self, me: str, ttl_ns: int, *, forgets: bool) -> None:
        super().__init__(me, ttl_ns, forgets=False)


class TakesWithoutWaiting(Election):
    def _wait_ns(self, record: LeaderRecord | None) -> int:
        return super()._wait_ns(record) // 2


@pytest.mark.parametrize("mutant", [CountsFromTheReply, TakesWhatIsMissing, TakesWithoutWaiting])
def test_the_simulation_finds_what_would_be_wrong(
    monkeypatch: pytest.MonkeyPatch, mutant: type[Election]
) -> None:
    monkeypatch.setattr(leadership, "Election", mutant)
    assert any(Simulation(seed).run().together > 1 for seed in range(60))


def test_the_simulation_finds_clocks_further_apart_than_is_allowed_for() -> None:
    assert any(Simulation(seed, drift=0.15).run().together > 1 for seed in range(60))


def test_in_one_process_nobody_waits_to_lead_and_the_next_follows_at_once() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = {"clock_ns": lambda: round(loop.time() * 1e9)}
        bus = LocalBus()
        async with stand(bus, "control", ttl_s=TTL_S, **clock) as first:
            epoch = await first.won()
            assert loop.time() == 0
            async with stand(bus, "control", ttl_s=TTL_S, **clock) as second:
                await asyncio.sleep(10 * TTL_S)
                assert (first.epoch, second.epoch) == (epoch, None)
        async with stand(bus, "control", ttl_s=TTL_S, **clock) as third:
            assert await third.won() > epoch
            assert loop.time() == pytest.approx(10 * TTL_S)

    run(main())


@pytest.mark.parametrize("set_back_s", [0, 3600])
def test_a_record_deleted_by_hand_is_waited_for_as_any_that_is_missing(
    set_back_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epoch is passed even where the wall clock stands still or was set back meanwhile."""
    now_s = 1_800_000_000

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(time, "time_ns", lambda: now_s * 10**9)
        store = Store()
        bus = ShakyBus(store, random.Random(1))  # noqa: S311
        async with stand(bus, "control", ttl_s=TTL_S, clock_ns=lambda: round(loop.time() * 1e9)) as leader:
            epoch = await leader.won()
            await asyncio.sleep(3 * TTL_S)
            store.entries.clear()
            monkeypatch.setattr(time, "time_ns", lambda: (now_s - set_back_s) * 10**9)
            await leader.lost(epoch)
            lost_s = loop.time()
            assert await leader.won() > epoch
            assert loop.time() - lost_s >= TTL_S

    run(main())


def test_an_epoch_seen_elsewhere_is_passed() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        async with stand(
            LocalBus(), "control", ttl_s=TTL_S, clock_ns=lambda: round(loop.time() * 1e9)
        ) as leadership:
            leadership.above(10**15)
            return await leadership.won()

    assert run(main()) == 10**15 + 1


def test_a_leader_cut_off_knows_by_its_clock_that_its_term_is_over() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        bus = ShakyBus(Store(), random.Random(1))  # noqa: S311
        async with stand(bus, "control", ttl_s=TTL_S, clock_ns=lambda: round(loop.time() * 1e9)) as leader:
            epoch = await leader.won()
            bus.loss = 1.0
            await leader.lost(epoch)
            assert loop.time() == pytest.approx(leader.until_ns / 1e9)

    run(main())


def test_a_leader_that_stood_still_says_how_late_its_renewal_was() -> None:
    async def main() -> str:
        loop, stood_still_ns = asyncio.get_running_loop(), 0

        def clock_ns() -> int:
            return stood_still_ns + round(loop.time() * 1e9)

        async with LocalBus() as bus, stand(bus, "x", ttl_s=TTL_S, clock_ns=clock_ns) as leader:
            epoch = await leader.won()
            await asyncio.sleep(TTL_S)
            stood_still_ns = 3_000_000_000
            await leader.lost(epoch)
            return leader.why_lost

    assert run(main()) == "its renewal was 3.0 s late, as on a host that is paused or overloaded"


class Broken(LocalBus):
    """A bus of which a question fails as nobody thought of, once."""

    breaks = False

    async def get(self, key: str) -> Entry | None:
        if self.breaks:
            raise KeyError(key)
        return await super().get(key)


@pytest.mark.parametrize("before", [True, False])
def test_an_error_that_nobody_thought_of_ends_who_waits_for_the_election(before: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with Broken() as bus:
            bus.breaks = before
            async with stand(bus, "x", ttl_s=TTL_S, clock_ns=lambda: round(loop.time() * 1e9)) as leader:
                with pytest.raises(KeyError):
                    async with asyncio.timeout(10 * TTL_S):
                        epoch = await leader.won()
                        bus.breaks = True
                        await leader.lost(epoch)
                        await leader.won()

    run(main())
