"""Pods of many forms: several containers, sidecars, init containers, pod-level resources, resources added later."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD

from .noderuntimes import NodeRuntime
from .seedpods import (
    RESIZE,
    Kernel,
    Lab,
    assert_same_unless_restarted,
    conditions,
    container,
    exactly,
    is_ready,
    needs_cgroups,
    patch_of,
    pod,
    policy,
    sidecar,
    sizes,
    statuses,
)

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("seed-shapes"),
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with Lab(tmp_path_factory.mktemp("shapes"), scheduler=False, **node_runtime.options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


# --- several containers ---------------------------------------------------------------------------------------------

THREE = {
    "all up": {"c1": "200m/96Mi", "c2": "200m/96Mi", "c3": "200m/96Mi"},
    "all down": {"c1": "50m/32Mi", "c2": "50m/32Mi", "c3": "50m/32Mi"},
    "cpu up, mem down": {"c1": "200m/32Mi", "c2": "200m/32Mi", "c3": "200m/32Mi"},
    "cpu down, mem up": {"c1": "50m/96Mi", "c2": "50m/96Mi", "c3": "50m/96Mi"},
    "no net cpu change": {"c1": "150m/64Mi", "c2": "50m/64Mi"},
    "no net mem change": {"c1": "100m/96Mi", "c2": "100m/32Mi"},
    "net cpu decrease": {"c1": "150m/64Mi", "c2": "50m/64Mi", "c3": "30m/64Mi"},
    "net mem decrease": {"c1": "100m/96Mi", "c2": "100m/32Mi", "c3": "100m/24Mi"},
    "net cpu increase": {"c1": "150m/64Mi", "c2": "50m/64Mi", "c3": "200m/64Mi"},
    "net mem increase": {"c1": "100m/96Mi", "c2": "100m/32Mi", "c3": "100m/128Mi"},
    "net increase": {"c1": "300m/128Mi", "c2": "50m/48Mi", "c3": "150m/64Mi"},
    "net decrease": {"c1": "50m/32Mi", "c2": "120m/48Mi", "c3": "60m/72Mi"},
    "mixed": {"c1": "300m/32Mi", "c2": "30m/128Mi", "c3": "110m/64Mi"},
}


@pytest.mark.parametrize("entry", THREE)
async def test_guaranteed_pod_with_three_containers(lab: Lab, entry: str) -> None:
    members = [container(name, exactly("100m/64Mi")) for name in ("c1", "c2", "c3")]
    await lab.there_and_back(pod("three", *members), {name: exactly(text) for name, text in THREE[entry].items()})


async def test_only_the_container_whose_policy_says_so_restarts(lab: Lab) -> None:
    calm = container("c1", exactly("100m/64Mi"), resizePolicy=policy())
    fussy = container("c2", exactly("100m/64Mi"), resizePolicy=policy("cpu", "memory"))
    await lab.there_and_back(pod("two", calm, fussy), {"c1": exactly("150m/96Mi"), "c2": exactly("50m/96Mi")})


# --- init containers and sidecars -----------------------------------------------------------------------------------

SMALL, LARGE = exactly("100m/64Mi"), exactly("200m/96Mi")


@pytest.mark.parametrize("after", [LARGE, exactly("50m/48Mi"), exactly("200m/48Mi")], ids=["up", "down", "opposite"])
@pytest.mark.parametrize("order", ["init, then sidecar", "sidecar, then init"])
async def test_a_sidecar_is_resized_at_any_position(lab: Lab, order: str, after: Object) -> None:
    ran, beside = container("setup", exactly("50m/32Mi"), "true"), sidecar("side", SMALL)
    init = (ran, beside) if order.startswith("init") else (beside, ran)
    await lab.there_and_back(pod("sidecar", container("c1", SMALL), init=init), {}, {"side": after})


async def test_a_sidecar_is_resized_along_with_its_container(lab: Lab) -> None:
    body = pod("along", container("c1", SMALL), init=(sidecar("side", SMALL),))
    await lab.there_and_back(body, {"c1": LARGE}, {"side": exactly("50m/48Mi")})


async def test_a_running_init_container_is_resized_and_back(lab: Lab) -> None:
    body = pod("init", container("c1", exactly("50m/32Mi")), init=(container("setup", SMALL),))

    def runs(seen: Object | None) -> bool:
        return seen is not None and "running" in statuses(seen).get("setup", {}).get("state", {})

    def done(seen: Object | None) -> bool:
        assert seen is not None
        observed = seen["status"].get("observedGeneration", 0) >= seen["metadata"]["generation"]
        return observed and not conditions(seen, *RESIZE) and statuses(seen)["setup"]["resources"] == wanted

    await lab.create(body)
    first = await lab.until("init", runs)
    for wanted in (LARGE, SMALL):
        await lab.patch("init", patch_of({}, {"setup": wanted}))
        seen = await lab.until("init", done)
        shown = statuses(seen)["setup"]
        assert shown["allocatedResources"] == wanted["requests"]
        assert (shown["restartCount"], shown["containerID"]) == (0, statuses(first)["setup"]["containerID"])
        assert lab.host(seen, "setup") == await lab.inside(seen, "setup") == Kernel.for_container(wanted, {})
        assert lab.host(seen) == Kernel.for_pod(seen["spec"])


# --- sizes that were not there before -------------------------------------------------------------------------------


async def test_requests_and_limits_are_added_where_there_were_none(lab: Lab) -> None:
    before = {
        "c1": sizes("100m/32Mi"),
        "c2": sizes("100m"),
        "c3": {},
        "c4": sizes("100m", "200m"),
        "c5": sizes("/32Mi", "/64Mi"),
        "c6": {},
    }
    after = {
        "c1": sizes("100m/32Mi", "200m/64Mi"),
        "c2": sizes("100m/32Mi", "200m/64Mi"),
        "c3": sizes("100m/32Mi", "200m/64Mi"),
        "c4": sizes("100m/32Mi", "200m/64Mi"),
        "c5": sizes("50m/32Mi", "100m/64Mi"),
        "c6": sizes("50m/32Mi"),
    }
    seen = await lab.run(pod("late", *(container(name, item) for name, item in before.items())))
    await lab.verify(seen)
    await lab.patch("late", patch_of(after))
    resized = await lab.settled("late")
    await lab.verify(resized)
    assert_same_unless_restarted(seen, resized)
    assert resized["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (sizes("2m", "10m"), sizes("1m", "5m")),
        (sizes("2m/32Mi", "10m/64Mi"), sizes("1m/32Mi", "5m/64Mi")),
        (sizes("100m", "200m"), sizes("1m", "1m")),
    ],
    ids=["cpu", "with memory", "from above"],
)
async def test_sizes_that_the_kernel_cannot_distinguish_are_reported_as_requested(
    lab: Lab, before: Object, after: Object
) -> None:
    """The kernel's minimum is 2 shares and a quota of 1000 µs."""
    beside = container("c2", sizes("1m", "5m"))
    await lab.there_and_back(pod("equivalents", container("c1", before), beside), {"c1": after})


async def test_put_replaces_the_size_and_reads_the_same_as_the_pod(lab: Lab) -> None:
    seen = await lab.run(pod("put", container("c1", SMALL)))
    assert seen["metadata"]["generation"] == 1
    seen["spec"]["containers"][0]["resources"] = LARGE
    answer = await lab.client.update(POD, seen, "resize")
    assert answer["metadata"]["generation"] == 2
    resized = await lab.settled("put")
    await lab.verify(resized)
    assert await lab.client.get(POD, "default", "put", "resize") == resized


# --- pod-level resources --------------------------------------------------------------------------------------------


async def pod_level(lab: Lab, body: Object, *steps: tuple[Object | None, dict[str, Object]], restarts: int = 0) -> None:
    """Applies (pod-level, containers) in turn and checks each time; c1 restarts `restarts` times per step."""
    name = body["metadata"]["name"]
    seen = await lab.run(body)
    await lab.verify(seen)
    for number, (whole, changes) in enumerate(steps, 1):
        await lab.patch(name, patch_of(changes, whole=whole))
        before, seen = seen, await lab.settled(name)
        await lab.verify(seen, {"c1": number * restarts})
        assert_same_unless_restarted(before, seen)
        wanted = seen["spec"]["resources"]
        assert seen["status"]["allocatedResources"] == wanted["requests"]
        assert seen["status"]["resources"] == wanted


POD_LEVEL = {
    "cpu": "600m/256Mi",
    "mem": "400m/384Mi",
    "same direction": "600m/384Mi",
    "opposite directions": "600m/192Mi",
    "down": "300m/192Mi",
}


@pytest.mark.parametrize("entry", POD_LEVEL)
async def test_a_guaranteed_pod_is_resized_as_a_whole(lab: Lab, entry: str) -> None:
    members = container("c1", SMALL), container("c2", SMALL)
    base = exactly("400m/256Mi")
    await pod_level(lab, pod("whole", *members, resources=base), (exactly(POD_LEVEL[entry]), {}), (base, {}))


@pytest.mark.parametrize("entry", POD_LEVEL)
async def test_containers_without_limits_share_the_pods(lab: Lab, entry: str) -> None:
    """Containers have the pod's limit in their own cgroups, so that the limit they read is the limit they have."""
    members = container("c1", {}), container("c2", sizes("50m/32Mi"))
    base = sizes("200m/128Mi", "400m/256Mi")
    after = sizes("200m/128Mi", POD_LEVEL[entry])
    await pod_level(lab, pod("shared", *members, resources=base), (after, {}), (base, {}))


async def test_pod_and_containers_are_resized_together(lab: Lab) -> None:
    members = container("c1", sizes("100m/64Mi", "200m/96Mi")), container("c2", sizes("100m/64Mi"))
    base, grown = sizes("300m/160Mi", "500m/256Mi"), sizes("600m/256Mi", "800m/384Mi")
    up = {"c1": sizes("300m/128Mi", "400m/192Mi"), "c2": sizes("150m/64Mi")}
    down = {"c1": sizes("100m/64Mi", "200m/96Mi"), "c2": sizes("100m/64Mi")}
    await pod_level(lab, pod("together", *members, resources=base), (grown, up), (base, down))


async def test_limits_of_containers_move_within_the_pods(lab: Lab) -> None:
    members = container("c1", sizes("100m/64Mi", "200m/96Mi")), container("c2", sizes("100m/64Mi"))
    changes = {"c1": sizes("150m/64Mi", "500m/256Mi")}, {"c1": sizes("50m/48Mi", "100m/64Mi")}
    body = pod("within", *members, resources=sizes("300m/160Mi", "500m/256Mi"))
    await pod_level(lab, body, *((None, change) for change in changes))


async def test_pod_level_resources_are_added_to_a_pod_that_had_none(lab: Lab) -> None:
    members = container("c1", sizes("100m/64Mi", "200m/96Mi")), container("c2", sizes("100m/64Mi"))
    await pod_level(lab, pod("added", *members), (sizes("300m/160Mi", "500m/256Mi"), {}))


async def test_a_container_that_shares_the_pods_limit_restarts_with_it(lab: Lab) -> None:
    fussy = container("c1", {}, resizePolicy=policy("memory"))
    base, grown = sizes("200m/128Mi", "400m/256Mi"), sizes("200m/128Mi", "400m/384Mi")
    await pod_level(lab, pod("fussy", fussy, resources=base), (grown, {}), (base, {}), restarts=1)


async def test_a_new_pod_has_no_resize_to_complete(lab: Lab) -> None:
    """Without a requested resize there are neither resize conditions nor Events."""
    from podfit.api.registry.kinds import EVENT

    body = pod("quiet", container("c1", {}), resources=sizes("200m/128Mi", "400m/256Mi"))
    seen = await lab.run(body)
    await lab.agent.idle()
    listed = await lab.client.list(EVENT, "default", fieldSelector=f"involvedObject.uid={seen['metadata']['uid']}")
    reasons = [item["reason"] for item in listed["items"]]
    assert "Started" in reasons and not any(reason.startswith("Resize") for reason in reasons)
    assert is_ready(seen) and not conditions(seen, *RESIZE)
