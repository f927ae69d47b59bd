"""Quotas, limit ranges and templates in namespaces of the designs of 2020 and 2021: the rest of their test plans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named

DESIGNS = pytest.mark.parametrize("design", ["2020", "2021"])
STRATEGIC = "application/strategic-merge-patch+json"
BASE = "/api/v1/namespaces/old"


@pytest.fixture
async def whole(tmp_path: Path, design: str) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as made:
        await made.namespace("old", design)
        yield made


def is_running(pod: Object | None) -> bool:
    listed = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    return bool(listed) and all("running" in item.get("state", {}) for item in listed)


def is_counted(quota: Object | None) -> bool:
    return bool(((quota or {}).get("status") or {}).get("used"))


async def running(whole: Whole) -> Asker:
    """A pod that requests 200m and 64Mi, and may use twice that."""
    ask, spec = Asker(whole.up.server), pod_spec("200m", "64Mi")
    spec["containers"][0]["resources"]["limits"] = {"cpu": "400m", "memory": "128Mi"}
    code, answer = await ask("POST", f"{BASE}/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert code == 201, answer
    await becomes(whole.client, POD, "old", "p", is_running)
    return ask


async def resize(ask: Asker, requests: Object, limits: Object | None = None) -> tuple[int, Object]:
    sizes = {"requests": requests, **({"limits": limits} if limits else {})}
    patch = {"spec": {"containers": [{"name": "c", "resources": sizes}]}}
    return await ask("PATCH", f"{BASE}/pods/p", patch, STRATEGIC)


QUOTA = {
    "within: cpu": ({"cpu": "300m"}, 200),
    "within: memory": ({"memory": "96Mi"}, 200),
    "within: cpu and memory": ({"cpu": "300m", "memory": "96Mi"}, 200),
    "beyond: cpu": ({"cpu": "350m"}, 403),
    "beyond: memory": ({"memory": "120Mi"}, 403),
    "beyond: cpu and memory": ({"cpu": "350m", "memory": "120Mi"}, 403),
}


@DESIGNS
@pytest.mark.parametrize("entry", QUOTA)
async def test_a_resize_is_held_to_the_quota(whole: Whole, design: str, entry: str) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "300m", "requests.memory": "96Mi"}}}
    await Asker(whole.up.server)("POST", f"{BASE}/resourcequotas", quota)
    await becomes(whole.client, kind_named("ResourceQuota"), "old", "q", is_counted)
    requests, code = QUOTA[entry]
    answered, answer = await resize(await running(whole), requests)
    assert answered == code, answer
    assert code == 200 or "exceeded quota: q" in answer["message"]


RANGE = {
    "cpu within": ({"cpu": "300m"}, {"cpu": "500m"}, 200),
    "cpu beyond the maximum": ({"cpu": "300m"}, {"cpu": "700m"}, 403),
    "cpu below the minimum": ({"cpu": "50m"}, None, 403),
    "memory beyond the maximum": ({"memory": "64Mi"}, {"memory": "512Mi"}, 403),
    "memory below the minimum": ({"memory": "16Mi"}, None, 403),
}


@DESIGNS
@pytest.mark.parametrize("entry", RANGE)
async def test_a_resize_is_held_to_the_limit_range(whole: Whole, design: str, entry: str) -> None:
    bounds = {"min": {"cpu": "100m", "memory": "32Mi"}, "max": {"cpu": "600m", "memory": "256Mi"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **bounds}]}}
    await Asker(whole.up.server)("POST", f"{BASE}/limitranges", body)
    requests, limits, code = RANGE[entry]
    answered, answer = await resize(await running(whole), requests, limits)
    assert answered == code, answer


@DESIGNS
async def test_limits_below_requests_are_refused(whole: Whole, design: str) -> None:
    code, answer = await resize(await running(whole), {"cpu": "500m"})
    where = 'spec.containers[0].resources.requests: Invalid value: "500m"'
    assert (code, answer["message"]) == (
        422,
        f'Pod "p" is invalid: {where}: must be less than or equal to cpu limit of 400m',
    )


@DESIGNS
async def test_the_resources_of_a_job_template_cannot_be_changed(whole: Whole, design: str) -> None:
    ask = Asker(whole.up.server)
    spec = {"template": {"spec": {**pod_spec(), "restartPolicy": "Never"}}}
    await ask("POST", "/apis/batch/v1/namespaces/old/jobs", {"metadata": {"name": "j"}, "spec": spec})
    one = {"name": "c", "resources": {"requests": {"cpu": "300m"}}}
    patch = {"spec": {"template": {"spec": {"containers": [one]}}}}
    code, answer = await ask("PATCH", "/apis/batch/v1/namespaces/old/jobs/j", patch, STRATEGIC)
    assert (code, "field is immutable" in answer["message"]) == (422, True)


@DESIGNS
async def test_a_change_of_a_deployment_template_replaces_the_pods(whole: Whole, design: str) -> None:
    ask, body = Asker(whole.up.server), workload("Deployment", "d", 1)
    body["metadata"]["namespace"] = "old"
    await ask("POST", "/apis/apps/v1/namespaces/old/deployments", body)

    def have(cpu: str, pods: list[Object]) -> bool:
        return len(pods) == 1 and is_running(pods[0]) and _cpu(pods[0]) == cpu

    before = await all_become(whole.client, POD, "old", lambda pods: have("100m", pods))
    one = {"name": "c", "resources": {"requests": {"cpu": "300m"}}}
    patch = {"spec": {"template": {"spec": {"containers": [one]}}}}
    await ask("PATCH", "/apis/apps/v1/namespaces/old/deployments/d", patch, STRATEGIC)
    after = await all_become(whole.client, POD, "old", lambda pods: have("300m", pods))
    assert after[0]["metadata"]["uid"] != before[0]["metadata"]["uid"]


def _cpu(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


@DESIGNS
async def test_the_node_says_by_events_what_it_does_with_a_resize(whole: Whole, design: str) -> None:
    ask = await running(whole)
    await resize(ask, {"cpu": "300m"})
    await all_become(whole.client, kind_named("Event"), "old", lambda events: "ResizeCompleted" in reasons(events))
    await resize(ask, {"cpu": "900"}, {"cpu": "900"})
    await all_become(whole.client, kind_named("Event"), "old", lambda events: "ResizeInfeasible" in reasons(events))


def reasons(events: list[Object]) -> set[str]:
    return {event["reason"] for event in events}
