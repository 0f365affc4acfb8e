"""The reader of TOML files: units, one value or several, tables by name, and what it says of mistakes."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import HowdahError, tomlfile
from howdah.lab.labfile import LabOptions, build
from howdah.measure import plan
from howdah.tomlfile import Duration, Rate, Ratio, Several, Size, Tables
from howdah.traffic.pattern import load_pattern

SEE = "see: howdah x --help"


class Wave(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="wave"):
    every: Duration


class Constant(msgspec.Struct, forbid_unknown_fields=True, tag_field="kind", tag="constant"):
    rate: Rate


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    weight: Annotated[int, msgspec.Meta(ge=1)] = 1
    mode: Literal["kept", "lent"] = "kept"

    def __post_init__(self) -> None:
        if self.weight == 13:
            raise ValueError("13 brings bad luck")


class File(msgspec.Struct, forbid_unknown_fields=True):
    rate: Rate | None = None
    sizes: Several[Size] = Several()
    share: Ratio | None = None
    entries: Tables[Entry] = msgspec.field(name="entry", default_factory=Tables)
    loads: list[Wave | Constant] = msgspec.field(name="load", default_factory=list)
    on: bool = True


def test_values_have_units_and_are_shown_as_written() -> None:
    file = tomlfile.loads('rate = "10Gbit"\nsizes = "2MB"\nshare = "5%"', "f.toml", File, SEE)
    assert (file.rate, file.sizes, file.share) == (10**10, (2_000_000,), 0.05)
    assert (str(file.rate), [str(size) for size in file.sizes], str(file.share)) == ("10Gbit", ["2MB"], "5%")
    assert [type(tomlfile.plain(value)) for value in (file.rate, file.share, "x")] == [int, float, str]
    several = tomlfile.loads('sizes = ["1kB", "1MB"]\nshare = 0.5', "f.toml", File, SEE)
    assert (several.sizes, several.share) == ((1000, 1_000_000), 0.5)


def test_a_file_for_another_command_is_told_from_a_mistake() -> None:
    folder = Path(__file__).parents[2] / "scenarios"
    for name, command, take in (
        ("traffic-mixed", "a pattern of traffic, for: howdah traffic", plan.load_plan),
        ("hpdc17-quick", "a plan of a sweep, for: howdah sweep", load_pattern),
        ("shared-dataset", "a plan of recordings, for: howdah shared dataset", plan.load_plan),
        ("lsst-policy", "a policy of a guaranteed path, for: howdah control serve", plan.load_plan),
        ("hpdc17-quick", "a plan of a sweep, for: howdah sweep", lambda file: build(LabOptions(), file)),
    ):
        file = folder / f"{name}.toml"
        with pytest.raises(HowdahError) as refused:
            take(file)
        assert str(refused.value) == f"{file} is {command} {file}"


def test_a_table_too_much_is_a_mistake_of_the_file() -> None:
    text = 'name = "x"\nruns = []\n[[load]]\nkind = "tcp"'
    with pytest.raises(HowdahError, match=r"^p.toml: unknown key load; known are name, runs, "):
        plan.parse_plan(text, "p.toml")


@given(st.integers(0, 10**12))
def test_a_duration_is_nanoseconds_and_has_seconds(duration_ns: int) -> None:
    found = Duration.read(f"{duration_ns}ns")
    assert found == duration_ns
    assert found.seconds == duration_ns / 1e9
    if found > 10**9:
        with pytest.raises(HowdahError, match=rf"^wait {duration_ns}ns is not within 0s to 1s$"):
            found.seconds_within(0.0, 1.0, "wait")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rate = ", "f.toml is not TOML: "),
        ('rat = "1Gbit"', f"f.toml: unknown key rat; known are rate, sizes, share, entry, load, on; {SEE}"),
        ("rate = true", 'f.toml: rate: not a text with a unit, as "10Gbit"'),
        ("rate = 10", 'f.toml: rate: rate "10" has no unit; write for example 10Gbit'),
        ('sizes = ["1B", "x"]', 'f.toml: sizes 2: size "x" is not a number with a unit'),
        ("on = 1", f"f.toml: on: expected true or false, got a whole number; {SEE}"),
        ("entry = 3", "f.toml: entry: expected a table"),
        ("[entry.a]\nweight = 0", f"f.toml: entry.a.weight: expected a whole number >= 1; {SEE}"),
        ("[entry.a]\nweight = 13", "f.toml: entry.a: 13 brings bad luck"),
        ('[entry.a]\nmode = "x"', f"f.toml: entry.a.mode: 'x' is unknown; give kept or lent; {SEE}"),
        ("[entry.a]\nwait = 3", f"f.toml: entry.a: unknown key wait; known are weight, mode; {SEE}"),
        ("[entry.a]\nweight = 2.5", f"f.toml: entry.a.weight: expected a whole number, got 2.5; {SEE}"),
        (
            '[load]\nkind = "wave"\n[[load]]\n',
            f"f.toml is not TOML: line 3: the table load is there twice; write [[load]] each time; {SEE}",
        ),
        (
            '[[load]]\nkind = "wave"\n[load]',
            f"f.toml is not TOML: line 3: the table load is there twice; write [[load]] each time; {SEE}",
        ),
        (
            "[entry.a]\n[entry.a]\n",
            f"f.toml is not TOML: line 2: the table entry.a is there twice; put all its keys into one; {SEE}",
        ),
        (
            "on = true\non = true\n",
            f"f.toml is not TOML: Cannot overwrite a value (at line 2, column 10); {SEE}",
        ),
        ("load = {}", f"f.toml: load: expected a list, got a table; {SEE}"),
        ('[[load]]\nkind = "x"', f"f.toml: load 1: kind: 'x' is unknown; give wave or constant; {SEE}"),
        (
            '[[load]]\nkind = "constant"\nrate = "1bit"\n[[load]]\nkind = "wave"',
            f"f.toml: load 2: the key every is missing; {SEE}",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_may_be_written(text: str, says: str) -> None:
    with pytest.raises(HowdahError) as refused:
        tomlfile.loads(text, "f.toml", File, SEE)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["rate", "sizes", "share", "entry", "load", "on", "x"]), VALUES))
def test_nothing_worse_than_a_refusal_comes_of_any_table(table: dict[str, object]) -> None:
    try:
        assert isinstance(tomlfile.convert(table, File, "f.toml", SEE), File)
    except HowdahError as refused:
        assert str(refused).startswith("f.toml: ")
