"""Pod-level resources: defaults, QoS class, and what a resize may change, as in Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
BOTH = {"requests": {"cpu": "200m", "memory": "200Mi"}, "limits": {"cpu": "400m", "memory": "400Mi"}}
SOME = {"requests": {"cpu": "100m", "memory": "100Mi"}}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        asker = Asker(server)
        await asker("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        yield asker


async def create(ask: Asker, whole: Any, obj: Any, **spec: Any) -> tuple[int, Any]:
    container = {"name": "c", "image": "i", "resources": obj}
    given = {} if whole is None else {"resources": whole}
    body = {"schedulerName": "none", "containers": [container], **given, **spec}
    return await ask("POST", PODS, {"metadata": {"name": "p"}, "spec": body})


async def resize(ask: Asker, whole: Any) -> tuple[int, Any]:
    return await ask("PATCH", f"{PODS}/p/resize", {"spec": {"resources": whole}}, MERGE)


def complaints(status: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        ({"requests": {"cpu": "200m"}}, {"cpu": "200m"}),
        ({"limits": {"cpu": "400m"}}, {"cpu": "100m", "memory": "100Mi"}),
        ({"requests": {"cpu": "200m"}, "limits": {"cpu": "400m"}}, {"cpu": "200m", "memory": "100Mi"}),
    ],
    ids=["requests alone", "limits alone", "both"],
)
async def test_pod_level_requests_are_filled_in_only_where_there_are_limits(
    ask: Asker, whole: Any, expected: dict[str, str]
) -> None:
    _, pod = await create(ask, whole, SOME)
    assert pod["spec"]["resources"]["requests"] == expected


@pytest.mark.parametrize("whole", [{}, {"requests": {}}, {"requests": {}, "limits": {}}])
async def test_empty_pod_level_resources_make_a_best_effort_pod(ask: Asker, whole: Any) -> None:
    _, pod = await create(ask, whole, SOME)
    assert pod["status"]["qosClass"] == "BestEffort"


async def test_pod_level_resources_are_refused_for_windows(ask: Asker) -> None:
    code, status = await create(ask, BOTH, SOME, os={"name": "windows"})
    assert (code, complaints(status)) == (422, [("spec.resources", "Forbidden: may not be set for a windows pod")])


async def test_a_resource_without_a_pod_level_request_is_not_compared_with_the_containers(ask: Asker) -> None:
    code, _ = await create(ask, {"requests": {"memory": "200Mi"}}, SOME)
    assert code == 201


REQUESTS = ("spec.resources.requests", "Forbidden: pod-level resource requests cannot be removed")
LIMITS = ("spec.resources.limits", "Forbidden: pod-level resource limits cannot be removed")
CLASS = ("spec", 'Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing')


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        ({"requests": None, "limits": None}, [CLASS, REQUESTS, LIMITS]),
        ({"requests": {"cpu": None}}, []),
        ({"limits": None}, [LIMITS]),
        (None, [("spec.resources", "Forbidden: pod-level resources cannot be removed")]),
    ],
    ids=["emptied", "a request that is filled in again", "no limits", "removed"],
)
async def test_a_resize_that_removes_pod_level_resources_names_each_list(ask: Asker, whole: Any, expected: Any) -> None:
    await create(ask, BOTH, SOME)
    code, answer = await resize(ask, whole)
    assert (complaints(answer) if code == 422 else []) == expected


async def test_claims_at_pod_level_are_no_part_of_a_resize(ask: Asker) -> None:
    await create(ask, BOTH, SOME)
    _, status = await resize(ask, {"claims": [{"name": "x"}]})
    assert complaints(status)[-1] == ("spec", "Forbidden: only cpu and memory resources are mutable at pod-level")


async def test_a_resize_cannot_add_empty_pod_level_resources(ask: Asker) -> None:
    await create(ask, None, {})
    code, status = await resize(ask, {})
    assert (code, complaints(status)) == (422, [("spec", "Forbidden: only cpu and memory resources are mutable")])
