"""Sizes without a ledger entry are restored from the status and the kernel."""

from __future__ import annotations

from typing import Any

from podfit.agent.decide.pod.restored import actuated, allocation
from podfit.agent.runtimes.values import Limits


def pod(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    size = {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    return {
        "metadata": {"uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": size}], **spec},
        "status": status,
    }


def test_the_actuated_size_is_the_kernels_and_memory_requests_are_taken_as_written() -> None:
    found = actuated({"requests": {"memory": "1Gi"}}, None, Limits(512, 50_000, 64 << 20))
    assert found == {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}
    believed = {"requests": {"memory": "2Gi"}}
    assert actuated({}, believed, Limits(2, None, None))["requests"]["memory"] == "2Gi"
    assert "limits" not in actuated({}, believed, Limits(2, None, None))


def test_an_allocation_has_the_reported_requests_and_the_kernels_limits() -> None:
    reported = {"name": "c", "allocatedResources": {"cpu": "1", "memory": "1Gi"}}
    found = allocation(pod({"containerStatuses": [reported]}), {"c": Limits(1024, 100_000, 1 << 30)})
    assert found.containers["c"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "1Gi"},
    }


def test_a_reported_limit_that_differs_only_by_page_rounding_is_kept() -> None:
    reported = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "100M"}}}
    found = allocation(pod({"containerStatuses": [reported]}), {"c": Limits(1024, 200_000, 100_000_000 // 4096 * 4096)})
    assert found.containers["c"]["limits"]["memory"] == "100M"


def test_a_container_of_which_nothing_is_known_has_what_the_spec_requests() -> None:
    found = allocation(pod({}), {})
    assert found.containers["c"]["limits"] == {"cpu": "2", "memory": "2Gi"}


def test_pod_level_sizes_come_from_the_status() -> None:
    status = {"allocatedResources": {"cpu": "1"}, "resources": {"limits": {"cpu": "3"}}}
    found = allocation(pod(status, resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "4Gi"}}), {})
    assert found.pod == {"limits": {"cpu": "3", "memory": "4Gi"}, "requests": {"cpu": "1"}}
