"""What a pod counts for while it is resized, by the rules of the designs of 2020 and 2021."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.resize_counting import counted
from podfit.api.resources import pod_requests
from podfit.api.status import Object


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
