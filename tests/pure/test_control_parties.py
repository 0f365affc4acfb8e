"""Controllers and agents that come, go and are too many: what stays in force, and what is told."""

import asyncio
from collections.abc import Mapping

import pytest
from atwork import Path, Table, never_too_much, now_ns, played
from guaranteed import POLICY

from howdah import HowdahError
from howdah.control.leases.messages import LEADER
from howdah.control.policy.members import Member
from howdah.control.policy.policyfile import loads
from howdah.control.running.agent import RunningAgent

LSST = loads(POLICY, "lsst.toml")


def test_an_agent_that_was_ended_and_starts_again_has_its_rules_again() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        placed = dict(path.tables["base23"].placed)
        for pause_s in (0.0, 0.1, 5.0):
            agent = path.running["base23"]
            await path.stop("base23")
            await agent.leave()
            assert not path.tables["base23"].placed
            await asyncio.sleep(pause_s)
            path.agent("base23")
            await asyncio.sleep(LSST.lease_s)
            assert path.tables["base23"].placed == placed
            await path.settle(operations)

    played(LSST, play, never_too_much)


def test_a_host_without_its_rules_is_not_said_to_have_what_is_ordered() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        table = path.tables["base20"]
        place = table.place

        def refuse(members: Mapping[str, Member]) -> list[str]:
            raise HowdahError("too many rules")

        table.place = refuse  # type: ignore[method-assign]
        await asyncio.sleep(LSST.lease_s)
        status = operations.status()
        assert not status.settled
        assert [flow.flow for flow in status.flows if flow.placed is False] == ["images/base20"]
        table.place = place  # type: ignore[method-assign]
        await asyncio.sleep(LSST.lease_s)
        assert operations.status().settled
        assert all(flow.placed for flow in operations.status().flows)

    played(LSST, play, never_too_much)


def test_a_request_is_not_in_force_on_hosts_whose_leases_have_run_out() -> None:
    """What is asked for anew changes no target, so nothing has to be confirmed."""

    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        await path.settle(operations, await operations.ask("images", "me"))
        for host in path.tables:
            await path.kill(host)
        await asyncio.sleep(2 * LSST.lease_s)
        await operations.ask("images", "me", for_s=5)
        status = operations.status()
        assert status.leads
        assert not status.settled

    played(LSST, play, never_too_much)


def test_a_drained_host_may_be_away() -> None:
    async def play(path: Path) -> None:
        operations = path.controller("one")
        path.agents()
        await path.settle(operations, await operations.drain("base21"))
        await path.stop("base21")
        await path.running["base21"].leave()
        await asyncio.sleep(2 * LSST.lease_s)
        await path.settle(operations, await operations.ask("images", "me"))

    played(LSST, play, never_too_much)


def test_a_leader_goes_on_to_lead_while_every_agent_is_silent() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        for host in path.tables:
            await path.kill(host)
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert operations.status().leads
        assert not [line for line in path.told if "does not lead" in line]

    played(LSST, play, never_too_much)


def test_why_a_controller_leads_no_longer_is_said() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        path.told.clear()
        path._lines["one"].is_cut = True
        await asyncio.sleep(3)
        assert path.told == ["one does not lead any more: the line is cut"]
        assert operations.status().trouble == "the line is cut"
        path._lines["one"].is_cut = False
        await asyncio.sleep(3)
        assert path.told[1:] == ["one leads"]
        assert operations.status().trouble is None

    played(LSST, play, never_too_much)


def test_two_agents_of_one_host_are_told_once() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        path.told.clear()
        other = RunningAgent("base20", path.bus, Table(), tell=path.told.append, clock_ns=now_ns)
        task = asyncio.create_task(other.run())
        await asyncio.sleep(5)
        assert path.told == ["two agents report as base20 in turn; a host has one: end the other"]
        task.cancel()

    played(LSST, play)


def test_an_agent_that_starts_again_is_not_taken_for_two() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        path.told.clear()
        for _ in range(3):
            await path.kill("base20")
            path.agent("base20")
            await asyncio.sleep(1)
        assert path.told == []

    played(LSST, play, never_too_much)


def test_a_controller_of_another_policy_is_refused_while_the_first_leads() -> None:
    other = loads(POLICY.replace('name = "lsst"', 'name = "other"'), "other.toml")

    async def play(path: Path) -> None:
        await path.begun()
        path.policy = other
        path.controller("two")
        with pytest.raises(HowdahError) as refused:
            await asyncio.wait_for(path.ended("two"), 2)
        assert str(refused.value) == (
            "one leads on this bus by the policy lsst, and this one is other: give each policy a NATS "
            "server or account of its own, or end all controllers of lsst first"
        )
        assert path.told == ["one leads"]
        # What a leader that has gone has left on the bus refuses nobody.
        await path.kill("one")
        later = path.controller("three")
        await asyncio.sleep(2)
        assert later.status().leads

    played(LSST, play)


def test_another_content_of_the_same_policy_is_told() -> None:
    changed = loads(POLICY.replace('"1Gbit"', '"900Mbit"'), "lsst.toml")
    assert changed.digest != LSST.digest
    assert loads(POLICY + "# The same.\n", "lsst.toml").digest == LSST.digest

    async def play(path: Path) -> None:
        operations = await path.begun()
        path.policy = changed
        two = path.controller("two")
        await asyncio.sleep(3)
        assert path.told == [
            "one leads",
            "one leads by another content of lsst than two has read: give all controllers the same file",
        ]
        assert two.status().differs
        assert not operations.status().differs
        await path.stop("one")
        await asyncio.sleep(1)
        assert two.status().leads
        assert not two.status().differs

    played(LSST, play)


def test_a_leader_that_does_not_name_its_policy_is_followed() -> None:
    async def play(path: Path) -> None:
        operations = await path.begun()
        leading = f'{{"controller": "one", "epoch": {operations.status().epoch}}}'
        await path.bus.put(LEADER, leading.encode())
        path.policy = loads(POLICY.replace('name = "lsst"', 'name = "other"'), "other.toml")
        two = path.controller("two")
        await asyncio.sleep(3)
        assert two.status().leader == "one"
        assert not two.status().differs

    played(LSST, play)


def test_an_agent_tells_when_the_bus_goes_and_when_it_is_back() -> None:
    async def play(path: Path) -> None:
        await path.begun()
        path.told.clear()
        line = path._lines["base20"]
        for cut_s in (0.3, 5.0):
            line.is_cut = True
            await asyncio.sleep(cut_s)
            line.is_cut = False
            await asyncio.sleep(3)
        assert path.told == [
            "agent of base20: the bus does not answer: the line is cut; "
            "shares stay until their leases run out",
            "agent of base20: the bus answers again",
        ]

    played(LSST, play, never_too_much)
