"""``howdah select --host``: in a lab it asks what a copy on the dedicated path would ask."""

import msgspec
import pytest
from samples import LIMITS
from sweeps import joined, sweep

from howdah import LAB_LINK_VARIABLE, Archive
from howdah.archive.columns import link_in_words
from howdah.archive.runs import Runs
from howdah.decide.dedicated import from_runs
from howdah.library import select as question
from howdah.remote.messages import FarHello
from howdah.values.link import symmetric
from howdah.values.path import Path
from howdah.values.plan import Plan
from howdah.values.record import HostLimits

LINK = symmetric(10**9, 20_000_000)
RTT_S = 0.02


class _Holds(Archive):
    """An archive with these runs."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def runs(self, **_: object) -> Runs:
        return self._runs


def _planned(runs: Runs) -> Plan:
    here = HostLimits.here()
    link = msgspec.to_builtins(LINK)
    return from_runs(
        runs,
        Path(
            sender=here,
            receiver=LIMITS,
            rtt_s=RTT_S,
            kind="dedicated",
            host="far",
            link=link,
            encrypt=False,
            programs_loadable=here.privileged,
        ),
    )


@pytest.mark.parametrize("measured", [True, False])
def test_a_lab_is_not_asked_about_as_a_host_called_far(
    measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = sweep(
        lambda point: 0.93e9 if point.streams == 4 else 0.5e9,
        controls=("cubic", "reno"),
        streams=(1, 4),
        buffers=(4096.0,),
        rtts=(RTT_S,),
        path=link_in_words(LINK),
    )
    faster = sweep(lambda _: 9.3e9, controls=("reno",), rtts=(RTT_S,), buffers=(4096.0,), path="far")
    runs = joined(own, faster) if measured else faster.where(path="nothing")
    monkeypatch.setenv(LAB_LINK_VARIABLE, msgspec.json.encode(LINK).decode())
    hello = FarHello(version="1", limits=LIMITS, addresses=[], port=1, rtt_s=RTT_S)
    monkeypatch.setattr(question, "greet", lambda *_: hello)
    found = question.select(host="me@far", archive=_Holds(runs))
    best, planned = found.chosen, _planned(runs)
    assert best.rate_mid_bps < 1e9
    assert planned.why.prediction is not None
    assert (best.congestion_control, best.streams) == (planned.congestion_control, planned.streams)
    assert best.rate_mid_bps == planned.why.prediction.rate_mid_bps
    if measured:
        assert found.path == link_in_words(LINK)
