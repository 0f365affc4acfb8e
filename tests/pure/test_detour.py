"""What a copy says of the way of its data where the straight way is closed."""

import pytest
from samples import progress

from howdah.remote.endpoints import Route
from howdah.remote.messages import Progress
from howdah.transfer.detour import Detour, gain
from howdah.transfer.request import Request

REFUSED = "connection refused"
FAR_END, SSH = "the far end connects to this host", "the data goes through the ssh connection"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def detour() -> Detour:
    return Detour(Request([], Route("push", "dtn2", [b"run42"], b"archive", False), dry_run=True))


def at(elapsed_s: float, phase: str, **closed: str) -> Progress:
    return progress(elapsed_s=elapsed_s, phase=phase, **closed)


def test_a_refusal_is_not_preceded_by_advice_on_the_port(detour: Detour, said: list[str]) -> None:
    detour.tell(at(0.1, "connecting", through_ssh=REFUSED), said.append)
    detour.tell(at(0.2, "failed", through_ssh=REFUSED), said.append)
    assert said == []


@pytest.mark.parametrize("phase", ["moving", "done"])
def test_the_way_is_said_once_when_data_goes_there(detour: Detour, said: list[str], phase: str) -> None:
    detour.tell(at(0.1, "connecting", through_ssh=REFUSED), said.append)
    for elapsed_s in (0.2, 0.3):
        detour.tell(at(elapsed_s, phase, through_ssh=REFUSED), said.append)
    (line,) = said
    assert line.startswith(f"howdah: {SSH}, because the data port is closed ({REFUSED})")


def test_a_copy_that_waits_says_why(detour: Detour, said: list[str]) -> None:
    for tenths in range(30):
        detour.tell(at(5 + tenths / 10, "connecting", by_far_end=REFUSED), said.append)
        assert len(said) == (tenths >= 10)
    detour.tell(at(9, "moving", through_ssh=REFUSED, by_far_end=REFUSED), said.append)
    assert [FAR_END in said[0], SSH in said[1]] == [True, True]


def test_each_session_has_its_time(detour: Detour, said: list[str]) -> None:
    detour.tell(at(0.1, "connecting", through_ssh=REFUSED), said.append)
    detour.begin(*[None] * 2)  # type: ignore[arg-type]
    detour.tell(at(5, "connecting", through_ssh=REFUSED), said.append)
    assert said == []
    detour.tell(at(6.1, "connecting", through_ssh=REFUSED), said.append)
    assert len(said) == 1


def test_what_an_open_port_would_gain_is_a_bound_of_the_window_over_the_round_trip() -> None:
    one = "ssh carries at most 168 Mb/s (1 stream with 2 MiB each in a round trip of 100 ms); an open port"
    assert gain(1, 0.1).startswith(one)
    assert gain(8, 0.1).startswith("ssh carries at most 1.34 Gb/s (8 streams ")
    assert gain(8, None) == "An open port would be faster"
