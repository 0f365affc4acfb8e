"""The experiment: figure 2 of the paper, a leader that is killed, and a round trip that doubles."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from bench import bpffs
from bench.lsst import control, postgres, senders
from bench.lsst.control import Control
from bench.lsst.sampler import COARSELY_S, FINELY_S, Look, Sampler, sampling
from bench.lsst.scenario import Scenario
from howdah import HowdahError, lab
from howdah.lab import Lab, LinkStats, hosts

CLASS = "images"
WHO = "bench-lsst"
SETTLE_S = 15.0
FULL, FULL_ENOUGH = 0.98, 0.5
STEADY_S = 2.0
LONGER = 2.0
"""How many times as long the round trip becomes …"""
LONGER_AFTER_S = 8.0
"""… so long after images are asked for."""
KILLED_AFTER_S = 8.0
LOOK_S = 0.02
TOUCHED_BYTES = 2**30
MOMENTS = {"begun_s", "ended_s", "asked_s", "released_s", "killed_s", "followed_s", "changes_s"}
Run = dict[str, Any]


def figure(scenario: Scenario) -> Run:
    """Replication and background all the time; images by nuttcp, then by ``howdah cp``."""
    with _lab(scenario) as wan, control.in_one_process(scenario, wan) as controls, sampling() as sampler:
        senders.warm(scenario, wan)
        with (
            postgres.replicating(scenario, wan) as replication,
            senders.background(scenario, wan),
            senders.nuttcp(scenario, wan) as nuttcp,
        ):
            _wait_busy(scenario, sampler)
            begun_s = time.monotonic()
            time.sleep(scenario.before_s)
            images: list[Run] = []
            for by in ("nuttcp", "howdah cp"):
                mark = _link_mark(wan)
                done = (
                    _by_nuttcp(scenario, wan, controls, nuttcp) if by == "nuttcp" else _by_cp(scenario, wan)
                )
                images.append({"by": by, **done, "link": _since(mark, _link_mark(wan))})
                time.sleep(scenario.between_s)
            ended_s = time.monotonic()
            unix_s = time.time() - time.monotonic()
            received = [(at_s - unix_s, count) for at_s, count in replication.received()]
        stats = wan.stats()
    run = {
        "part": "figure",
        **_described(scenario, stats),
        "begun_s": begun_s,
        "ended_s": ended_s,
        "images": images,
        "standby": [each for each in received if begun_s <= each[0] <= ended_s],
    }
    return _recorded(run, sampler)


def leader(scenario: Scenario) -> Run:
    """The same policy file over NATS; the controller that leads is killed while images go."""
    with _lab(scenario) as wan, control.over_nats(scenario, wan) as controls, sampling() as sampler:
        senders.warm(scenario, wan)
        with postgres.replicating(scenario, wan), senders.background(scenario, wan):
            _wait_busy(scenario, sampler)
            begun_s = time.monotonic()
            killed: Run = {}
            killing = threading.Thread(target=_kill_leader, args=(controls, killed))
            killing.start()
            images = {"by": "howdah cp", **_by_cp(scenario, wan)}
            killing.join()
            ended_s = time.monotonic()
        stats = wan.stats()
    run = {
        "part": "leader",
        **_described(scenario, stats),
        "begun_s": begun_s,
        "ended_s": ended_s,
        "images": [images],
        **killed,
    }
    return _recorded(run, sampler)


def longer(scenario: Scenario) -> Run:
    """Images alone; the round trip doubles while they go."""
    begun_s = time.monotonic()
    after_s = 30.0
    changed = scenario.with_rtt(LONGER * scenario.rtt_s, after_s)
    with _lab(changed) as wan, control.in_one_process(scenario, wan), sampling() as sampler:
        began_s = time.monotonic() - wan.stats().elapsed_ns / 1e9
        senders.warm(scenario, wan)
        changes_s = began_s + after_s
        if time.monotonic() > changes_s - LONGER_AFTER_S:
            raise HowdahError("the machine was too slow: the round trip changed before images went")
        time.sleep(changes_s - LONGER_AFTER_S - time.monotonic())
        images = {"by": "howdah cp", **_by_cp(scenario, wan)}
        stats = wan.stats()
    run = {
        "part": "longer",
        **_described(scenario, stats),
        "link": msgspec.to_builtins(changed.link),
        "begun_s": begun_s,
        "ended_s": time.monotonic(),
        "changes_s": changes_s,
        "images": [images],
    }
    return _recorded(run, sampler)


@contextlib.contextmanager
def _lab(scenario: Scenario) -> Iterator[Lab]:
    with bpffs.mounted(), lab.started(scenario.link, scenario.topology, sshd=True) as wan:
        senders.open_window(scenario, wan)
        hosts.touch_buffers(TOUCHED_BYTES)
        yield wan


def _wait_busy(scenario: Scenario, sampler: Sampler) -> None:
    """Until the flows that always have a share send nearly all of it, as long as the machine lets them."""
    deadline = time.monotonic() + SETTLE_S
    flows = [each.id for each in scenario.policy.flows if each.member.agent not in scenario.images]
    while True:
        before = {flow: sampler.latest(flow) for flow in flows}
        time.sleep(STEADY_S)
        after = {flow: sampler.latest(flow) for flow in flows}
        full = min(_fullness(before[flow], after[flow]) for flow in flows)
        if full > FULL or (full > FULL_ENOUGH and time.monotonic() > deadline):
            return
        if time.monotonic() > 2 * SETTLE_S + deadline:
            raise HowdahError(f"the background or the replication sends {full:.0%} of its share")


def _fullness(before: Look, after: Look) -> float:
    sent_bps = (after.sent_bytes - before.sent_bytes) * 8 / (after.t_s - before.t_s)
    return sent_bps / after.share_bps


def _by_nuttcp(scenario: Scenario, wan: Lab, controls: Control, words: Callable[[str], list[str]]) -> Run:
    """As a scheduler would: for each host it starts a program, asks for its part, and gives that back."""
    client = controls.clients[controls.leader()]

    def send(host: str) -> Run:
        running, who = senders.start(wan, host, words(host)), f"{WHO}-{host}"
        client.ask(CLASS, who, host=host)
        try:
            return senders.said_by_nuttcp(senders.finish(running))
        finally:
            client.release(CLASS, who)

    return _by_each(scenario, send)


def _by_cp(scenario: Scenario, wan: Lab) -> Run:
    def send(host: str) -> Run:
        return senders.said_by_cp(senders.finish(senders.start(wan, host, senders.copy(scenario))))

    return _by_each(scenario, send)


def _by_each(scenario: Scenario, send: Callable[[str], Run]) -> Run:
    """All hosts of images at once; when they were asked to, and when each was done."""
    ends_s: list[float] = []

    def timed(host: str) -> Run:
        said = send(host)
        ends_s.append(time.monotonic())
        return said

    asked_s = time.monotonic()
    with ThreadPoolExecutor(len(scenario.images)) as pool:
        said = dict(zip(scenario.images, pool.map(timed, scenario.images), strict=True))
    return {"asked_s": asked_s, "released_s": max(ends_s), "ends_s": ends_s, "said": said}


def _kill_leader(controls: Control, killed: Run) -> None:
    time.sleep(KILLED_AFTER_S)
    number = controls.leader()
    other = controls.clients[1 - number]
    controls.controllers[number].kill()
    killed_s = time.monotonic()
    killed |= {"killed_s": killed_s, "followed_s": None}
    while time.monotonic() < killed_s + SETTLE_S:
        with contextlib.suppress(HowdahError):
            if other.status().leads:
                killed["followed_s"] = time.monotonic()
                return
        time.sleep(LOOK_S)


def _link_mark(wan: Lab) -> dict[str, int]:
    stats = wan.stats()
    return {"elapsed_ns": stats.elapsed_ns, "wire_bytes": stats.directions["near_to_far"].wire_bytes}


def _since(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in now}


def _described(scenario: Scenario, stats: LinkStats) -> Run:
    return {
        "policy": scenario.policy_file.name,
        "guarantee_bps": scenario.policy.guarantee_bps,
        "rtt_s": scenario.rtt_s,
        "image_bytes": scenario.image_bytes,
        "link": msgspec.to_builtins(scenario.link),
        "stats": msgspec.to_builtins(stats),
    }


def _recorded(run: Run, sampler: Sampler) -> Run:
    """With times from its beginning on, and of what was sampled what the rows need."""
    zero_s = run["begun_s"]
    finely = [
        (at_s - FINELY_S, at_s + FINELY_S)
        for images in run["images"]
        for at_s in (images["asked_s"], *images["ends_s"])
    ]
    for each in (run, *run["images"]):
        for name in MOMENTS & each.keys():
            each[name] = None if each[name] is None else each[name] - zero_s
    for each in run["images"]:
        each["ends_s"] = [at_s - zero_s for at_s in each["ends_s"]]
    if "standby" in run:
        run["standby"] = [f"{at_s - zero_s:.2f} {count}" for at_s, count in run["standby"]]
    flows = {}
    for name, looks in sampler.flows.items():
        kept: list[Look] = []
        for each in looks:
            fine = any(begin_s <= each.t_s <= end_s for begin_s, end_s in finely)
            if not kept or fine or each.t_s - kept[-1].t_s >= COARSELY_S:
                kept.append(each)
        flows[name] = [f"{t - zero_s:.3f} {share} {sent} {acked}" for t, share, sent, acked in kept]
    return run | {"flows": flows}
