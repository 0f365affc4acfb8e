"""The bottlenecks made on purpose: what each is, drawn by seed, and how long it alone makes a copy take."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any, Literal

from howdah import lab
from howdah.values.bottleneck import Cause
from howdah.values.link import Direction, LinkSpec

KEPT = ("a processor at the receiver", "pacing by a plan")
"""The kinds that nothing was tuned on."""
MIB = 1 << 20
_FAST_BPS = 2_000_000_000

Limited = Literal["near", "far"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One copy that something holds back."""

    kind: str
    seed: int
    causes: tuple[Cause, ...]
    """The names that are right for it."""
    link: LinkSpec
    size_bytes: int
    files: int = 1
    push: bool = True
    memory: bool = False
    options: tuple[str, ...] = ()
    disk_bps: int | None = None
    """The rate of the disk, bits per second, of the end that ``disk`` names."""
    disk: Literal["source", "target"] | None = None
    processor: float | None = None
    """What the end that ``limited`` names has of one core."""
    limited: Limited | None = None
    neighbour: bool = False
    pacing_bps: int | None = None
    """Of a plan, all streams together."""
    control: LinkSpec | None = None
    """The path of the same copy without the bottleneck; None: its own physics say how long it takes."""
    control_options: tuple[str, ...] = ()
    takes_s: float | None = None
    """How long the bottleneck takes; None: told by the control copy, or by the processor's account."""

    @property
    def for_the_test(self) -> bool:
        """Whether nothing was tuned on it."""
        return self.kind in KEPT


class Draw(random.Random):
    """Draws the case of one kind that a seed has."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__(f"{kind} {number}")
        self._kind, self._number = kind, number
        self.pushes = number % 2 == 0

    def case(self, *causes: Cause, **fields: Any) -> Case:  # noqa: ANN401, any field of a case
        """The case with these fields; unless they say otherwise, every second one is a pull."""
        about: dict[str, Any] = {"kind": self._kind, "seed": self._number, "push": self.pushes}
        return Case(causes=causes, **about | fields)


def cases(seeds: int) -> list[Case]:
    """All cases: every kind by so many seeds, the kinds in turns."""
    return [make(Draw(kind, seed)) for seed in range(seeds) for kind, make in KINDS.items()]


def _beyond_the_wire_s(size_bytes: int, bps: int) -> float:
    """What a disk takes beyond what the wire takes: at first nobody waits for what was written."""
    return size_bytes * 8 / bps - size_bytes * 8 / _FAST_BPS


def _fast(rtt_ms: float) -> LinkSpec:
    return lab.symmetric(_FAST_BPS, round(rtt_ms * 1e6))


def _streams(draw: Draw) -> tuple[str, ...]:
    return ("--streams", str(draw.choice((1, 2, 4))))


def source_disk(draw: Draw) -> Case:
    bps, size = draw.randrange(100, 200) * 1_000_000, draw.randrange(60, 100) * MIB
    return draw.case(
        Cause.SOURCE_DISK,
        link=_fast(draw.uniform(1, 40)),
        size_bytes=size,
        options=_streams(draw),
        disk_bps=bps,
        disk="source",
        takes_s=size * 8 / bps,
    )


def target_disk(draw: Draw) -> Case:
    bps, size = draw.randrange(300, 450) * 1_000_000, draw.randrange(310, 380) * MIB
    return draw.case(
        Cause.RECEIVER_DISK,
        link=_fast(draw.uniform(1, 40)),
        size_bytes=size,
        options=_streams(draw),
        disk_bps=bps,
        disk="target",
        takes_s=_beyond_the_wire_s(size, bps),
    )


def flush(draw: Draw) -> Case:
    bps, size = draw.randrange(100, 250) * 1_000_000, draw.randrange(80, 130) * MIB
    return draw.case(
        Cause.RECEIVER_DISK,
        link=_fast(draw.uniform(1, 20)),
        size_bytes=size,
        options=_streams(draw),
        disk_bps=bps,
        disk="target",
        takes_s=_beyond_the_wire_s(size, bps),
    )


def source_processor(draw: Draw) -> Case:
    return draw.case(
        Cause.SOURCE_CPU,
        link=_fast(draw.uniform(1, 20)),
        size_bytes=draw.randrange(300, 400) * MIB,
        options=("--plaintext", *_streams(draw)),
        processor=draw.uniform(0.05, 0.08),
        limited="near" if draw.pushes else "far",
    )


def sealing(draw: Draw) -> Case:
    return draw.case(
        Cause.SEALING,
        Cause.SOURCE_CPU,
        link=_fast(draw.uniform(1, 20)),
        size_bytes=draw.randrange(300, 400) * MIB,
        push=True,
        memory=True,
        options=_streams(draw),
        processor=draw.uniform(0.02, 0.035),
        limited="near",
    )


def receiver_processor(draw: Draw) -> Case:
    return draw.case(
        Cause.RECEIVER_CPU,
        link=_fast(draw.uniform(1, 20)),
        size_bytes=draw.randrange(300, 400) * MIB,
        options=_streams(draw),
        processor=draw.uniform(0.05, 0.08),
        limited="far" if draw.pushes else "near",
    )


def buffers(draw: Draw) -> Case:
    link = _fast(draw.uniform(60, 120))
    return draw.case(
        Cause.WINDOW,
        link=link,
        size_bytes=draw.randrange(80, 120) * MIB,
        options=("--streams", "2", "--buffer", f"{draw.randrange(200, 400)}000B"),
        control=link,
        control_options=("--streams", "2"),
    )


def limit(draw: Draw) -> Case:
    bps, size = draw.randrange(100, 300) * 1_000_000, draw.randrange(80, 120) * MIB
    return draw.case(
        Cause.PACING,
        link=_fast(draw.uniform(1, 40)),
        size_bytes=size,
        options=("--limit", f"{bps // 1_000_000}Mbit", *_streams(draw)),
        takes_s=size * 8 / bps,
    )


def pacing(draw: Draw) -> Case:
    bps, size = draw.randrange(100, 300) * 1_000_000, draw.randrange(80, 120) * MIB
    return draw.case(
        Cause.PACING,
        link=_fast(draw.uniform(1, 40)),
        size_bytes=size,
        pacing_bps=bps,
        takes_s=size * 8 / bps,
    )


def loss(draw: Draw) -> Case:
    rtt_ms = draw.uniform(20, 50)
    whole = _fast(rtt_ms)
    lossy = with_loss(whole, loss=draw.uniform(0.001, 0.004))
    return draw.case(
        Cause.PATH,
        link=lossy,
        size_bytes=draw.randrange(20, 30) * MIB,
        options=("--streams", "2", "--cc", "cubic"),
        control=whole,
        control_options=("--streams", "2", "--cc", "cubic"),
    )


def neighbour(draw: Draw) -> Case:
    rtt_ms = draw.uniform(10, 30)
    narrow = lab.symmetric(draw.randrange(100, 200) * 1_000_000, round(rtt_ms * 1e6))
    return draw.case(
        Cause.PATH,
        link=narrow,
        size_bytes=draw.randrange(40, 60) * MIB,
        options=("--streams", "1", "--cc", "cubic"),
        push=True,
        neighbour=True,
        control=_fast(rtt_ms),
        control_options=("--streams", "1", "--cc", "cubic"),
    )


def narrow(draw: Draw) -> Case:
    bps, size = draw.randrange(80, 200) * 1_000_000, draw.randrange(50, 70) * MIB
    return draw.case(
        Cause.PATH,
        link=lab.symmetric(bps, round(draw.uniform(5, 40) * 1e6)),
        size_bytes=size,
        options=_streams(draw),
        # TCP's headers, those below it, and TLS's.
        takes_s=size * 8 / (bps * 1448 / 1538 * 0.998),
    )


def small_files(draw: Draw) -> Case:
    link = _fast(draw.uniform(1, 20))
    return draw.case(
        Cause.SMALL_FILES,
        link=link,
        size_bytes=1000,
        files=draw.randrange(30_000, 50_000),
        control=link,
    )


def start(draw: Draw) -> Case:
    rtt_s = draw.uniform(0.15, 0.3)
    bps, size = 1_000_000_000, draw.randrange(2, 9) * MIB
    # What the wire and one round trip take is no start.
    return draw.case(
        Cause.START,
        link=lab.symmetric(bps, round(rtt_s * 1e9)),
        size_bytes=size,
        takes_s=-(size * 8 / bps + 1.5 * rtt_s),
    )


def with_loss(link: LinkSpec, loss: float) -> LinkSpec:
    """The link with this loss on both ways of the payload."""

    def lossy(way: Direction) -> Direction:
        return Direction(rate_bps=way.rate_bps, delay_ns=way.delay_ns, loss=loss)

    return LinkSpec(near_to_far=lossy(link.near_to_far), far_to_near=lossy(link.far_to_near))


KINDS: dict[str, Callable[[Draw], Case]] = {
    "a slow disk at the source": source_disk,
    "a slow disk at the target": target_disk,
    "a slow flush": flush,
    "a processor at the source": source_processor,
    "encryption": sealing,
    "a processor at the receiver": receiver_processor,
    "small buffers": buffers,
    "a limit": limit,
    "pacing by a plan": pacing,
    "loss": loss,
    "a CUBIC neighbour": neighbour,
    "a narrow path": narrow,
    "small files": small_files,
    "a short file over a long path": start,
}
