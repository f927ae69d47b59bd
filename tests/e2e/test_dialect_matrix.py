"""The test plans of the designs of 2020 and 2021 on real cgroups, by clients that use only the API of those designs.

Requests are verified by the allocation in the design's form, limits by the cgroups of the containers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.client.rest import STRATEGIC
from podfit.client.transport import ClientRequest

from .noderuntimes import NodeRuntime
from .seedpods import Kernel, Lab, container, exactly, is_ready, needs_cgroups, patch_of, pod, sizes, statuses
from .test_seed_shapes import THREE
from .test_seed_single import BASE, BURSTABLE, GUARANTEED, PARTIAL

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("dialect-matrix"),
]
DESIGNS = pytest.mark.parametrize("design", ["2020", "2021"])
SPACES = {"2020": "d2020", "2021": "d2021", "v1.31": "d131", "v1.35": "native"}
RESTARTS = {"2020": ("NoRestart", "RestartContainer"), "2021": ("RestartNotRequired", "Restart")}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with Lab(tmp_path_factory.mktemp("dialects"), scheduler=False, **node_runtime.options) as running:
        for dialect, space in SPACES.items():
            await running.namespace(space, dialect)
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    for space in SPACES.values():
        await lab.clear(space)


# --- what the designs show ------------------------------------------------------------------------------------------


def allocated(seen: Object, name: str, design: str) -> Object:
    if design == "2020":
        return dict(
            next(listed for listed in seen["spec"]["containers"] if listed["name"] == name).get("resourcesAllocated")
            or {}
        )
    return dict(statuses(seen)[name].get("resourcesAllocated") or {})


def is_complete(seen: Object | None, design: str) -> bool:
    """Waits until all requests are allocated and the status shows the resources of the spec."""
    if seen is None or not is_ready(seen) or seen["status"].get("resize"):
        return False
    return all(
        allocated(seen, listed["name"], design) == listed["resources"].get("requests", {})
        and statuses(seen)[listed["name"]].get("resources") == listed["resources"]
        for listed in seen["spec"]["containers"]
    )


async def complete(lab: Lab, name: str, design: str) -> Object:
    return await lab.until(name, lambda entry: is_complete(entry, design), SPACES[design])


async def verify(lab: Lab, seen: Object, restarts: Mapping[str, int]) -> None:
    for listed in seen["spec"]["containers"]:
        wanted = Kernel.for_container(listed["resources"], {})
        found = lab.host(seen, listed["name"]), await lab.inside(seen, listed["name"])
        assert all(each.agrees(wanted) for each in found), (listed["name"], found, wanted)
        assert statuses(seen)[listed["name"]]["restartCount"] == restarts.get(listed["name"], 0)
    assert lab.host(seen).agrees(Kernel.for_pod(seen["spec"]))


async def resize(lab: Lab, name: str, changes: Mapping[str, Object], design: str) -> Object:
    """Resizes by a PATCH of the pod itself."""
    return await lab.client.patch(POD, SPACES[design], name, patch_of(changes), "", STRATEGIC)


async def there_and_back(
    lab: Lab, design: str, members: list[Object], changes: Mapping[str, Object], restarting: tuple[str, ...] = ()
) -> None:
    body = pod("p", *members, namespace=SPACES[design])
    await lab.run(body)
    await verify(lab, await complete(lab, "p", design), {})
    before = {member["name"]: member["resources"] for member in members}
    for times, now in enumerate((changes, {name: before[name] for name in changes}), 1):
        await resize(lab, "p", now, design)
        await verify(lab, await complete(lab, "p", design), dict.fromkeys(restarting, times))


# --- the plans: Guaranteed, Burstable, three containers -------------------------------------------------------------


@DESIGNS
@pytest.mark.parametrize("entry", GUARANTEED)
async def test_guaranteed_pod_with_one_container(lab: Lab, design: str, entry: str) -> None:
    members = [container("c1", exactly("100m/64Mi"))]
    await there_and_back(lab, design, members, {"c1": exactly(GUARANTEED[entry])})


@DESIGNS
@pytest.mark.parametrize("entry", BURSTABLE)
async def test_burstable_pod_with_cpu_and_memory(lab: Lab, design: str, entry: str) -> None:
    await there_and_back(lab, design, [container("c1", BASE)], {"c1": BURSTABLE[entry]})


@DESIGNS
@pytest.mark.parametrize("entry", PARTIAL)
async def test_burstable_pod_with_one_resource(lab: Lab, design: str, entry: str) -> None:
    before, after = PARTIAL[entry]
    await there_and_back(lab, design, [container("c1", before)], {"c1": after})


@DESIGNS
@pytest.mark.parametrize("entry", THREE)
async def test_guaranteed_pod_with_three_containers(lab: Lab, design: str, entry: str) -> None:
    members = [container(name, exactly("100m/64Mi")) for name in ("c1", "c2", "c3")]
    await there_and_back(lab, design, members, {name: exactly(text) for name, text in THREE[entry].items()})


# --- the plans: resize policies -------------------------------------------------------------------------------------


def policy(design: str, *restarting: str) -> dict[str, Any]:
    keep, restart = RESTARTS[design]
    words = {name: restart if name in restarting else keep for name in ("cpu", "memory")}
    return {"resizePolicy": [{"resourceName": name, "policy": word} for name, word in words.items()]}


@DESIGNS
async def test_without_a_policy_nothing_restarts(lab: Lab, design: str) -> None:
    members = [container(name, exactly("100m/64Mi")) for name in ("c1", "c2")]
    await there_and_back(lab, design, members, {"c1": exactly("200m/96Mi"), "c2": exactly("50m/48Mi")})


@DESIGNS
async def test_only_the_container_whose_policy_says_so_restarts(lab: Lab, design: str) -> None:
    members = [
        container("c1", exactly("100m/64Mi"), **policy(design)),
        container("c2", exactly("100m/64Mi"), **policy(design, "cpu", "memory")),
    ]
    changes = {"c1": exactly("200m/96Mi"), "c2": exactly("200m/96Mi")}
    await there_and_back(lab, design, members, changes, restarting=("c2",))


@DESIGNS
@pytest.mark.parametrize(
    ("after", "restarting"),
    [("200m/64Mi", ()), ("100m/96Mi", ("c1",)), ("200m/96Mi", ("c1",))],
    ids=["cpu only", "memory only", "cpu and memory"],
)
async def test_a_policy_for_memory_restarts_when_memory_changes(
    lab: Lab, design: str, after: str, restarting: tuple[str, ...]
) -> None:
    members = [container("c1", exactly("100m/64Mi"), **policy(design, "memory"))]
    await there_and_back(lab, design, members, {"c1": exactly(after)}, restarting)


# --- all of them at once --------------------------------------------------------------------------------------------


class Watcher:
    """Everything that a client of one namespace receives, as the server sends it."""

    def __init__(self, lab: Lab, space: str) -> None:
        self.shown: list[Object] = []
        self._task = asyncio.create_task(self._follow(lab, space))

    async def _follow(self, lab: Lab, space: str) -> None:
        async with lab.client.transport.stream(ClientRequest("GET", POD.path(space), {"watch": "true"})) as stream:
            rest = b""
            async for chunk in stream.chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                self.shown += [json.loads(line)["object"] for line in lines]

    async def stop(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


def words(seen: Object) -> set[str]:
    """The dialect-specific field names with which a pod is represented."""
    found = set()
    for listed in seen["spec"]["containers"]:
        found |= {"spec.resourcesAllocated"} & {f"spec.{key}" for key in listed}
        found |= {f"policy:{key}" for row in listed.get("resizePolicy") or () for key in row if key != "resourceName"}
    status = seen.get("status") or {}
    for container_status in status.get("containerStatuses") or ():
        found |= {f"status.{key}" for key in ("resourcesAllocated", "allocatedResources") if key in container_status}
    if "resize" in status:
        found.add(f"resize:{type(status['resize']).__name__}")
    found |= {
        condition["type"] for condition in status.get("conditions") or () if condition["type"].startswith("PodResize")
    }
    return found


OWN = {
    "2020": {"spec.resourcesAllocated", "policy:policy"},
    "2021": {"status.resourcesAllocated", "policy:policy", "resize:dict"},
    "v1.31": {"status.allocatedResources", "policy:restartPolicy", "resize:str"},
    "v1.35": {"status.allocatedResources", "PodResizeInProgress", "PodResizePending"},
}


async def test_four_clients_resize_four_pods_of_one_node_each_in_its_own_dialect(lab: Lab) -> None:
    watchers = {dialect: Watcher(lab, space) for dialect, space in SPACES.items()}
    bodies = [pod("p", container("c1", sizes("100m/32Mi", "200m/64Mi")), namespace=space) for space in SPACES.values()]
    await lab.run(*bodies)
    after = {"c1": sizes("150m/48Mi", "300m/96Mi")}
    doors = {"2020": "", "2021": "", "v1.31": "", "v1.35": "resize"}
    await asyncio.gather(
        *(
            lab.client.patch(POD, SPACES[dialect], "p", patch_of(after), door, STRATEGIC)
            for dialect, door in doors.items()
        )
    )

    def has_it(seen: Object | None) -> bool:
        return seen is not None and statuses(seen)["c1"].get("resources") == after["c1"]

    seen = await asyncio.gather(*(lab.until("p", has_it, space) for space in SPACES.values()))
    for item in seen:
        await verify(lab, item, {})
    for dialect, watcher in watchers.items():
        await watcher.stop()
        reported = set().union(*(words(item) for item in watcher.shown))
        assert reported <= OWN[dialect], dialect
        assert reported >= OWN[dialect] - {"PodResizeInProgress", "PodResizePending"}, dialect
