import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise

import pytest
from atwork import Path, never_too_much, played
from guaranteed import POLICY, policies
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import HowdahError, __version__
from howdah.control.allocation import allocate
from howdah.control.leases.agent import AFTER_NS, LOOK_NS
from howdah.control.leases.messages import (
    BEATS_PER_LEASE,
    REPORTS,
    SCHEMA,
    Report,
    agent_keys,
    encode,
    key_of,
)
from howdah.control.policy import Policy
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import loads
from howdah.control.running.operations import Operations
from howdah.control.running.outbox import PACE_S

LSST = loads(POLICY, "lsst.toml")
SEVERAL_PACES_S = 6 * PACE_S
"""An order lowers, hears so, raises, and hears so; and each party may just have sent something."""


def test_what_the_policy_says_is_soon_in_force_and_placed() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        assert await path.settle(operations) < SEVERAL_PACES_S
        assert path.rates_bps() == allocate(LSST)
        for host, table in path.tables.items():
            assert table.placed == {flow.id: flow.member for flow in LSST.flows if flow.member.agent == host}

    played(LSST, play, never_too_much)


def test_an_order_is_in_force_within_some_paces_and_ends_in_time() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        for _ in range(5):
            revision = await operations.ask("images", "me", for_s=3)
            assert await path.settle(operations, revision) < SEVERAL_PACES_S
            assert path.rates_bps() == allocate(LSST, {"images"})
            await asyncio.sleep(2.8)
            assert path.rates_bps() == allocate(LSST, {"images"})
            await asyncio.sleep(0.2 + SEVERAL_PACES_S)
            assert path.rates_bps() == allocate(LSST)

    played(LSST, play, never_too_much)


LENDING = loads(POLICY.replace('active = "asked"', 'active = "asked"\nidle = "lent"'), "lsst.toml")
NOTICED_S = (AFTER_NS + 3 * LOOK_NS) / 1e9 + SEVERAL_PACES_S


def test_a_share_is_lent_while_its_flow_has_nothing_to_send() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        one, other = (path.tables[name] for name in ("base20", "base21"))
        one.silent, other.silent = {"images/base20"}, {"images/base21"}
        await path.settle(operations)
        await operations.ask("images", "me")
        await asyncio.sleep(NOTICED_S)
        assert path.rates_bps() == allocate(LENDING)
        assert {flow.flow for flow in operations.status().flows if flow.idle} == one.silent | other.silent
        one.silent = set()
        await asyncio.sleep(LOOK_NS / 1e9 + SEVERAL_PACES_S)
        assert path.rates_bps() == allocate(LENDING, {"images"}, {"images/base21": 0})
        other.silent = set()
        await asyncio.sleep(LOOK_NS / 1e9 + SEVERAL_PACES_S)
        assert path.rates_bps() == allocate(LENDING, {"images"})
        one.silent, other.silent = {"images/base20"}, {"images/base21"}
        await asyncio.sleep(NOTICED_S)
        assert path.rates_bps() == allocate(LENDING)

    played(LENDING, play, never_too_much)


TWO_HOSTS = """
name = "two"
guarantee = "1Gbit"
[class.left]
minimum = "1%"
[[class.left.member]]
host = "left"
to = "20.20.20.100"
[class.right]
minimum = "1%"
[[class.right.member]]
host = "right"
to = "20.20.20.100"
"""


def test_orders_that_come_faster_than_they_can_be_done_are_all_done_soon() -> None:
    """Were each begun at once, the next would come before it is in force, and none would ever be."""
    delay_s = 0.008

    async def play(path: Path) -> None:
        path.delay_s = delay_s
        operations = await path.begun()
        took_s = []

        async def ordered(number: int) -> None:
            loop = asyncio.get_running_loop()
            begun_s = loop.time()
            revision = await operations.change("left", {"weight": 1 + number % 7})
            await path.settle(operations, revision)
            took_s.append(loop.time() - begun_s)

        orders = []
        for number in range(100):
            orders.append(asyncio.create_task(ordered(number)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*orders)
        # A round that is under way, and its own: lower, hear so, raise, hear so.
        assert max(took_s) < 2 * (SEVERAL_PACES_S + 4 * delay_s)

    played(loads(TWO_HOSTS, "two.toml"), play, never_too_much)


@st.composite
def _steps(draw: st.DrawFn, policy: Policy) -> list[tuple[str, str, float]]:
    """What to do, to what, and how long to wait afterwards."""
    asked = [each.name for each in policy.classes if each.asked] or [policy.classes[0].name]
    hosts = sorted({flow.member.agent for flow in policy.flows})
    kinds = {"ask": asked, "release": asked, "drain": hosts, "undrain": hosts, "kill": hosts, "start": hosts}
    steps = []
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(sorted(kinds)))
        wait_s = draw(st.sampled_from([0.0, 0.001, PACE_S, 0.5, 3.0]))
        steps.append((kind, draw(st.sampled_from(kinds[kind])), wait_s))
    return steps


@settings(max_examples=40, deadline=None)
@given(policies().flatmap(lambda policy: st.tuples(st.just(policy), _steps(policy))))
def test_whatever_is_ordered_and_killed_the_sum_holds_and_the_end_is_as_wanted(
    given: tuple[Policy, list[tuple[str, str, float]]],
) -> None:
    policy, steps = given

    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        alive, asked, drained = set(path.tables), set(), set()
        for kind, name, wait_s in steps:
            if kind == "kill" and name in alive:
                alive.remove(name)
                await path.kill(name)
            elif kind == "start" and name not in alive:
                alive.add(name)
                path.agent(name)
            elif kind in {"ask", "release"}:
                with suppress(HowdahError):
                    policy.check_requestable(name)
                    await (operations.ask(name, "me") if kind == "ask" else operations.release(name, "me"))
                    (asked.add if kind == "ask" else asked.discard)(name)
            elif kind in {"drain", "undrain"}:
                await (operations.drain(name) if kind == "drain" else operations.undrain(name))
                (drained.add if kind == "drain" else drained.discard)(name)
            await asyncio.sleep(wait_s)
        for name in path.tables.keys() - alive:
            path.agent(name)
        await asyncio.sleep(2 * policy.lease_s)
        await path.settle(operations)
        nothing = {flow.id: 0 for flow in policy.flows if flow.member.agent in drained}
        assert path.rates_bps() == allocate(policy, asked, nothing)

    played(policy, play, never_too_much)


def test_another_controller_takes_over_in_under_two_seconds_and_no_share_moves() -> None:
    async def play(path: Path) -> None:
        one = path.controller("one")
        path.agents()
        await path.settle(one)
        two = path.controller("two")
        revision = await one.ask("images", "me")
        await path.settle(one, revision)
        before = path.rates_bps()
        assert two.status().leader == "one"
        assert not two.status().leads
        assert two.status().flows[0].target_bps is None
        await path.kill("one")
        for _ in range(200):
            await asyncio.sleep(0.01)
            assert path.rates_bps() == before
        assert two.status().leads
        assert two.status().settled
        assert [each.who for each in two.status().asked] == ["me"]
        await two.release("images", "me")
        await asyncio.sleep(SEVERAL_PACES_S)
        assert path.rates_bps() == allocate(LSST)

    played(LSST, play, never_too_much)


def test_a_controller_that_stops_gives_the_lead_away_at_once() -> None:
    async def play(path: Path) -> None:
        one = path.controller("one")
        path.agents()
        await path.settle(one)
        two = path.controller("two")
        await asyncio.sleep(1)
        await path.stop("one")
        await asyncio.sleep(0.3)
        assert two.status().leads

    played(LSST, play, never_too_much)


def test_without_a_controller_every_host_falls_back_when_its_lease_is_over() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        await path.kill("one")
        await asyncio.sleep(LSST.lease_s)
        assert set(path.rates_bps().values()) == {0}, "the policy says ordinary control"

    played(LSST, play, never_too_much)


def test_an_agent_that_starts_again_goes_on_without_a_jump() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        before = path.rates_bps()
        for _ in range(5):
            await path.kill("base23")
            await asyncio.sleep(0.3)
            path.agent("base23")
            for _ in range(200):
                await asyncio.sleep(0.01)
                assert path.rates_bps() == before

    played(LSST, play, never_too_much)


def test_an_agent_that_leaves_puts_all_back_and_nothing_of_it_stays_on_the_bus() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        agent = path.agent("base23")
        path.agent("base20")
        await asyncio.sleep(3)
        assert "background/base23" in path.rates_bps()
        await path.stop("base23")
        await agent.leave()
        assert not path.tables["base23"].held()
        assert not path.tables["base23"].placed
        assert await path.bus.get(REPORTS + "base23") is None
        async with path.bus.watch(agent_keys("base23")) as left:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(left), 0.01)
        await asyncio.sleep(0.1)
        host = next(host for host in operations.status().hosts if host.name == "base23")
        assert host.heard_s is None

    played(LSST, play, never_too_much)


def test_a_new_policy_takes_the_place_of_the_old_one() -> None:
    small = loads(POLICY.replace('"1Gbit"', '"500Mbit"').replace("base21", "base31"), "lsst.toml")

    async def play(path: Path) -> None:
        await path.begun()
        await path.stop("one")
        path.policy = small
        path.tables["base31"] = type(path.tables["base20"])()
        path.agent("base31")
        later = path.controller("two")
        await path.settle(later)
        assert path.rates_bps() == allocate(small)
        assert path.tables["base21"].placed == {}

    played(LSST, play)


def test_a_controller_behind_a_larger_epoch_leads_again_with_one_larger_still() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        first = operations.status().epoch
        assert first is not None
        seen = first + 10**6
        report = Report(agent="base20", incarnation=1, beat=1, epoch=seen, seq=0, left_ns=0, shares={})
        await path.bus.put(key_of(report), encode(report))
        await asyncio.sleep(2)
        epoch = operations.status().epoch
        assert epoch is not None
        assert epoch > seen
        await path.settle(operations)
        assert path.rates_bps() == allocate(LSST)

    played(LSST, play, never_too_much)


def test_reports_that_cannot_be_are_told_once_and_change_nothing() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        path.told.clear()
        odd = Report(agent="base99", incarnation=1, beat=1, epoch=0, seq=0, left_ns=0, shares={})
        for _ in range(3):
            await path.bus.put("report.base98", encode(odd))
            await path.bus.put("report.base97", b'{"schema": 99}')
            await path.bus.put("report.base99", encode(odd))
            await asyncio.sleep(0.1)
        assert sorted(path.told) == [
            "an agent says it is base99, which lsst does not have: base20, base21, base22, base23",
            f"report.base97 is a message of schema 99, howdah {__version__} reads schema {SCHEMA}; read it "
            "with the newer howdah that wrote it, or install a newer one as docs/install.md says",
            "report.base98 on the bus is about base99; give each host a name of its own",
        ]
        assert path.rates_bps() == allocate(LSST)

    played(LSST, play, never_too_much)


def test_a_controller_does_not_lead_over_what_another_version_has_granted() -> None:
    async def play(path: Path) -> None:
        await path.bus.put(f"{agent_keys('base20')}grant", b'{"schema": 99}')
        path.controller("one")
        with pytest.raises(HowdahError, match=r"agent\.base20\.grant is a message of schema 99"):
            await path.ended("one")

    played(LSST, play)


def test_an_agent_tells_once_what_it_does_not_understand_and_goes_on() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        path.told.clear()
        for _ in range(3):
            await path.bus.put(f"{agent_keys('base20')}call", b"{")
            await asyncio.sleep(0.1)
        assert len(path.told) == 1
        assert "agent.base20.call is not JSON" in path.told[0]
        revision = await operations.ask("images", "me")
        await path.settle(operations, revision)

    played(LSST, play, never_too_much)


def test_members_that_are_not_there_are_told_once_and_looked_for_at_every_beat() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        path.told.clear()
        table, looked = path.tables["base20"], 0
        place = table.place

        def wait(members: Mapping[str, Member]) -> list[str]:
            nonlocal looked
            looked += 1
            return ["/images.slice"]

        table.place = wait  # type: ignore[method-assign]
        await path.settle(operations, await operations.ask("images", "me"))
        await asyncio.sleep(5)
        waiting = "waiting for /images.slice: no such cgroup on this host"
        assert path.told == [waiting]
        assert looked > 5 * BEATS_PER_LEASE / LSST.lease_s
        table.place = place  # type: ignore[method-assign]
        await asyncio.sleep(1)
        table.place = wait  # type: ignore[method-assign]
        await asyncio.sleep(1)
        assert path.told == [waiting] * 2

    played(LSST, play, never_too_much)


def test_a_kernel_that_refuses_is_told_and_nothing_is_confirmed() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        path.told.clear()
        table = path.tables["base20"]
        hold = table.hold

        def refuse(flow: str, held: object) -> None:
            raise HowdahError("hold is not loaded")

        table.hold = refuse  # type: ignore[method-assign, assignment]
        await operations.ask("images", "me")
        await asyncio.sleep(5)
        assert path.told == ["hold is not loaded"]
        assert not operations.status().settled
        table.hold = hold  # type: ignore[method-assign]
        await path.settle(operations)
        assert path.rates_bps() == allocate(LSST, {"images"})

    played(LSST, play, never_too_much)


def test_what_a_dead_host_had_is_given_to_others_as_soon_as_its_lease_is_over() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        for wait_s in (0.0, 0.1, 0.2, 0.3):
            await asyncio.sleep(wait_s)
            await path.kill("base23")
            killed_s = asyncio.get_running_loop().time()
            await operations.ask("images", "me")
            while path.rates_bps()["images/base20"] < allocate(LSST, {"images"})["images/base20"]:
                await asyncio.sleep(0.001)
            spent_s = asyncio.get_running_loop().time() - killed_s
            assert spent_s < LSST.lease_s * 1.01 + SEVERAL_PACES_S
            await operations.release("images", "me")
            path.agent("base23")
            await asyncio.sleep(SEVERAL_PACES_S)
            await path.settle(operations)

    played(LSST, play, never_too_much)


def test_a_controller_that_begins_finds_the_orders_that_stand() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        await path.settle(operations, await operations.ask("images", "me"))
        before = path.rates_bps()
        await path.stop("one")
        path.controller("two")
        for _ in range(300):
            await asyncio.sleep(0.01)
            assert path.rates_bps() == before

    played(LSST, play, never_too_much)


def test_what_a_cut_line_swallowed_is_said_when_it_is_back() -> None:
    async def play(path: Path) -> None:
        path.agents()
        operations = path.controller("one")
        line = path._lines["one"]
        while line.puts == []:
            await asyncio.sleep(0)
        line.is_cut = True
        await asyncio.sleep(0.5)
        line.is_cut = False
        await asyncio.sleep(3)
        await path.settle(operations)
        assert path.rates_bps() == allocate(LSST)
        assert all(table.placed for table in path.tables.values())

    played(LSST, play, never_too_much)


def test_a_status_says_what_is_really_sent_and_what_a_lease_that_ran_out_leaves() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        await asyncio.sleep(3)
        status = operations.status()
        assert status.free_bps == LSST.trusted_bps - sum(allocate(LSST).values())
        for flow in status.flows:
            assert flow.share_bps == flow.target_bps == allocate(LSST)[flow.flow]
            assert flow.sent_bps == pytest.approx(flow.share_bps, rel=0.01, abs=20)
            assert flow.acked_bps == pytest.approx(flow.share_bps / 2, rel=0.01, abs=20)
            assert flow.connections == 3
        await path.kill("base23")
        await asyncio.sleep(LSST.lease_s)
        flow = next(flow for flow in operations.status().flows if flow.host == "base23")
        assert flow.share_bps == 0
        assert flow.target_bps == allocate(LSST)["background/base23"]

    played(LSST, play, never_too_much)


def test_a_watch_tells_soon_of_news_rarely_of_none_and_never_more_than_ten_times_a_second() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        loop = asyncio.get_running_loop()
        seen = []
        async for status in operations.watch():
            seen.append((loop.time(), status))
            if len(seen) == 10:
                path.agents()
            if len(seen) == 40:
                break
        gaps = [later - sooner for (sooner, _), (later, _) in pairwise(seen)]
        assert min(gaps) >= 0.0999
        assert max(gaps) <= 1.001
        assert seen[-1][1].settled
        assert not seen[0][1].settled

    played(LSST, play)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda it: it.ask("videos", "me"),
            "lsst has no class videos; it has background, images, replication",
        ),
        (lambda it: it.ask("background", "me"), "class background of lsst is always active"),
        (lambda it: it.ask("images", "a.b"), "who asks for images, 'a.b': give up to 64 letters"),
        (lambda it: it.ask("images", "me", 0), "images for 0 s: give 1 s to"),
        (lambda it: it.ask("images", "me", host="base23"), "class images of lsst has no host base23; it has"),
        (lambda it: it.release("images", ""), "who asks for images, ''"),
        (lambda it: it.change("videos", {"weight": 2}), "lsst has no class videos"),
        (lambda it: it.change("images", {}), "nothing to change for images: give fixed"),
        (lambda it: it.change("images", {"color": 2}), "color"),
        (lambda it: it.change("background", {"minimum": "99%"}), "more than the"),
        (lambda it: it.change("replication", {"fixed": "1%"}), "an order cannot make its minimum smaller"),
        (lambda it: it.restore("videos"), "lsst has no class videos"),
        (lambda it: it.drain("base9"), "lsst has no host base9; it has base20, base21, base22, base23"),
        (lambda it: it.undrain("base9"), "lsst has no host base9"),
    ],
)
def test_an_order_that_cannot_be_is_refused_before_it_is_on_the_bus(call, says: str) -> None:  # noqa: ANN001
    async def play(path: Path) -> None:
        operations: Operations = path.controller("one")
        await asyncio.sleep(0.1)
        with pytest.raises(HowdahError) as refused:
            await call(operations)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
        assert operations.status().revision == 0

    played(LSST, play)


def test_an_order_that_is_none_is_told_and_the_others_stand() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        await path.bus.put("order.nonsense", b"")
        revision = await operations.ask("images", "me")
        await path.settle(operations, revision)
        assert path.rates_bps() == allocate(LSST, {"images"})
        assert "order.nonsense on the bus is not an order; delete it" in path.told

    played(LSST, play, never_too_much)
