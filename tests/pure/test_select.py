"""What is selected at an RTT, from which runs, and what is said of it."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import howdah

from bench.select_families import FAMILIES, RTT_S, sweep
from howdah import HowdahError
from howdah.archive.runs import Configuration, Runs, Trace
from howdah.arguments import BadArgument
from howdah.profiles.selection import best, select, why_not
from howdah.profiles.selection.answer import SelectionReport, selection_report
from howdah.profiles.selection.evidence import (
    TransferTraits,
    profile,
    runs_for_path,
    runs_named,
    runs_that_count,
)
from howdah.profiles.selection.predict import NextRun, by_rtt, spreads
from howdah.profiles.selection.prior import ModelPrior, refine, runs_worth
from howdah.words.results import in_lines

SWEEP = sweep(FAMILIES["fixed_sizes"], np.random.default_rng(4), 3)
NONE = SWEEP[:0]
ONE, OTHER = Configuration("cubic", 1, None), Configuration("htcp", 4, 256e6)


def model(places: Sequence[tuple[Configuration, float]]) -> np.ndarray:
    """One that knows no configuration: 8 Gb/s, give or take half."""
    return np.array([[4e9, 8e9, 16e9]] * len(places))


FALLBACK = ModelPrior(model, [ONE, OTHER], 10e9, "8 Gb/s everywhere")


def transfers(rates_bps: Sequence[float], rtt_s: float = 0.1, name: str = "run", **columns: object) -> Runs:
    """Single transfers of ONE."""
    n = len(rates_bps)
    values = {
        "id": [f"{name}-{index}" for index in range(n)],
        "path": "dtn2",
        "congestion_control": ONE.congestion_control,
        "streams": ONE.streams,
        "buffer_bytes": np.nan,
        "rtt_s": rtt_s,
        "rate_bps": rates_bps,
        "capacity_bps": np.nan,
        "sweep": "",
        "repeat": -1,
        **columns,
    }
    return dataclasses.replace(
        SWEEP[np.zeros(n, np.int64)],
        **{name: np.broadcast_to(np.array(value), n) for name, value in values.items()},
    )


def together(*several: Runs) -> Runs:
    columns = [field.name for field in dataclasses.fields(Runs) if field.name != "read_traces"]
    return Runs(**{name: np.concatenate([getattr(each, name) for each in several]) for name in columns})


def prediction(low: float, mid: float, high: float, streams: int = 1) -> NextRun:
    return NextRun(Configuration("cubic", streams, None), low, mid, high, "measured", (0.1,), 3)


def test_the_best_lower_bound_wins_and_each_loser_is_told_why() -> None:
    steady, lucky, slow, alike = (
        prediction(8e9, 8.5e9, 9e9),
        prediction(5e9, 9e9, 9.9e9, 2),
        prediction(1e9, 2e9, 3e9, 4),
        prediction(7.9e9, 8.4e9, 9e9, 8),
    )
    assert best([slow, lucky, alike, steady]) == steady
    assert best([prediction(8e9, 8.9e9, 9e9, 2), steady]) == steady, "fewer streams, where bounds are equal"
    assert why_not(steady, lucky) == "at least 5.00 Gb/s: perhaps faster (9.00 Gb/s), but less sure"
    assert why_not(steady, slow) == "at least 1.00 Gb/s, at most 3.00 Gb/s: slower even at its best"
    assert why_not(steady, alike) == "at least 7.90 Gb/s, about 8.40 Gb/s"


def test_inside_a_profile_no_model_is_asked() -> None:
    def refuse(places: Sequence[tuple[Configuration, float]]) -> np.ndarray:
        raise AssertionError(places)

    found = select(SWEEP, 0.06, FALLBACK._replace(model=refuse))
    assert {each.basis for each in found.ranked} == {"interpolated"}
    assert len(found.ranked) == 27
    lows = [each.rate_low_bps for each in found.ranked]
    assert lows == sorted(lows, reverse=True)
    assert found.chosen.rtts_s == (0.0456, 0.0916)


def test_outside_the_profile_is_an_error_unless_a_model_may_be_asked() -> None:
    with pytest.raises(HowdahError) as refused:
        select(SWEEP, 0.0002, None)
    assert str(refused.value) == (
        "rtt 200 µs is below the 400 µs this profile covers; measure with: howdah sweep HOST"
    )
    found = select(SWEEP, 0.0002, FALLBACK)
    assert {each.basis for each in found.ranked} == {"model"}
    assert found.rests_on[0] == (
        "A model decides (8 Gb/s everywhere): rtt 200 µs is below the 400 µs this profile covers."
    )


def test_what_cannot_be_used_is_told_and_not_chosen() -> None:
    free = select(SWEEP, 0.0916, None)
    barred = free.chosen.configuration.congestion_control

    def obstacle(configuration: Configuration) -> str | None:
        return "not here" if configuration.congestion_control == barred else None

    found = select(SWEEP, 0.0916, None, obstacle)
    assert found.chosen.configuration.congestion_control != barred
    assert found.unusable[0] == (free.chosen, "not here")
    with pytest.raises(HowdahError, match=r"nothing usable here was measured around 91\.6 ms"):
        select(SWEEP, 0.0916, None, lambda _: "not here")


def test_with_no_profile_the_model_decides_and_says_so() -> None:
    found = select(NONE, 0.1, FALLBACK)
    assert found.chosen.rate_mid_bps == pytest.approx(8e9)
    assert found.rests_on == [
        "A model decides (8 Gb/s everywhere): there is no profile of this path.",
        "No run on this path refines it yet; each transfer will, with its record.",
    ]


def test_each_transfer_moves_the_model_and_narrows_it() -> None:
    widths, mids = [], []
    for runs in (0, 1, 2, 10):
        one, other = refine(model, [ONE, OTHER], 0.1, transfers([6e9] * runs))
        widths.append(np.log(one.rate_high_bps / one.rate_low_bps))
        mids.append(one.rate_mid_bps)
        assert 6e9 < other.rate_mid_bps < 8.001e9, "what the configurations share moves the other too"
    assert widths == sorted(widths, reverse=True)
    assert mids == sorted(mids, reverse=True)
    assert mids[1] == pytest.approx(6e9, rel=0.02)
    # One run of a spread of 10 % against a model that errs by ln 2 / 1.645.
    assert runs_worth(model, ONE, 0.1) == pytest.approx((np.log(2) / 1.6449 / 0.1) ** 2)


def test_a_run_tells_less_of_an_rtt_farther_off() -> None:
    mids = [refine(model, [ONE], rtt_s, transfers([4e9]))[0].rate_mid_bps for rtt_s in (0.1, 0.2, 0.8)]
    assert mids == sorted(mids)
    assert mids[-1] < 8e9


@given(st.lists(st.floats(1e8, 9e9), min_size=1, max_size=6))
def test_one_configuration_is_refined_as_the_normal_distribution_has_it(rates: list[float]) -> None:
    (found,) = refine(model, [ONE], 0.1, transfers(rates))
    cells = by_rtt(transfers(rates))
    spread = spreads(cells)[0]
    before, noise = (np.log(2) / 1.6449) ** 2, spread**2 / len(rates)
    median = np.median(np.log(rates))
    mean = (np.log(8e9) * noise + median * before) / (before + noise)
    variance = before * noise / (before + noise) + spread**2
    assert np.log(found.rate_mid_bps) == pytest.approx(mean)
    assert np.log(found.rate_high_bps) == pytest.approx(mean + 1.6449 * np.sqrt(variance))


def trace(limited: list[str]) -> Trace:
    zeros = np.zeros(len(limited))
    return Trace(*[zeros] * 11, limited=np.array(limited))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "limited", "counts"),
    [
        ({}, [], True),
        ({"late": True}, [], False),
        ({"rate_bps": np.nan}, [], False),
        ({"rtt_s": np.nan}, [], False),
        ({"elapsed_s": 4.0}, [], False),
        ({"elapsed_s": 4.0, "sweep": "s"}, [], True),
        ({"memory": False}, ["cwnd"] * 9 + ["app"], True),
        ({"memory": False}, ["sndbuf"] * 8 + ["app"] * 2, False),
        ({"memory": False}, ["cwnd"] * 8 + ["rwnd"] * 2, False),
        ({"memory": False}, [], False),
    ],
)
def test_which_runs_count(columns: dict[str, object], limited: list[str], counts: bool) -> None:
    traces = {"run-0": trace(limited)} if limited else {}
    runs = dataclasses.replace(transfers([5e9], **columns), read_traces=lambda _: traces)
    found = runs_that_count(runs)
    assert len(found.runs) == counts
    assert len(found.left_out) == (not counts)


def test_a_few_transfers_by_one_plan_are_no_profile() -> None:
    assert len(profile(transfers([5e9] * 9))) == 0
    swept = transfers([5e9], name="swept", sweep="s", streams=2)
    assert len(profile(together(transfers([5e9] * 2), swept))) == 1, "nor do they stand beside a sweep's"
    assert len(profile(together(transfers([5e9] * 3), swept))) == 4, "but three of them do"
    again = transfers([6e9], name="again", streams=2)
    assert len(profile(together(swept, again))) == 2, "and one of what was swept refines it"


def test_the_paths_own_runs_decide_and_another_profile_only_stands_in() -> None:
    runs = together(SWEEP, transfers([5e9, 6e9], sweep="s"))
    own = runs_for_path(runs, "dtn2", 0.1, TransferTraits())
    assert (own.path, len(own.runs), own.notes) == ("dtn2", 2, [])
    away = runs_for_path(runs, "dtn2", 0.03, TransferTraits())
    assert (away.path, away.notes) == ("synthetic", ["Measured on synthetic, which stands in for this path."])
    assert runs_for_path(runs, "dtn3", 0.9, TransferTraits()).path == "dtn3"
    assert len(runs_for_path(runs, "dtn3", 0.9, TransferTraits()).runs) == 0


def test_encrypted_runs_are_taken_for_an_encrypted_copy_where_they_make_a_profile() -> None:
    plain = transfers([9e9] * 3, sweep="s")
    coded = transfers([5e9] * 3, name="coded", sweep="s", encrypted=True)
    both = together(plain, coded)
    for encrypted, rate_bps in ((True, 5e9), (False, 9e9)):
        found = runs_for_path(both, "dtn2", 0.1, TransferTraits(encrypted))
        assert set(found.runs.rate_bps) == {rate_bps}
        assert found.notes == []
    assert runs_for_path(plain, "dtn2", 0.1, TransferTraits(True)).notes == [
        "Measured in plaintext; this copy is encrypted, and a CPU may limit it."
    ]


def test_one_path_has_to_be_chosen_where_several_cover_the_rtt() -> None:
    runs = together(SWEEP, transfers([5e9], sweep="s"))
    assert runs_named(runs, None, 0.02, TransferTraits()).path == "synthetic"
    with pytest.raises(HowdahError, match=r"2 paths .* \('dtn2', 'synthetic'\); choose one"):
        runs_named(runs, None, 0.1, TransferTraits())
    assert runs_named(runs, "dtn2", 0.1, TransferTraits()).path == "dtn2"
    with pytest.raises(HowdahError, match="nothing was measured on 'dtn9'"):
        runs_named(runs, "dtn9", 0.1, TransferTraits())
    assert runs_named(NONE, None, 0.1, TransferTraits()).path is None


def test_paths_of_which_none_covers_the_rtt_are_not_said_to() -> None:
    runs = together(SWEEP, transfers([5e9], sweep="s"))
    with pytest.raises(
        BadArgument,
        match=r"none of 2 paths has a profile that covers 900 ms .*; ask the models with extrapolate, "
        r"or measure with: howdah sweep HOST$",
    ) as refused:
        runs_named(runs, None, 0.9, TransferTraits())
    assert "with --extrapolate, or" in refused.value.spelt(lambda name, _: f"--{name}")


def test_models_decide_where_several_paths_have_runs_and_no_profile() -> None:
    runs = together(transfers([5e9]), transfers([4e9], name="other", path="dtn3"))
    found = runs_named(runs, None, 0.1, TransferTraits())
    assert (found.path, len(found.runs)) == (None, 0)
    assert found.notes == ["The archive has runs of 2 paths, and no path was named: none of them refines it."]
    assert runs_named(together(runs, SWEEP), None, 0.9, TransferTraits()).path == "synthetic", (
        "the only profile"
    )


def test_models_are_asked_beyond_the_profiles_of_several_paths() -> None:
    runs = together(SWEEP, transfers([5e9], sweep="s"))
    assert runs_named(runs, None, 0.9, TransferTraits(), extrapolate=True).path is None
    with pytest.raises(HowdahError, match="each of 2 paths has a profile"):
        runs_named(runs, None, 0.1, TransferTraits(), extrapolate=True)


def test_the_path_to_choose_is_named_as_an_argument_and_as_an_option() -> None:
    swept = together(SWEEP, transfers([5e9], sweep="s"))
    with pytest.raises(BadArgument, match=r"\('dtn2', 'synthetic'\); choose one with path$") as refused:
        runs_named(swept, None, 0.1, TransferTraits())
    assert refused.value.spelt(lambda name, _: f"--{name}").endswith("; choose one with --path")


def test_the_capacity_of_a_path_is_known_by_runs_that_do_not_count() -> None:
    short = dataclasses.replace(transfers([5e8] * 2), capacity_bps=np.array([1e9, np.nan]))
    short = dataclasses.replace(short, elapsed_s=np.full(2, 1.0))
    found = runs_named(short, "dtn2", 0.1, TransferTraits())
    assert (len(found.runs), found.capacity_bps) == (0, 1e9)
    assert runs_named(transfers([5e8]), "dtn2", 0.1, TransferTraits()).capacity_bps is None


def test_the_answer_in_full() -> None:
    ten = sweep(FAMILIES["losses"], np.random.default_rng(1), 10)
    found = selection_report(select(ten, 0.0226, None), "synthetic", ["3 runs spoilt"])
    assert msgspec.json.decode(msgspec.json.encode(found), type=SelectionReport) == found
    (there,) = found.bounds
    mine = ten.where(
        rtt_s=RTT_S[2],
        congestion_control=found.chosen.congestion_control,
        streams=found.chosen.streams,
        buffer_bytes=float(found.chosen.buffer_bytes or 0),
    )
    ordered = np.sort(mine.rate_bps)
    assert (there.median_low_bps, there.median_high_bps) == (ordered[1], ordered[8])
    assert there.next_low_bps == ordered[0]
    assert there.next_confidence == pytest.approx(10 / 11)
    assert found.covering is not None
    assert found.covering.vacuous
    lines = in_lines(found, most=3)
    assert lines[0].startswith("At 22.6 ms: ")
    assert "  Not counted: 3 runs spoilt." in lines
    assert any("with 97.9%" in line and "with 90.9%" in line for line in lines)
    assert any("vacuous with 70 runs" in line for line in lines)
    assert lines[-1].startswith("  23 more, with")


def test_of_runs_of_several_sizes_those_like_the_transfer_are_taken() -> None:
    small = transfers([4e9] * 3, name="small", sweep="s", bytes=10**9)
    large = transfers([9e9] * 3, name="large", sweep="s", bytes=10**11)
    both = together(small, large)
    for size_bytes, rates in ((6 * 10**8, {4e9}), (10**11, {9e9}), (10**10, {4e9, 9e9}), (None, {4e9, 9e9})):
        found = runs_for_path(both, "dtn2", 0.1, TransferTraits(size_bytes=size_bytes))
        assert set(found.runs.rate_bps) == rates
        assert found.notes == (
            ["The runs moved 50.5 GB (median) each, this moves 10.0 GB."] if size_bytes == 10**10 else []
        )


def test_with_an_empty_archive_the_command_asks_the_models(tmp_path: Path) -> None:
    done = howdah("select", "--rtt", "93ms", "--rate", "1Gbit", "--json", XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=SelectionReport)
    assert found.chosen.basis == "model"
    assert found.chosen.rate_high_bps <= 1e9
    assert found.bounds == []
    assert found.covering is None
    assert found.path is None
