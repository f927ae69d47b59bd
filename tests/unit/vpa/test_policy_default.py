"""`default` gives what the recommender's own model gives for the same samples."""

from __future__ import annotations

import numpy as np
import pytest

from podfit.vpa.policies.base import Costs, InvalidSizes, UsageSeries, sizes_of
from podfit.vpa.policies.default import Default, whole
from podfit.vpa.policies.krr import KRR
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.container import ContainerState
from podfit.vpa.recommender.decide.histograms.estimate import estimate, minimums


def walked(used: np.ndarray, step_s: float, resource: str) -> np.ndarray:
    """The recommender's model, fed sample by sample and asked every hour; a sample above the size is a kill."""
    config = Config()
    aggregate, container = AggregateState(config), ContainerState()
    least, per = minimums(config, 1), round(3600 / step_s)
    sizes = np.full(used.shape, np.nan)
    size = float("nan")

    def asked() -> float:
        return float(estimate(aggregate, config, least).target.get(resource, np.nan))

    for sample, value in enumerate(used):
        if sample and sample % per == 0:
            size = asked()
        sizes[sample] = size
        if np.isnan(value):
            continue
        if resource == "cpu":
            container.add_cpu(aggregate, int(whole(value * np.float32(1000.0))), sample * step_s)
            continue
        container.add_memory(aggregate, int(whole(value)), sample * step_s)
        if value > np.float32(size):
            container.record_oom(aggregate, int(size), sample * step_s)
            size = asked()
    return sizes / (1000.0 if resource == "cpu" else 1.0)


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize("seed", range(6))
def test_default_agrees_with_the_recommenders_model(resource: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    samples = 9 * 288
    level = np.exp(np.cumsum(random.normal(0, 0.03, samples))) * random.lognormal(0, 0.2, samples)
    used = (level * (0.4 if resource == "cpu" else 2.0**30)).astype(np.float32)
    used[random.random(samples) < 0.02] *= 3
    used[500:900] = np.nan
    found = sizes_of(Default(), UsageSeries(used[None], 300.0, resource))[0]
    np.testing.assert_allclose(found, walked(used, 300.0, resource).astype(np.float32), rtol=1e-6)


def test_krr_is_the_95th_percentile_of_cpu_and_the_maximum_of_memory_with_a_margin() -> None:
    used = np.random.default_rng(1).lognormal(0, 0.5, (2, 600)).astype(np.float32)
    cpu, memory = (sizes_of(KRR, UsageSeries(used, 300.0, resource)) for resource in ("cpu", "memory"))
    for hour in (1, 2, 17, 49):
        before = used[:, : hour * 12]
        np.testing.assert_allclose(cpu[:, hour * 12], np.quantile(before, 0.95, axis=1), rtol=1e-5)
        np.testing.assert_allclose(memory[:, hour * 12], before.max(1) * 1.15, rtol=1e-6)


class Broken:
    name = "broken"

    def __init__(self, sizes: np.ndarray) -> None:
        self.returned = sizes

    def sizes(self, series: UsageSeries, costs: Costs) -> np.ndarray:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.full((1, 3), -1.0), "policy broken returned -1 as a size of container 0 at sample 0"),
        (np.array([[1.0, np.inf, 1.0]]), "policy broken returned inf as a size of container 0 at sample 1"),
        (np.ones((1, 2)), r"policy broken returned sizes of shape \(1, 2\) for usage of shape \(1, 3\)"),
        (np.array([["a", "b", "c"]]), "policy broken returned sizes of type <U1, not numbers with a fraction"),
    ],
)
def test_a_policy_that_returns_nonsense_is_named(returned: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidSizes, match=message):
        sizes_of(Broken(returned), UsageSeries(np.ones((1, 3), np.float32), 300.0, "cpu"))
