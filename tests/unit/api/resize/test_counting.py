"""The size at which a pod is counted during a resize, by the rules of the designs of 2020 and 2021."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.api.pods.resources import pod_requests
from podfit.api.resize.counting import counted, counted_in_quota


def pod(requested: str, allocated: str, actual: str, conditions: tuple[Object, ...] = (), observed: int = 2) -> Object:
    def cpu(text: str) -> dict[str, Any]:
        return {"requests": {"cpu": text}}

    status = {"name": "c", "state": {"running": {}}, "allocatedResources": {"cpu": allocated}, "resources": cpu(actual)}
    return {
        "metadata": {"name": "p", "generation": 2},
        "spec": {"containers": [{"name": "c", "resources": cpu(requested)}]},
        "status": {"observedGeneration": observed, "conditions": list(conditions), "containerStatuses": [status]},
    }


def pending(reason: str) -> Object:
    return {"type": "PodResizePending", "status": "True", "reason": reason, "observedGeneration": 2}


IN_PROGRESS = {"type": "PodResizeInProgress", "status": "True", "observedGeneration": 2}


def count(obj: Object, dialect: str) -> str:
    return str(pod_requests(counted(obj, dialect), use_status=True)["cpu"])


@pytest.mark.parametrize(
    ("obj", "amount"),
    [
        (pod("2", "1", "1", observed=1), "2"),
        (pod("1", "2", "2", observed=1), "2"),
        (pod("1", "1", "2", (IN_PROGRESS,)), "1"),
        (pod("100", "1", "1", (pending("Infeasible"),)), "1"),
        (pod("2", "1", "1", (pending("Deferred"),)), "2"),
        (pod("2", "1", "1", (pending("SomeDay"),)), "2"),
    ],
    ids=["Proposed up", "Proposed down", "InProgress down", "Infeasible", "Deferred", "unknown as Deferred"],
)
def test_in_2021_a_pod_counts_the_larger_while_undecided_and_the_allocation_afterwards(
    obj: Object, amount: str
) -> None:
    assert count(obj, "2021") == amount


@pytest.mark.parametrize(
    "obj",
    [pod("2", "1", "1", observed=1), pod("2", "1", "1", (pending("Deferred"),)), pod("1", "1", "2", (IN_PROGRESS,))],
    ids=["waits", "does not fit", "is applied"],
)
def test_in_2020_a_pod_counts_what_is_allocated_whatever_it_requests(obj: Object) -> None:
    assert count(obj, "2020") == "1"


def test_a_native_pod_is_counted_as_it_is() -> None:
    obj = pod("2", "1", "1", observed=1)
    assert counted(obj, "v1.31") is obj


def in_quota(obj: Object, dialect: str) -> str:
    return str(pod_requests(counted_in_quota(obj, dialect), use_status=True)["cpu"])


SHRINKING = pod("1", "2", "3", (IN_PROGRESS,))
IMPOSSIBLE = pod("100", "1", "2", (pending("Infeasible"),))


@pytest.mark.parametrize(
    ("dialect", "shrinking", "impossible"),
    [("2020", "2", "100"), ("2021", "2", "100"), ("v1.31", "2", "1"), ("v1.32", "3", "2"), ("v1.35", "3", "2")],
)
def test_quota_counts_by_the_rule_of_the_dialect(dialect: str, shrinking: str, impossible: str) -> None:
    assert (in_quota(SHRINKING, dialect), in_quota(IMPOSSIBLE, dialect)) == (shrinking, impossible)


@pytest.mark.parametrize("dialect", ["2020", "2021", "v1.31", "v1.32"])
def test_a_pod_that_no_node_has_reported_on_counts_in_quota_for_what_it_requests(dialect: str) -> None:
    obj = pod("2", "1", "1")
    del obj["status"]["containerStatuses"]
    assert in_quota(obj, dialect) == "2"
