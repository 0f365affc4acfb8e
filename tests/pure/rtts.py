"""Synthetic recordings whose physics is simple and known. They are no measurements, and what is reached on
them says nothing of real paths.

cubic  a window that grows along CUBIC's curve (RFC 9438) until the queue is full, then falls to 0.7.
bbr    a queue of some part of a base RTT that pulses with eight round trips, and none for 200 ms every 10 s.
udp    a queue that stays full. Nobody: no queue.
"""

import numpy as np

from howdah.recognition.recording import Burst, Recording

STEP_S = 0.1
BACKGROUNDS = {"nobody": {}, "cubic": {"cubic": 1}, "bbr": {"bbr": 1}, "udp": {"udp": 1}}


def queue(
    kind: str, times: np.ndarray, base_rtt_s: float, most: float, rng: np.random.Generator
) -> np.ndarray:
    """In base RTTs; ``most`` is the room there is."""
    if kind == "cubic":
        period_s = 6 * (1 + 0.2 * rng.random())
        along = ((times + rng.random() * period_s) % period_s) / period_s
        window = (1 + most) * (1 + 0.3 * (along - 1) ** 3)
        return np.maximum(window - 1, 0)
    if kind == "bbr":
        pulse = 0.5 + 0.25 * np.sin(2 * np.pi * (times / (8 * base_rtt_s) + rng.random()))
        return np.where((times + 10 * rng.random()) % 10 < 0.2 + base_rtt_s, 0, pulse * min(most, 1))
    return np.full_like(times, most if kind == "udp" else 0.0)


def recording(
    kind: str,
    run: str,
    seed: int = 0,
    *,
    path: str = "path",
    base_rtt_s: float = 0.05,
    most: float = 1.0,
    duration_s: float = 60.0,
    step_s: float = STEP_S,
    lost: float = 0.02,
    bursts: tuple[Burst, ...] = (),
) -> Recording:
    rng = np.random.default_rng(seed)
    times = 1e5 + step_s * np.arange(round(duration_s / step_s)) + rng.uniform(0, 0.02 * step_s)
    rtt = base_rtt_s * (
        1 + queue(kind, times, base_rtt_s, most, rng) + 0.01 * rng.standard_normal(len(times)) ** 2
    )
    rtt[rng.random(len(times)) < lost] = np.nan
    return Recording(
        times_s=times,
        rtt_s=rtt,
        base_rtt_s=base_rtt_s,
        step_s=step_s,
        run=run,
        path=path,
        background=BACKGROUNDS[kind],
        bursts=bursts,
    )


def recordings(kinds: list[str], runs: int, **options: object) -> list[Recording]:
    """Each of its own run, whose room for a queue differs a little."""
    rng = np.random.default_rng(len(kinds))
    return [
        recording(kind, f"{kind}-{run}", 100 * at + run, **{"most": rng.uniform(0.8, 1.2), **options})
        for at, kind in enumerate(kinds)
        for run in range(runs)
    ]
