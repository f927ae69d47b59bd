"""The requests and limits that a container should have, and why."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.decide.sizing import MI, ContainerSizes, SizeBounds, Sizing, risks, rounded, sized
from podfit.vpa.report.usage.evidence import PROMETHEUS, Evidence
from podfit.vpa.runtimes.heaps import Heap


def evidence(cpu: int | None = 100, memory: int | None = 100 * MI, **more: Any) -> Evidence:
    target = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    used = more.pop("used", {"cpu": 80, "memory": 90 * MI})
    return Evidence(PROMETHEUS, size=Estimate(target, target, target), used=used, **more)


def fit(now: ContainerSizes, given: Evidence | None = None, heap: Heap | None = None, **bounds: Any) -> Sizing:
    return sized(now, given or evidence(), heap, SizeBounds(**bounds))


def test_requests_are_the_target_and_no_limit_is_made_up() -> None:
    assert fit(ContainerSizes()).sizes == ContainerSizes({"cpu": 100, "memory": 100 * MI}, {})


def test_a_resource_without_samples_gets_no_size() -> None:
    assert fit(ContainerSizes(), evidence(cpu=None)).sizes.requests.keys() == {"memory"}


def test_a_limit_keeps_its_ratio_to_the_request() -> None:
    assert fit(ContainerSizes({"cpu": 500}, {"cpu": 1000})).sizes.limits == {"cpu": 200}


def test_a_memory_limit_stays_a_tenth_above_the_highest_use() -> None:
    now = ContainerSizes({"memory": 100 * MI}, {"memory": 101 * MI})
    found = fit(now, evidence(used={"memory": 256 * MI}))
    assert found.sizes.limits["memory"] == 282 * MI
    assert "memory: the limit stays 10 % above the highest usage" in found.why


def test_a_request_that_equals_its_limit_stays_equal() -> None:
    found = fit(ContainerSizes({"memory": 500 * MI}, {"memory": 500 * MI}), evidence(used={"memory": 256 * MI}))
    assert found.sizes.requests["memory"] == found.sizes.limits["memory"] == 282 * MI


def test_memory_is_never_below_the_heap() -> None:
    found = fit(ContainerSizes(), heap=Heap("JVM", "-Xmx1g", heap=1 << 30))
    assert found.sizes.requests["memory"] > 1 << 30
    assert any(words.startswith("memory: not below its heap: ") for words in found.why)


@pytest.mark.parametrize(("used", "rule"), [(90, "sufficient nearly always"), (110, "newest usage weighted most")])
def test_a_size_below_earlier_usage_is_not_called_sufficient(used: int, rule: str) -> None:
    assert fit(ContainerSizes(), evidence(used={"cpu": used})).why[0].startswith(f"cpu: {rule}")


def test_a_container_that_is_throttled_gets_more_cpu_up_to_its_limit() -> None:
    now, held = ContainerSizes({"cpu": 100}, {"cpu": 120}), evidence(throttled=0.5)
    found = fit(now, held)
    assert found.sizes.requests["cpu"] == 120 and found.sizes.limits["cpu"] == 180
    assert "cpu: throttled at its limit in 50 % of the periods" in found.why


@pytest.mark.parametrize(
    ("bounds", "cpu", "words"),
    [
        ({"least": {"cpu": 200}}, 200, "cpu: not below the configured minimum"),
        ({"most": {"cpu": 50}}, 50, "cpu: 100m would fit, but the configured maximum is lower"),
    ],
)
def test_sizes_stay_within_what_was_given(bounds: dict[str, Any], cpu: int, words: str) -> None:
    found = fit(ContainerSizes(), **bounds)
    assert found.sizes.requests["cpu"] == cpu and words in found.why


def test_limits_that_are_kept_bound_the_request() -> None:
    found = fit(ContainerSizes({"cpu": 10}, {"cpu": 60}), keep_limits=True)
    assert found.sizes.requests["cpu"] == 60 and found.sizes.limits == {}


@pytest.mark.parametrize(
    ("resource", "amount", "result"),
    [("cpu", 0, 1), ("cpu", 7, 7), ("memory", 1, MI), ("memory", MI + 1, 2 * MI)],
)
def test_sizes_are_whole_numbers_for_people(resource: str, amount: int, result: int) -> None:
    assert rounded(resource, amount) == result


@pytest.mark.parametrize(
    ("now", "given", "killed", "found"),
    [
        (ContainerSizes(), None, False, ()),
        (ContainerSizes(), None, True, ("OOM-killed",)),
        (ContainerSizes(), evidence(ooms=1), False, ("OOM-killed",)),
        (ContainerSizes({}, {"memory": 100 * MI}), evidence(), False, ("near OOM",)),
        (ContainerSizes({"memory": 80 * MI}), evidence(), False, ("over memory request",)),
        (ContainerSizes({}, {"cpu": 85}), evidence(), False, ("throttled",)),
        (ContainerSizes({}, {"cpu": 85}), evidence(throttled=0.0), False, ()),
        (ContainerSizes(), evidence(throttled=0.3), False, ("throttled",)),
    ],
)
def test_risks_of_the_sizes_of_now(
    now: ContainerSizes, given: Evidence | None, killed: bool, found: tuple[str, ...]
) -> None:
    assert risks(now, given, killed) == found
