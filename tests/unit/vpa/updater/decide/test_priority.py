"""Which pods are worth an update, and in which order."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import START_S, container, oom, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.priority import Priority, candidates, lower_than, observed_containers, quick_oom

DAY_S = 24 * 3600.0


def requesting(name: str, cpu: str) -> Object:
    return pod(name, container(requests={"cpu": cpu, "memory": "1Gi"}))


def chosen(scaler: Object, *pods: Object, later_s: float = 60.0) -> list[str]:
    return [
        candidate.pod["metadata"]["name"] for candidate in candidates(pods, scaler, START_S + later_s, UpdateConfig())
    ]


BOUNDED = recommended(target={"cpu": "1"}, lower={"cpu": "500m"}, upper={"cpu": "2"})


def test_a_pod_beyond_the_bounds_is_updated_at_once_and_one_within_them_after_its_time() -> None:
    low, near, same = requesting("low", "100m"), requesting("near", "800m"), requesting("same", "950m")
    assert chosen(vpa(BOUNDED), low, near, same) == ["low"]
    assert chosen(vpa(BOUNDED), low, near, same, later_s=DAY_S) == ["low", "near"]


def test_pods_that_must_grow_come_first_then_those_furthest_from_their_target() -> None:
    pods = [requesting("falls", "9"), requesting("grows", "400m"), requesting("grows-most", "100m")]
    assert chosen(vpa(BOUNDED), *pods) == ["grows-most", "grows", "falls"]


def test_a_resource_without_request_is_beyond_the_bounds() -> None:
    [found] = candidates([pod("p", {"name": "app"})], vpa(BOUNDED), START_S, UpdateConfig())
    assert found.priority == Priority(True, True, 999.0)


def test_a_container_that_admission_did_not_see_does_not_count() -> None:
    unseen = pod("p", container(requests={"cpu": "100m"}), annotations={"vpaObservedContainers": "other"})
    assert chosen(vpa(BOUNDED), unseen) == []


@pytest.mark.parametrize(("text", "names"), [("a, b", {"a", "b"}), ("", set()), ("Not A Name", None), (None, None)])
def test_the_note_of_observed_containers_is_read_or_left(text: str | None, names: set[str] | None) -> None:
    annotations = {} if text is None else {"vpaObservedContainers": text}
    assert observed_containers(pod(annotations=annotations)) == names


@pytest.mark.parametrize(("lived_s", "quick"), [(599, True), (600, False)])
def test_memory_that_runs_out_soon_after_the_start_is_quick(lived_s: int, quick: bool) -> None:
    assert quick_oom(pod(statuses=[oom(lived_s=lived_s)]), vpa(), UpdateConfig()) is quick


def test_the_autoscalers_own_threshold_of_quick_needs_its_gate() -> None:
    scaler, killed = vpa(updatePolicy={"evictAfterOOMSeconds": 5}), pod(statuses=[oom(lived_s=10)])
    assert quick_oom(killed, scaler, UpdateConfig())
    assert not quick_oom(killed, scaler, UpdateConfig(gates={"PerVPAConfig": True}))


def test_a_restart_that_changes_nothing_does_not_help_a_pod_out_of_memory() -> None:
    entry = recommended(target={"cpu": "100m"})
    assert chosen(vpa(entry), pod(statuses=[oom()])) == []


def test_after_an_infeasible_resize_only_less_is_retried() -> None:
    tried = {"uid-p": {"containerRecommendations": [recommended(target={"cpu": "1"})]}}
    less = recommended(target={"cpu": "900m"}, lower={"cpu": "500m"})
    for entry, count in ((BOUNDED, 0), (less, 1)):
        scaler = vpa(entry, mode="InPlace")
        found = candidates([requesting("p", "100m")], scaler, START_S, UpdateConfig(), infeasible=tried)
        assert len(found) == count


def test_a_container_that_is_recommended_nothing_any_more_is_not_to_get_less() -> None:
    assert not lower_than({"containerRecommendations": [recommended()]}, {})


@pytest.mark.parametrize(("change", "found"), [("TargetHigherThanRequests", ["p"]), ("TargetLowerThanRequests", [])])
def test_eviction_requirements_hold_pods_back(change: str, found: list[str]) -> None:
    needs = {"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": change}]}
    assert chosen(vpa(BOUNDED, updatePolicy=needs), requesting("p", "100m")) == found
