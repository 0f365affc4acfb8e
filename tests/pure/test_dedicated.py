"""Plans for dedicated paths, from runs."""

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import LIMITS, hosts

from bench.select_families import FAMILIES, sweep
from howdah import HowdahError
from howdah.archive.runs import Configuration
from howdah.decide import Path
from howdah.decide.dedicated import from_runs, obstacle
from howdah.profiles.selection import select
from howdah.profiles.selection.prior import CONTROLS
from howdah.values import plan, sizes

SWEEP = sweep(FAMILIES["windows"], np.random.default_rng(6), 3)
ABLE = msgspec.structs.replace(
    LIMITS,
    privileged=True,
    congestion_controls_available=["reno", "cubic", "htcp"],
)
PATH = Path(
    sender=ABLE,
    receiver=ABLE,
    rtt_s=0.093,
    rtt_source="ssh connection",
    kind="dedicated",
    host="synthetic",
    programs_loadable=True,
    encrypt=False,
)


@settings(max_examples=20)
@given(
    st.builds(
        Path,
        sender=hosts(),
        receiver=hosts(),
        rtt_s=st.none() | st.floats(0.01, 1.0),
        kind=st.just("dedicated"),
        host=st.sampled_from(["synthetic", "dtn2"]),
        bytes_total=st.none() | st.integers(0, 2**45),
        encrypt=st.booleans(),
        programs_loadable=st.booleans(),
    )
)
def test_every_plan_can_be_handed_back_and_carried_out(path: Path) -> None:
    modelled = [Configuration(control, 1, None) for control in CONTROLS]
    if all(obstacle(path, configuration) for configuration in modelled):
        with pytest.raises(HowdahError, match="no control that has a model can be used"):
            from_runs(SWEEP, path)
        return
    decided = from_runs(SWEEP, path)
    assert plan.loads(msgspec.json.encode(decided), "-") == decided
    size = decided.buffer_bytes
    chosen = Configuration(
        decided.congestion_control or "", decided.streams, None if size is None else float(size)
    )
    assert obstacle(path, chosen) is None
    predicted = decided.why.prediction
    assert predicted is not None
    assert 0 < predicted.rate_low_bps <= predicted.rate_mid_bps <= predicted.rate_high_bps


def test_the_plan_is_what_is_selected_and_names_its_evidence() -> None:
    decided = from_runs(SWEEP, PATH)
    usable = select(SWEEP, 0.093, None, lambda configuration: obstacle(PATH, configuration))
    chosen = usable.chosen
    assert (decided.congestion_control, decided.streams, decided.buffer_bytes) == (
        chosen.configuration.congestion_control,
        chosen.configuration.streams,
        int(chosen.configuration.buffer_bytes or 0),
    )
    predicted = decided.why.prediction
    assert predicted is not None
    assert predicted.rate_low_bps == chosen.rate_low_bps
    assert predicted.duration_s == 10.0
    text = decided.in_words()
    assert "Interpolated between what was measured at 91.6 ms and 183 ms" in text
    mine = SWEEP.where(**chosen.configuration._asdict(), rtt_s=chosen.rtts_s[:1])
    assert f"{mine.id[0]} … {mine.id[-1]}" in text
    assert "sweep" in [fact.name for fact in decided.why.evidence]


def test_a_better_one_that_cannot_be_used_is_told_with_what_mends_it() -> None:
    fast = dataclasses.replace(
        SWEEP, rate_bps=np.where(SWEEP.congestion_control == "scalable", 9.3e9, SWEEP.rate_bps / 2)
    )
    assert from_runs(fast, PATH).congestion_control == "scalable", "howdah can load its program"
    path = msgspec.structs.replace(PATH, programs_loadable=False)
    decided = from_runs(fast, path)
    assert decided.congestion_control != "scalable"
    first = decided.why.alternatives[0]
    assert first.what.startswith("scalable")
    assert first.why_not == (
        "the sender has no scalable and may not load it; there, as root: howdah cc load scalable"
    )


@pytest.mark.parametrize("streams", [1, 3])
def test_where_the_streams_are_given_the_choice_is_among_those(streams: int) -> None:
    """Of what was measured where that has so many, else by the models."""
    decided = from_runs(SWEEP, msgspec.structs.replace(PATH, streams=streams))
    assert decided.streams == streams
    measured = streams in SWEEP.streams
    assert any("A model decides" in line for line in decided.why.summary) != measured
    assert measured == (streams == 1)
    if not measured:
        needed = sizes.HEADROOM * sizes.TARGET_RATE_BPS / 8 * 0.093 / streams
        assert (decided.buffer_bytes or sizes.windows(PATH).autotuned_bytes) >= needed


@pytest.mark.parametrize(
    ("configuration", "changed", "says"),
    [
        (Configuration("vegas", 1, None), {}, "no vegas"),
        (Configuration("htcp", 1, None), {"privileged": False}, "does not allow htcp"),
        (Configuration("cubic", 129, None), {}, "at most 128"),
        (Configuration("cubic", 1, 1e9), {}, None),
        (Configuration("cubic", 1, 2e9), {}, "the sender's kernel gives at most 1.07 GB of buffer"),
        (
            Configuration("cubic", 1, 1e9),
            {"privileged": False},
            "the sender's kernel gives at most 213 kB of buffer; "
            "there, as root: sysctl -w net.core.wmem_max=1000000000",
        ),
        (Configuration("cubic", 1, 256e6), {}, None),
        (Configuration("cubic", 128, None), {"privileged": False}, None),
    ],
)
def test_what_stands_in_the_way(
    configuration: Configuration, changed: dict[str, bool], says: str | None
) -> None:
    sender = msgspec.structs.replace(ABLE, **changed)
    found = obstacle(msgspec.structs.replace(PATH, sender=sender), configuration)
    assert found is None if says is None else says in str(found)


def test_with_no_record_the_plan_is_the_models_and_says_so() -> None:
    decided = from_runs(SWEEP[:0], PATH)
    assert any("A model decides (capacity 10.0 Gb/s assumed" in line for line in decided.why.summary)
    assert decided.why.prediction is not None
    assert decided.why.prediction.rate_high_bps <= sizes.TARGET_RATE_BPS


def test_a_round_trip_outside_the_profile_is_the_models_too() -> None:
    decided = from_runs(SWEEP, msgspec.structs.replace(PATH, rtt_s=0.6))
    summary = " ".join(decided.why.summary)
    assert "): rtt 600 ms is above the 366 ms this profile covers." in summary
    assert "567 runs on this path refine it" in summary


def test_runs_of_a_control_without_a_model_correct_nothing() -> None:
    one = dataclasses.replace(SWEEP[:1], rtt_s=np.array([0.1]), sweep=np.array([""]))
    bbr = dataclasses.replace(one, congestion_control=np.array(["bbr"]), id=np.array(["bbr"]))
    columns = [field.name for field in dataclasses.fields(one) if field.name != "read_traces"]
    both = dataclasses.replace(
        one, **{name: np.concatenate([getattr(one, name), getattr(bbr, name)]) for name in columns}
    )
    decided, alone = from_runs(both, PATH), from_runs(one, PATH)
    assert decided.why.prediction == alone.why.prediction
    summary = " ".join(decided.why.summary)
    assert "1 run on this path refines it" in summary
    assert "1 run left out, of controls without a model: bbr." in summary


def test_an_encrypted_copy_says_what_was_measured_in_plaintext() -> None:
    notes = from_runs(SWEEP, msgspec.structs.replace(PATH, encrypt=True)).why.summary
    assert "Measured in plaintext; this copy is encrypted, and a CPU may limit it." in notes
    assert not any("plaintext" in line for line in from_runs(SWEEP, PATH).why.summary)


def test_another_host_is_told_whose_profile_stands_in() -> None:
    notes = from_runs(SWEEP, msgspec.structs.replace(PATH, host="dtn2")).why.summary
    assert "Measured on synthetic, which stands in for this path." in notes


def test_many_that_lost_are_counted() -> None:
    alternatives = from_runs(SWEEP, PATH).why.alternatives
    assert alternatives[-1].what.endswith("more configurations")
    assert len(alternatives) <= 17
