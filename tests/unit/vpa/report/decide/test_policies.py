"""Sizes of a policy other than the default one."""

from __future__ import annotations

import numpy as np

from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.decide.policies import DEFAULT, LEAST, by_policy
from podfit.vpa.report.usage.evidence import PROMETHEUS, Curve, Evidence, Known

DAYS, STEP_S = 7, 300.0


def measured(cores: float, memory: float) -> Evidence:
    slots = int(DAYS * 86400 / STEP_S)
    cpu, used = np.full(slots, cores, np.float32), np.full(slots, memory, np.float32)
    return Evidence(PROMETHEUS, size=Estimate({"cpu": 1}, {}, {}), curve=Curve(0.0, STEP_S, cpu, cpu, used, used))


def at(name: str) -> tuple[Key, str]:
    return Key("ns", "Deployment", name), "app"


def test_the_default_policy_leaves_everything() -> None:
    known: Known = {at("a"): measured(0.5, 1e9)}
    assert by_policy(known, DEFAULT) == (known, 0)


def test_each_container_gets_the_size_of_its_own_curve() -> None:
    found, without = by_policy({at("a"): measured(0.5, 1e9), at("b"): measured(2.0, 4e9)}, "krr")
    small, large = found[at("a")], found[at("b")]
    assert without == 0 and small.policy == large.policy == "krr"
    assert 500 <= small.size.target["cpu"] < 600 < 2000 <= large.size.target["cpu"] < 2200
    assert 1e9 < small.size.target["memory"] < 1.3e9


def test_a_container_without_a_curve_keeps_its_size() -> None:
    plain = Evidence(PROMETHEUS, size=Estimate({"cpu": 7}, {}, {}))
    found, without = by_policy({at("a"): plain}, "krr")
    assert found[at("a")] is plain and without == 1


def test_no_size_is_below_the_least() -> None:
    found, _ = by_policy({at("a"): measured(0.0001, 1e6)}, "krr")
    assert found[at("a")].size.target["cpu"] >= LEAST["cpu"] and found[at("a")].size.target["memory"] >= LEAST["memory"]
