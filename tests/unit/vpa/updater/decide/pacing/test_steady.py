"""Targets rise at once and fall only after the delay."""

from __future__ import annotations

from typing import Any

from podfit.vpa.updater.decide.pacing.steady import StableTargets


def vpa(cpu: str, name: str = "v") -> dict[str, Any]:
    entries = [{"containerName": "c", "target": {"cpu": cpu}}]
    return {
        "metadata": {"namespace": "ns", "name": name},
        "status": {"recommendation": {"containerRecommendations": entries}},
    }


def target(settled: Any) -> str:
    return str(settled["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"])


def test_a_higher_target_counts_at_once_and_a_lower_one_after_the_delay() -> None:
    steady = StableTargets(60.0)
    seen = [target(steady.settle(vpa(cpu), at)) for at, cpu in ((0, "1"), (10, "2"), (20, "500m"), (79, "500m"))]
    assert seen == ["1", "2", "2", "2"]
    assert target(steady.settle(vpa("500m"), 80)) == "500m"


def test_amounts_are_compared_as_quantities() -> None:
    steady = StableTargets(60.0)
    steady.settle(vpa("900m"), 0)
    assert target(steady.settle(vpa("1"), 1)) == "1"


def test_without_a_delay_nothing_is_kept() -> None:
    steady = StableTargets(0.0)
    steady.settle(vpa("2"), 0)
    assert target(steady.settle(vpa("1"), 1)) == "1"


def test_an_autoscaler_that_is_gone_is_forgotten() -> None:
    steady = StableTargets(60.0)
    steady.settle(vpa("2"), 0)
    steady.forget(set())
    assert target(steady.settle(vpa("1"), 1)) == "1"


def test_a_higher_target_in_between_starts_the_delay_again() -> None:
    steady = StableTargets(300.0)
    seen = [
        target(steady.settle(vpa(cpu), at)) for at, cpu in ((0, "100m"), (60, "500m"), (120, "200m"), (360, "200m"))
    ]
    assert seen == ["100m", "500m", "500m", "500m"]
    assert target(steady.settle(vpa("200m"), 421)) == "200m"
