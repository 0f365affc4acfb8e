"""The Plan: what a transfer is to do, and Why. One of the two values everything meets in.

A decider (``howdah.decide``) makes it, the transfer carries it out, a person reads it, saves it and
hands it back (``howdah cp --plan FILE``). Missing is null, and every number has its unit in its name.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from howdah import HowdahError, decoding, document
from howdah._native import format_bytes, format_rate
from howdah.arguments import BadArgument
from howdah.text import count
from howdah.values.memory import PathMemory, Resume

SCHEMA = 1

STREAMS_MAX = 128
"""The most connections. More gain nothing on any path the papers measured (at most 16 streams)."""

BUFFER_BYTES_MAX = 2**30 - 1
"""The kernel doubles SO_SNDBUF and SO_RCVBUF into a signed 32-bit number (net/core/sock.c)."""

BUFFER_BYTES_MIN = 4096

PACING_BPS_MIN = 8_000
"""The least that a user may have a stream send: at it a full packet takes 1.5 s."""

BLOCK_BYTES_MIN = 64 * 1024
BLOCK_BYTES_MAX = 64 * 1024 * 1024
"""The largest block that the wire protocol takes (crates/wire, limits.rs)."""

_MEND = "make one with: howdah cp --dry-run --json SRC DST >FILE"

PathKind = Literal["shared", "dedicated", "guaranteed"]
"""The kinds of paths, by who else may be there. Each is a module of ``howdah.decide``, which makes its plans,
and a module of ``howdah.transfer``, the service of copies on such a path (``howdah.transfer.service``)."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fact the decision rests on."""

    name: str
    value: float | str | None
    unit: str | None = None
    """``s``, ``B``, ``b/s``, ``streams``; null for a word."""
    source: str
    """The place it was measured or read at: ``ssh connection``, ``near tcp_wmem``, a paper, a record's id."""


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Goodput this plan should reach, with its interval."""

    rate_low_bps: float
    rate_mid_bps: float
    rate_high_bps: float
    duration_s: float | None = None
    """The duration of its runs; slow start is more of a much shorter transfer. Null when unknown."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A configuration that was considered and lost."""

    what: str
    why_not: str


class Later(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change while the streams are open; a key left out stays as it was before."""

    at_s: Annotated[float, msgspec.Meta(gt=0)]
    """The time since the session's start, as the times of samples are."""
    congestion_control: str | UnsetType = UNSET
    streams: Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)] | UnsetType = UNSET
    """The streams that carry payload, of those the plan opens."""
    pacing_bps: Annotated[int, msgspec.Meta(ge=1)] | UnsetType | None = UNSET
    """The bound of each stream; null lifts it."""

    def in_words(self) -> str:
        """``bbr, 2 streams, unpaced after 5 s``."""
        parts = [] if isinstance(self.congestion_control, UnsetType) else [self.congestion_control]
        if not isinstance(self.streams, UnsetType):
            parts.append(count(self.streams, "stream"))
        if not isinstance(self.pacing_bps, UnsetType):
            parts.append(paced(self.pacing_bps))
        return f"{', '.join(parts)} after {self.at_s:g} s"


def paced(most_bps: int | None) -> str:
    """The bound on the rate of each stream, in words."""
    return "unbounded" if most_bps is None else f"paced at {format_rate(most_bps)} a stream"


class Why(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reasons of a plan, for people first."""

    summary: list[str] = []
    evidence: list[Evidence] = []
    prediction: Prediction | None = None
    """The prediction; null when nothing measured supports one."""
    alternatives: list[Alternative] = []
    memory: PathMemory | None = None
    """What the archive remembered of the path when the plan was made; null: nothing."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plan of a transfer. The data plane reads everything but ``path`` and ``why``."""

    schema: int = SCHEMA
    path: PathKind = "shared"
    congestion_control: str | None = None
    """The name that Linux gives it; null: the sender's default, or what a rule gives its connections."""
    streams: Annotated[int, msgspec.Meta(ge=1, le=STREAMS_MAX)]
    """TCP connections carrying data."""
    buffer_bytes: Annotated[int, msgspec.Meta(ge=4096, le=2**31 - 1)] | None = None
    """SO_SNDBUF and SO_RCVBUF of each stream; null = the kernel's autotuning."""
    pacing_bps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """SO_MAX_PACING_RATE of each stream; null = only what the congestion control paces."""
    block_bytes: Annotated[int, msgspec.Meta(ge=BLOCK_BYTES_MIN, le=BLOCK_BYTES_MAX)]
    """The bytes that a free stream pulls at a time."""
    resume: Resume | None = None
    """What the streams send at once, before ``congestion_control`` goes on; null: that begins as ever."""
    changes: list[Later] = []
    """The changes of the open streams, in the order of their times: an experiment's schedule."""
    encrypt: bool = True
    """Encrypted data streams; false = plaintext with a checksum for each block."""
    why: Why = Why()

    def __post_init__(self) -> None:
        times = [change.at_s for change in self.changes]
        if times != sorted(set(times)):
            raise ValueError("changes must be in the order of their at_s")
        for change in self.changes:
            if change == Later(at_s=change.at_s):
                raise ValueError(f"the change at {change.at_s:g} s changes nothing")
            if not isinstance(change.streams, UnsetType) and change.streams > self.streams:
                raise ValueError(f"the change at {change.at_s:g} s needs more streams than the plan opens")

    def given(self, key: str, value: int | str | bool, option: str, words: str) -> "Plan":
        """This plan with one choice the user made; the Why says so, and what it replaced.

        What was predicted stands only if the choice changes nothing. Raises HowdahError when the value
        is out of the key's range.
        """
        before = getattr(self, key)
        summary = [*self.why.summary, f"{words}{_because(option)}"]
        why = msgspec.structs.replace(self.why, summary=summary)
        if value != before:
            replaced = Alternative(
                what=_choice(key, before), why_not=f"chosen by the plan, but replaced by {option}"
            )
            alternatives = [*self.why.alternatives, replaced]
            why = msgspec.structs.replace(why, prediction=None, alternatives=alternatives)
        try:
            changed = msgspec.structs.replace(self, **{key: value}, why=why)
            # replace() checks no types; reading it back does.
            return decoding.from_plain(msgspec.to_builtins(changed), Plan)
        except (msgspec.ValidationError, ValueError) as error:
            problem = str(error).partition(" - at ")[0].replace("`", "").lower()
            raise BadArgument(
                f"{{{key}}}: {problem}; leave it out to take the plan's", **{key: value}
            ) from None

    def has_given(self, option: str) -> bool:
        """Whether the user made the choice of this option."""
        return any(sentence.endswith(_because(option)) for sentence in self.why.summary)

    def in_short(self) -> str:
        """One line: ``8 streams, cubic, buffers autotuned, encrypted``."""
        parts = [
            count(self.streams, "stream"),
            self.congestion_control or _by_default(self.path),
            _choice("buffer_bytes", self.buffer_bytes),
        ]
        if self.pacing_bps is not None:
            parts.append(paced(self.pacing_bps))
        if self.resume is not None:
            parts.append(f"{format_bytes(self.resume.jump_bytes)} at once")
        parts.append(_choice("encrypt", self.encrypt))
        if self.changes:
            parts.append(f"{count(len(self.changes), 'change')} on the way")
        return ", ".join(parts)

    def in_words(self) -> str:
        """The whole plan as text a person reads: the choice, the reasons, the evidence, what lost."""
        lines = [
            f"Plan ({self.path} path): {self.in_short()}, blocks of {format_bytes(self.block_bytes)}",
            "",
        ]
        lines += [f"  {sentence}" for sentence in self.why.summary]
        lines += [f"  Changed on the way: {change.in_words()}." for change in self.changes]
        if self.why.prediction is not None:
            low, mid, high, _ = msgspec.structs.astuple(self.why.prediction)
            lines.append(
                f"  Predicted: {format_rate(mid)} (between {format_rate(low)} and {format_rate(high)})."
            )
        if self.why.evidence:
            lines += ["", "Evidence"]
            lines += _columns([(e.name, _value(e), e.source) for e in self.why.evidence])
        if self.why.alternatives:
            lines += ["", "Not chosen"]
            lines += [f"  {a.what}: {a.why_not}" for a in self.why.alternatives]
        return "\n".join(lines)


def _choice(key: str, value: Any) -> str:  # noqa: ANN401, whatever the key holds
    """A choice of a plan in words."""
    match key:
        case "buffer_bytes":
            return "buffers autotuned" if value is None else f"buffers {format_bytes(value)}"
        case "pacing_bps":
            return paced(value)
        case "encrypt":
            return "encrypted" if value else "plaintext"
    return f"{key} {value}"


def _because(option: str) -> str:
    return f", because {option} says so."


def _by_default(path: PathKind) -> str:
    return "held to its share" if path == "guaranteed" else "default congestion control"


def load(file: Path) -> Plan:
    """The plan in ``file``. Raises HowdahError saying the file, the key and what to do."""
    try:
        text = file.read_bytes()
    except OSError as error:
        raise HowdahError(f"cannot read the plan {file}: {error.strerror}; {_MEND}") from None
    return document.strange(loads(text, str(file)))


def loads(text: bytes, where: str) -> Plan:
    """A plan from JSON; a Record in its place gives the plan it was run by."""
    if _is_record(text):
        text = msgspec.json.encode(decoding.from_json(text, dict[str, msgspec.Raw])["plan"])
    return document.decode(text, Plan, schema=SCHEMA, name="plan", where=where, mend=_MEND)


class _HasPlan(msgspec.Struct):
    plan: dict[str, object]


def _is_record(text: bytes) -> bool:
    try:
        decoding.from_json(text, _HasPlan)
    except msgspec.MsgspecError:
        return False
    return True


def _value(evidence: Evidence) -> str:
    value, unit = evidence.value, evidence.unit
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    match unit:
        case "B":
            return format_bytes(int(value))
        case "b/s":
            return format_rate(value)
        case "s":
            return f"{value * 1e3:.4g} ms" if value < 1 else f"{value:.4g} s"
        case _:
            return f"{value:g} {unit or ''}".rstrip()


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
