"""Invalid resizes of running pods are rejected: invalid patches, quota and limit ranges."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import User
from podfit.client.rest import MERGE, STRATEGIC
from podfit.compose import node_user
from tests.support.cluster.expect import all_become, becomes

from .noderuntimes import NodeRuntime
from .seedpods import Lab, container, exactly, is_ready, needs_cgroups, patch_of, pod, policy, sizes, statuses

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("seed-refusals"),
]
JOB, DEPLOYMENT = kind_named("Job"), kind_named("Deployment")
QUOTA, RANGE = kind_named("ResourceQuota"), kind_named("LimitRange")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with Lab(tmp_path_factory.mktemp("refusals"), scheduler=False, **node_runtime.options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def space(lab: Lab) -> AsyncIterator[str]:
    """A namespace of the test's own."""
    name = await lab.namespace(f"seed-{secrets.token_hex(3)}")
    yield name
    await lab.clear(name)


# --- invalid patches ------------------------------------------------------------------------------------------------

QOS = "Pod QOS Class may not change as a result of resizing"
ORDER = "containers may not be renamed or reordered on resize"
BURST = sizes("100m/32Mi", "200m/64Mi")


def one(resources: Object) -> Object:
    return {"spec": {"containers": [{"name": "c1", "resources": resources}]}}


INVALID = {
    "BestEffort: add memory": ({}, one(exactly("/64Mi")), QOS),
    "BestEffort: add cpu": ({}, one(exactly("100m")), QOS),
    "remove cpu limit": (BURST, one({"limits": {"cpu": None}}), "resource limits cannot be removed"),
    "remove memory limit": (BURST, one({"limits": {"memory": None}}), "resource limits cannot be removed"),
    "remove cpu request": (sizes("100m/32Mi"), one({"requests": {"cpu": None}}), "resource requests cannot be removed"),
    "remove memory request": (
        sizes("100m/32Mi"),
        one({"requests": {"memory": None}}),
        "resource requests cannot be removed",
    ),
    "requests equal to limits": (BURST, one(exactly("200m/64Mi")), QOS),
    "ephemeral storage": (
        BURST,
        one({"requests": {"ephemeral-storage": "1Gi"}}),
        "only cpu and memory resources are mutable",
    ),
    "an extended resource": (
        BURST,
        one({"requests": {"dummy.com/dummy": "1"}, "limits": {"dummy.com/dummy": "1"}}),
        "only cpu and memory resources are mutable",
    ),
    "request above the limit": (BURST, one({"requests": {"cpu": "300m"}}), "must be less than or equal to cpu limit"),
    "another policy": (
        BURST,
        {"spec": {"containers": [{"name": "c1", "resizePolicy": policy("cpu")}]}},
        "only cpu and memory resources are mutable",
    ),
}


@pytest.mark.parametrize("entry", INVALID)
async def test_an_invalid_patch_changes_nothing_and_reports_the_reason(lab: Lab, space: str, entry: str) -> None:
    before, patch, message = INVALID[entry]
    seen = await lab.run(pod("p", container("c1", before), namespace=space))
    with pytest.raises(ApiError) as refused:
        await lab.patch("p", patch, space)
    assert refused.value.code == 422 and message in str(refused.value)
    now = await lab.get("p", space)
    assert (now["spec"], now["metadata"]["generation"]) == (seen["spec"], 1)


@pytest.mark.parametrize("entry", ["reordered", "renamed"])
async def test_containers_keep_their_names_and_their_order(lab: Lab, space: str, entry: str) -> None:
    seen = await lab.run(pod("p", container("c1", BURST), container("c2", BURST), namespace=space))
    members = [dict(member) for member in seen["spec"]["containers"]]
    if entry == "reordered":
        members.reverse()
    else:
        members[0]["name"], members[1]["name"] = "c1-new", "c2-new"
    with pytest.raises(ApiError) as refused:
        await lab.client.patch(POD, space, "p", {"spec": {"containers": members}}, "resize", MERGE)
    both = ", ".join(f"spec.containers[{number}].name: Forbidden: {ORDER}" for number in (0, 1))
    assert refused.value.code == 422 and both in str(refused.value)


async def test_only_what_resizes_may_resize(lab: Lab, space: str) -> None:
    """Neither the node, nor the pod's main endpoint, nor a user without permission can resize."""
    await lab.run(pod("p", container("c1", BURST), namespace=space))
    patch = one({"limits": {"cpu": "300m"}})
    for user in (node_user("n1"), User("jane", ("system:authenticated",))):
        with pytest.raises(ApiError) as refused:
            await local_client(lab.up.server, user, "other").patch(POD, space, "p", patch, "resize")
        assert refused.value.code == 403
    with pytest.raises(ApiError) as wrong_way:
        await lab.client.patch(POD, space, "p", {"spec": {"containers": [{**container("c1", exactly("1"))}]}})
    assert "pod updates may not change fields other than" in str(wrong_way.value)


async def test_an_update_without_sizes_drops_none(lab: Lab, space: str) -> None:
    """An old client writes back a pod without the fields it does not know."""
    body = pod("p", container("c1", BURST, resizePolicy=policy("cpu")), namespace=space)
    seen = await lab.run(body)
    old = {**seen, "metadata": {**seen["metadata"], "labels": {"a": "b"}}, "status": {"phase": "Running"}}
    await lab.client.update(POD, old)
    now = await lab.get("p", space)
    assert now["metadata"]["labels"] == {"a": "b"}
    assert statuses(now)["c1"]["allocatedResources"] == BURST["requests"]
    assert now["spec"]["containers"][0]["resizePolicy"] == policy("cpu")


async def test_templates_keep_their_behaviour(lab: Lab, space: str) -> None:
    """A Deployment rolls out; the template of a Job cannot change."""
    members = pod("t", container("c1", BURST))["spec"]
    meta = {"name": "w", "namespace": space}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": members}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
    await lab.client.create(JOB, job)
    bigger = {"spec": {"template": one({"limits": {"cpu": "300m"}})}}
    with pytest.raises(ApiError) as refused:
        await lab.client.patch(JOB, space, "w", bigger, content_type=STRATEGIC)
    assert refused.value.code == 422 and "field is immutable" in str(refused.value)
    await lab.client.delete(JOB, space, "w", propagationPolicy="Background")
    template = {**template, "spec": {**members, "restartPolicy": "Always"}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    await lab.client.create(DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    first = await all_become(lab.client, POD, space, lambda pods: [is_ready(each) for each in pods] == [True])
    await lab.client.patch(DEPLOYMENT, space, "w", bigger, content_type=STRATEGIC)

    def rolled(pods: list[Object]) -> bool:
        limits = [each["spec"]["containers"][0]["resources"]["limits"]["cpu"] for each in pods if is_ready(each)]
        return len(pods) == 1 and limits == ["300m"]

    second = await all_become(lab.client, POD, space, rolled)
    assert first[0]["metadata"]["uid"] != second[0]["metadata"]["uid"]
    await lab.client.delete(DEPLOYMENT, space, "w", propagationPolicy="Background")
    await all_become(lab.client, POD, space, lambda pods: not pods)


# --- quota ----------------------------------------------------------------------------------------------------------

WITHIN = {"cpu": "400m/300Mi", "memory": "300m/400Mi", "cpu and memory": "400m/400Mi"}
BEYOND = {
    "cpu": ("600m/300Mi", "requested: cpu=300m, used: cpu=600m, limited: cpu=800m"),
    "memory": ("300m/750Mi", "requested: memory=450Mi, used: memory=600Mi, limited: memory=800Mi"),
    "cpu and memory": (
        "600m/750Mi",
        "requested: cpu=300m,memory=450Mi, used: cpu=600m,memory=600Mi, limited: cpu=800m,memory=800Mi",
    ),
}


async def counted(lab: Lab, space: str, used: dict[str, str]) -> None:
    await becomes(lab.client, QUOTA, space, "q", lambda seen: bool(seen and seen["status"].get("used") == used))


@pytest_asyncio.fixture(loop_scope="module")
async def quota(lab: Lab, space: str) -> str:
    """A quota of 800m and 800Mi, three quarters of it used by two pods."""
    spec = {"hard": {"cpu": "800m", "memory": "800Mi"}}
    meta = {"name": "q", "namespace": space}
    await lab.client.create(QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec})
    await becomes(lab.client, QUOTA, space, "q", lambda seen: bool(seen and (seen.get("status") or {}).get("hard")))
    await lab.run(*(pod(name, container("c1", exactly("300m/300Mi")), namespace=space) for name in ("p1", "p2")))
    await counted(lab, space, {"cpu": "600m", "memory": "600Mi"})
    return space


@pytest.mark.parametrize("entry", WITHIN)
async def test_a_resize_within_quota_is_counted_and_given_back(lab: Lab, quota: str, entry: str) -> None:
    cpu, _, memory = WITHIN[entry].partition("/")
    await lab.patch("p1", patch_of({"c1": exactly(WITHIN[entry])}), quota)
    await lab.verify(await lab.settled("p1", quota))
    more = {"cpu": "700m" if cpu == "400m" else "600m", "memory": "700Mi" if memory == "400Mi" else "600Mi"}
    await counted(lab, quota, more)
    await lab.patch("p1", patch_of({"c1": exactly("200m/200Mi")}), quota)
    await lab.verify(await lab.settled("p1", quota))
    await counted(lab, quota, {"cpu": "500m", "memory": "500Mi"})


@pytest.mark.parametrize("entry", BEYOND)
async def test_a_resize_beyond_quota_is_refused(lab: Lab, quota: str, entry: str) -> None:
    wanted, message = BEYOND[entry]
    with pytest.raises(ApiError) as refused:
        await lab.patch("p1", patch_of({"c1": exactly(wanted)}), quota)
    assert refused.value.code == 403
    assert str(refused.value) == f'pods "p1" is forbidden: exceeded quota: q, {message}'
    await lab.verify(await lab.settled("p1", quota))


# --- limit ranges ---------------------------------------------------------------------------------------------------

RANGE_WITHIN = {
    "cpu up": "400m/300Mi",
    "cpu down": "100m/300Mi",
    "memory up": "300m/400Mi",
    "memory down": "300m/100Mi",
    "both up": "500m/500Mi",
    "both down": "50m/50Mi",
}
CPU_MOST, MEMORY_MOST = (
    "maximum cpu usage per Container is 500m, but limit is 600m",
    ("maximum memory usage per Container is 500Mi, but limit is 600Mi"),
)
CPU_LEAST, MEMORY_LEAST = (
    "minimum cpu usage per Container is 50m, but request is 10m",
    ("minimum memory usage per Container is 50Mi, but request is 10Mi"),
)
RANGE_BEYOND = {
    "cpu above": ("600m/300Mi", (CPU_MOST,)),
    "cpu below": ("10m/300Mi", (CPU_LEAST,)),
    "memory above": ("300m/600Mi", (MEMORY_MOST,)),
    "memory below": ("300m/10Mi", (MEMORY_LEAST,)),
    "both above": ("600m/600Mi", (CPU_MOST, MEMORY_MOST)),
    "both below": ("10m/10Mi", (CPU_LEAST, MEMORY_LEAST)),
}


@pytest_asyncio.fixture(loop_scope="module")
async def limited(lab: Lab, space: str) -> str:
    """A LimitRange of 50m to 500m and 50Mi to 500Mi per container, and a pod in the middle."""
    limits = [{"type": "Container", "min": {"cpu": "50m", "memory": "50Mi"}, "max": {"cpu": "500m", "memory": "500Mi"}}]
    meta = {"name": "r", "namespace": space}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": limits}}
    await lab.client.create(RANGE, body)
    await lab.run(pod("p", container("c1", exactly("300m/300Mi")), namespace=space))
    return space


@pytest.mark.parametrize("entry", RANGE_WITHIN)
async def test_a_resize_within_the_limit_range_is_done(lab: Lab, limited: str, entry: str) -> None:
    await lab.patch("p", patch_of({"c1": exactly(RANGE_WITHIN[entry])}), limited)
    await lab.verify(await lab.settled("p", limited))


@pytest.mark.parametrize("entry", RANGE_BEYOND)
async def test_a_resize_out_of_the_limit_range_is_refused(lab: Lab, limited: str, entry: str) -> None:
    wanted, messages = RANGE_BEYOND[entry]
    with pytest.raises(ApiError) as refused:
        await lab.patch("p", patch_of({"c1": exactly(wanted)}), limited)
    assert refused.value.code == 403 and 'pods "p" is forbidden: ' in str(refused.value)
    assert all(message in str(refused.value) for message in messages)
    await lab.verify(await lab.settled("p", limited))
