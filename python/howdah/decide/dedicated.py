"""A plan for a dedicated path: the configuration that ``select`` takes, from what the archive holds."""

from howdah import decoding
from howdah._native import format_bytes
from howdah.archive import Archive
from howdah.archive.columns import link_in_words
from howdah.archive.runs import Configuration, Runs
from howdah.cc import choose
from howdah.profiles.selection import Selection, in_words, select, why_not
from howdah.profiles.selection.evidence import PathRuns, TransferTraits, runs_for_path
from howdah.profiles.selection.predict import NextRun
from howdah.profiles.selection.prior import DURATION_S, model_prior
from howdah.text import count
from howdah.values import sizes
from howdah.values.link import LinkSpec
from howdah.values.path import ASSUMED_RTT_S, Path, round_trip_in_words
from howdah.values.plan import BUFFER_BYTES_MAX, STREAMS_MAX, Alternative, Evidence, Plan, Prediction, Why

ALTERNATIVES_MOST = 8
"""The plan names so many of those that lost, and how many more there are."""


def decide(path: Path) -> Plan:
    """The plan, from the records of this path or of one that stands in; without a profile, by a model."""
    return from_runs(Archive().runs(), path)


def from_runs(runs: Runs, path: Path) -> Plan:
    """The plan for the path, from these runs."""
    rtt_s = path.rtt_s or ASSUMED_RTT_S
    own, capacity_bps = known_as(path)
    found = runs_for_path(runs, own, rtt_s, TransferTraits(path.encrypt, path.bytes_total))
    prior = model_prior(path, rtt_s, found.runs, capacity_bps or found.capacity_bps)
    selection = select(found.runs, rtt_s, prior, lambda configuration: _refused(path, configuration))
    chosen = selection.chosen.configuration
    return Plan(
        path=path.kind,
        congestion_control=chosen.congestion_control,
        streams=chosen.streams,
        buffer_bytes=None if chosen.buffer_bytes is None else int(chosen.buffer_bytes),
        block_bytes=sizes.choose_block(chosen.streams, path.bytes_total),
        encrypt=path.encrypt,
        why=_why(path, selection, found),
    )


def known_as(path: Path) -> tuple[str | None, float | None]:
    """The name that runs of this path have in the archive, and its rate where a lab says it.

    All hosts of labs have the same few names, so the path of a lab is called as its link is.
    """
    if path.link is None:
        return path.host, None
    link = decoding.from_plain(path.link, LinkSpec)
    rates = [way.rate_bps for way in link.directions().values() if way.rate_bps is not None]
    return link_in_words(link), min(rates, default=None)


def _refused(path: Path, configuration: Configuration) -> str | None:
    """The reason against a configuration, from the user or the hosts."""
    if path.streams not in (None, configuration.streams):
        return "another number of streams was given"
    return obstacle(path, configuration)


def obstacle(path: Path, configuration: Configuration) -> str | None:
    """The reason why these hosts cannot use a configuration; None when they can."""
    control, streams, buffer_bytes = configuration
    sender = path.sender
    choice = choose(control, sender.congestion_controls_available)
    if choice.source == "missing":
        if choice.program is None or not path.programs_loadable:
            mend = f" and may not load it; there, as root: howdah cc load {choice.program}"
            return f"the sender has no {control}{mend if choice.program else ''}"
    elif choice.control not in sender.congestion_controls_usable:
        return f"the sender's kernel does not allow {control}"
    if streams > STREAMS_MAX:
        return f"a transfer has at most {STREAMS_MAX} streams"
    for name, host, setting, allowed_bytes in (
        ("sender", sender, "wmem_max", sender.wmem_max_bytes),
        ("receiver", path.receiver, "rmem_max", path.receiver.rmem_max_bytes),
    ):
        most_bytes = BUFFER_BYTES_MAX if host.privileged else min(allowed_bytes, BUFFER_BYTES_MAX)
        if buffer_bytes is not None and buffer_bytes > most_bytes:
            problem = f"the {name}'s kernel gives at most {format_bytes(most_bytes)} of buffer"
            if buffer_bytes > BUFFER_BYTES_MAX:
                return problem
            return f"{problem}; there, as root: sysctl -w net.core.{setting}={buffer_bytes:.0f}"
    return None


def _why(path: Path, selection: Selection, found: PathRuns) -> Why:
    chosen, *others = selection.ranked
    summary = [
        round_trip_in_words(path),
        *selection.rests_on,
        *found.notes,
        f"{in_words(*chosen.configuration)}: of all choices, its next run is the surest to be fast.",
    ]
    lost = [
        *_better(selection),
        *((each, why_not(chosen, each)) for each in others[:ALTERNATIVES_MOST]),
    ]
    alternatives = [Alternative(what=in_words(*each.configuration), why_not=reason) for each, reason in lost]
    if len(others) > ALTERNATIVES_MOST:
        rest = count(len(others) - ALTERNATIVES_MOST, "more configuration")
        alternatives.append(Alternative(what=rest, why_not="lower bounds below these"))
    return Why(
        summary=summary,
        evidence=_evidence(path, selection, found),
        prediction=Prediction(
            rate_low_bps=chosen.rate_low_bps,
            rate_mid_bps=chosen.rate_mid_bps,
            rate_high_bps=chosen.rate_high_bps,
            duration_s=_duration_s(selection),
        ),
        alternatives=alternatives,
    )


def _better(selection: Selection) -> list[tuple[NextRun, str]]:
    """The configurations with a higher bound that this copy cannot use, and why."""
    least_bps = selection.chosen.rate_low_bps
    return [(each, reason) for each, reason in selection.unusable if each.rate_low_bps > least_bps][
        :ALTERNATIVES_MOST
    ]


def _evidence(path: Path, selection: Selection, found: PathRuns) -> list[Evidence]:
    chosen, profile = selection.chosen, selection.profile
    facts = [Evidence(name="round trip", value=path.rtt_s, unit="s", source=path.rtt_source)]
    if chosen.basis == "model":
        facts.append(Evidence(name="predicted by", value="howdah's models", source="docs/models.md"))
    sweeps = sorted(set(profile.sweep.tolist()) - {""})
    facts += [
        Evidence(name="sweep", value=name, source=f"howdah archive ls --sweep {name}")
        for name in sweeps
        if chosen.basis != "model"
    ]
    facts.append(Evidence(name="length of runs", value=_duration_s(selection), unit="s", source="median"))
    mine = found.runs.where(**chosen.configuration._asdict())
    for rtt_s in chosen.rtts_s:
        there = mine.where(rtt_s=rtt_s)
        facts.append(
            Evidence(
                name=f"runs at {rtt_s * 1e3:.4g} ms",
                value=float(len(there)),
                unit="runs",
                source=_ids(there),
            )
        )
    facts += [
        Evidence(name="not counted", value=text, source=found.path or "archive") for text in found.left_out
    ]
    return facts


def _ids(runs: Runs) -> str:
    """The records, or the first and last of many."""
    ids = sorted(runs.id.tolist())
    return " ".join(ids) if len(ids) <= 2 else f"{ids[0]} … {ids[-1]}"


def _duration_s(selection: Selection) -> float:
    """The median length, in seconds, of the runs that the prediction rests on."""
    chosen = selection.chosen
    if chosen.basis == "model":
        return DURATION_S
    mine = selection.profile.where(**chosen.configuration._asdict(), rtt_s=chosen.rtts_s)
    return float(sorted(mine.elapsed_s.tolist())[len(mine) // 2])
