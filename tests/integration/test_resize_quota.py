"""Quota counts the size that a resize requests, whatever the node reported about an earlier one."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC

QUOTA = kind_named("ResourceQuota")


def requests(**amounts: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}}


def verdict(pod: Any) -> tuple[str, int] | None:
    for condition in ((pod or {}).get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodResizePending":
            return condition["reason"], condition["observedGeneration"]
    return None


def running(pod: Any) -> bool:
    return bool(pod and pod["status"].get("phase") == "Running")


async def resize(whole: Whole, **amounts: str) -> dict[str, Any]:
    return await whole.client.patch(POD, "default", "p", requests(**amounts), "resize", STRATEGIC)


async def infeasible_pod(whole: Whole) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": pod_spec()}
    await whole.client.create(POD, body)
    await becomes(whole.client, POD, "default", "p", running)
    await resize(whole, memory="5000Gi")
    await becomes(whole.client, POD, "default", "p", lambda pod: verdict(pod) == ("Infeasible", 2))


async def test_an_infeasible_resize_does_not_open_the_quota_for_the_next_one(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"requests.cpu": "500m"}}}
        await whole.client.create(QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
        await becomes(whole.client, QUOTA, "default", "q", lambda obj: bool(obj and obj["status"].get("used")))
        await infeasible_pod(whole)
        with pytest.raises(ApiError) as refused:
            await resize(whole, cpu="1900m", memory="32Mi")
        assert refused.value.code == 403
        assert "exceeded quota: q, requested: requests.cpu=1800m, used: requests.cpu=100m" in str(refused.value)
        await resize(whole, cpu="500m", memory="32Mi")
        used = {"requests.cpu": "500m"}
        await becomes(whole.client, QUOTA, "default", "q", lambda obj: bool(obj and obj["status"]["used"] == used))


async def test_a_spec_that_changed_without_its_resources_keeps_its_verdict(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        await infeasible_pod(whole)
        await whole.client.patch(POD, "default", "p", {"spec": {"activeDeadlineSeconds": 3600}})
        await becomes(whole.client, POD, "default", "p", lambda pod: verdict(pod) == ("Infeasible", 3))
