"""Running policies: which containers need a new size, and the sizes they get."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.autoscalers import vpa

from podfit.api.selectors import LabelSelector
from podfit.vpa.policies.base import Costs, UsageSeries
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.curves import DAY, HOUR, SLOT_S
from podfit.vpa.recommender.decide.curves.live import NAMES, LivePolicies
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState

FIRST = 6_000_000
WEB = ("ns", "v")


class Counting:
    """A policy of twice the highest usage, which counts its calls."""

    name = "counting"

    def __init__(self, fails: bool = False) -> None:
        self.asked, self._fails = 0, fails

    def sizes(self, series: UsageSeries, costs: Costs) -> NDArray[np.floating]:
        self.asked += series.resource == "cpu"
        if self._fails:
            raise ValueError("broken")
        return np.repeat(2 * np.nanmax(series.usage, axis=1, keepdims=True), series.usage.shape[1], axis=1)


class Live:
    """One container that `auto` sizes; samples are added slot by slot."""

    def __init__(self, fails: bool = False, shadows: tuple[str, ...] = (), recommender: str = "auto") -> None:
        config = Config()
        self.fleet, self.policy = Fleet(config), Counting(fails)
        self.cluster = ClusterState(config, self.fleet)
        self.cluster.add_vpa(vpa(), LabelSelector.parse("app=web"))
        self.cluster.add_pod(("ns", "p"), {"app": "web"}, "Running")
        self.cluster.add_container(("ns", "p"), "app")
        self.policies = LivePolicies(self.fleet, shadows, {"auto": self.policy})
        self.policies.follow({recommender: self.cluster.vpas.values()})
        self.slot = FIRST

    def use(self, millicores: int, slots: int = 1) -> int:
        """The number of containers sized after that."""
        for _ in range(slots):
            args = (np.array([0]), np.array([self.slot * SLOT_S]), np.array([millicores]), np.array([10**8]))
            self.policies.curves.take(*args)
            self.slot += 1
        return self.policies.refresh(self.slot * SLOT_S)

    @property
    def cpu(self) -> float:
        return round(self.policies.of(WEB)["app"].size["cpu"], 2)


def test_a_container_is_sized_at_first_and_then_once_an_hour() -> None:
    live = Live()
    assert live.use(100, DAY) == 1 and live.cpu == 0.2
    assert sum(live.use(100) for _ in range(HOUR)) == 1


def test_a_sample_that_the_size_did_not_hold_sizes_at_once() -> None:
    live = Live()
    live.use(100, DAY)
    while live.use(100) == 0:
        pass
    assert live.use(150) == 0 and live.use(900) == 1
    assert live.cpu == 1.8


def test_an_out_of_memory_kill_sizes_at_once() -> None:
    live = Live()
    live.use(100, DAY)
    while live.use(100) == 0:
        pass
    live.policies.killed(int(live.fleet.row[0]), live.slot * SLOT_S, 10**9)
    assert live.policies.refresh(live.slot * SLOT_S) == 1
    assert live.policies.of(WEB)["app"].size["memory"] == pytest.approx(2e9, rel=0.01)


def test_a_policy_beside_is_judged_and_sizes_nothing() -> None:
    live = Live(shadows=("auto",), recommender="default")
    live.use(100, DAY)
    assert live.policies.of(WEB) == {} and live.policies.judged(WEB)["app"].keys() == {"auto"}
    assert len(live.policies.totals()["auto", "cpu"]) == 1


def test_a_policy_that_fails_is_named_for_the_container() -> None:
    live = Live(fails=True)
    live.use(100, DAY)
    assert live.policies.failed(WEB) == "container app: policy counting failed: ValueError: broken"


def test_without_policies_there_is_nothing_to_do() -> None:
    live = Live(recommender="default")
    assert not live.policies and "default" not in NAMES


def test_the_usage_of_a_container_survives_a_restart() -> None:
    live, after = Live(), Live()
    live.use(100, DAY)
    text = live.policies.saved(WEB, "app")
    assert text and live.policies.saved(WEB, "other") == ""
    after.policies.restore(WEB, "app", text, live.slot * SLOT_S)
    after.policies.refresh(live.slot * SLOT_S)
    assert after.cpu == live.cpu
