"""The prices by which policies choose, as users write them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podfit.vpa.flags import BadFlag
from podfit.vpa.policies.base import Costs
from podfit.vpa.policies.prices import priced
from podfit.vpa.recommender.config import recommender_config
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.decide.policies import by_policy
from podfit.vpa.report.usage.evidence import Curve, Evidence

GIB = 1 << 30


def test_prices_that_are_not_given_keep_their_defaults() -> None:
    assert priced(["oom-day=1000", "short=1500m"]) == replace(Costs(), oom_day=1000.0, short=1.5)


@pytest.mark.parametrize(
    ("word", "why"),
    [("oom=1", "is one of oom-day"), ("drop", "'' is no number"), ("burst=-1", "negative"), ("short=nan", "no number")],
)
def test_a_price_that_makes_no_sense_is_refused(word: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        priced([word])
    with pytest.raises(BadFlag, match="--policy-costs: "):
        recommender_config([f"--policy-costs={word}"])


def test_a_higher_price_of_an_out_of_memory_day_gives_more_memory() -> None:
    random = np.random.default_rng(1)
    memory = (GIB * random.lognormal(0, 0.2, 288 * 6)).astype(np.float32)
    cpu = np.full(len(memory), np.nan, np.float32)
    key = Key("ns", "Deployment", "web"), "main"
    known = {key: Evidence("prometheus", curve=Curve(0.0, 300.0, cpu, cpu, memory, memory))}
    sizes = [by_policy(known, "window", Costs(oom_day=price))[0][key].size for price in (1.0, 100_000.0)]
    assert all(isinstance(size, Estimate) for size in sizes)
    assert sizes[0].target["memory"] < sizes[1].target["memory"]
