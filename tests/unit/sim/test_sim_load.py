"""Usage curves of pods, from seeds, traces and the age of their containers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.scenarios import a_scenario, a_workload

from podfit.sim.load.curves import Trace
from podfit.sim.load.load import Load
from podfit.sim.scenario.fields import BadScenario
from podfit.sim.scenario.model import BURSTS, CONSTANT, DAILY, LEAK, RAMP, TRACE, Curve

HOUR = 12
"""Steps of five minutes."""


def cpu(curve: Curve, steps: int, replicas: int = 1, seed: int = 0, uptime: float = 0.0) -> np.ndarray:
    load = Load(a_scenario(a_workload(replicas=replicas, cpu_curve=curve), seed=seed))
    return np.stack([load.at("cpu", step, np.full(replicas, uptime)) for step in range(steps)])


def test_a_constant_curve_is_constant() -> None:
    assert (cpu(Curve(CONSTANT, 0.5), 10) == 0.5).all()


def test_a_daily_curve_peaks_at_its_hour_and_repeats() -> None:
    found = cpu(Curve(DAILY, 0.1, 0.9, peak_s=14 * 3600.0), 48 * HOUR)[:, 0]
    assert found[: 24 * HOUR].argmax() == 14 * HOUR
    assert found.max() == pytest.approx(0.9) and found.min() == pytest.approx(0.1)
    assert np.allclose(found[: 24 * HOUR], found[24 * HOUR :])


def test_a_ramp_rises_and_stays() -> None:
    found = cpu(Curve(RAMP, 1.0, 3.0, over_s=3600.0), 3 * HOUR)[:, 0]
    assert (found[0], found[HOUR // 2], found[HOUR], found[-1]) == (1.0, 2.0, 3.0, 3.0)


def test_a_leak_grows_with_the_age_of_the_container_alone() -> None:
    leak = Curve(LEAK, 1.0, rate=0.001)
    assert cpu(leak, 5, uptime=0.0)[-1, 0] == 1.0
    assert cpu(leak, 5, uptime=1000.0)[0, 0] == 2.0


def test_bursts_last_as_long_as_they_should_and_begin_apart() -> None:
    found = cpu(Curve(BURSTS, 0.1, 2.0, every_s=3600.0, over_s=900.0), 240 * HOUR, replicas=20)
    assert set(np.unique(found)) == {0.1, 2.0}
    begins = (found[1:] == 2.0) & (found[:-1] == 0.1)
    assert 150 < begins.sum(0).mean() < 240, "about one in an hour and a quarter"
    assert len(np.unique(begins.argmax(0))) > 5
    first = int(begins[:, 0].argmax()) + 1
    assert (found[first : first + 3, 0] == 2.0).all()


def test_noise_keeps_the_mean_and_differs_between_pods() -> None:
    found = cpu(Curve(CONSTANT, 1.0, noise=0.3), 200, replicas=50)
    assert found.mean() == pytest.approx(1.0, abs=0.02)
    assert found.std() > 0.2
    assert not np.array_equal(found[:, 0], found[:, 1])


def test_the_same_seed_gives_the_same_load_and_another_seed_another() -> None:
    curve = Curve(BURSTS, 0.1, 2.0, every_s=3600.0, over_s=900.0, noise=0.1)
    assert np.array_equal(cpu(curve, 50, 5, seed=1), cpu(curve, 50, 5, seed=1))
    assert not np.array_equal(cpu(curve, 50, 5, seed=1), cpu(curve, 50, 5, seed=2))


def test_the_load_of_one_workload_does_not_depend_on_the_curve_of_another() -> None:
    def second(curve: Curve) -> np.ndarray:
        noisy = Curve(CONSTANT, 1.0, noise=0.5)
        load = Load(a_scenario(a_workload("one", cpu_curve=curve), a_workload("two", cpu_curve=noisy)))
        return np.stack([load.at("cpu", step, np.zeros(2))[1:] for step in range(20)])

    assert np.array_equal(second(Curve(CONSTANT, 1.0)), second(Curve(BURSTS, 1.0, 2.0, every_s=600.0, over_s=600.0)))


def test_a_trace_repeats_and_a_gap_is_no_usage() -> None:
    samples = np.array([[1.0, np.nan, 3.0], [10.0, 20.0, 30.0]], np.float32)
    curve = Curve(TRACE, file="a.npz", scale=2.0, series=0)
    scenario = a_scenario(a_workload(cpu_curve=curve))
    load = Load(scenario, {("a.npz", "cpu"): Trace(samples, 300.0)})
    assert [float(load.at("cpu", step, np.zeros(1))[0]) for step in range(5)] == [2.0, 0.0, 6.0, 2.0, 0.0]


def test_replicas_follow_different_series_of_a_trace() -> None:
    samples = np.arange(50, dtype=np.float32)[:, None]
    scenario = a_scenario(a_workload(replicas=100, cpu_curve=Curve(TRACE, file="a.npz")))
    load = Load(scenario, {("a.npz", "cpu"): Trace(samples, 300.0)})
    assert len(set(load.at("cpu", 0, np.zeros(100)).tolist())) > 25


def test_a_trace_that_is_too_small_is_named_by_its_field() -> None:
    scenario = a_scenario(a_workload(cpu_curve=Curve(TRACE, file="a.npz", series=2)))
    trace = Trace(np.ones((2, 3), np.float32), 300.0)
    with pytest.raises(BadScenario, match=r"^workloads\[0\].usage.cpu.series: 2 of 2 series; they are counted from 0$"):
        Load(scenario, {("a.npz", "cpu"): trace})
    with pytest.raises(BadScenario, match=r"^workloads\[0\].usage.cpu.file: a.npz has no cpu$"):
        Load(replace(scenario), {})
