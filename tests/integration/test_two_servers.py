"""Two clusters in one process: no component of one learns anything from the other.

Two API servers share no definitions of custom resources; two whole clusters (API server, scheduler, controllers, agent,
autoscaler) that alternately do the same with different values reach different results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, expect_code, serving
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.client.rest import STRATEGIC

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def definition(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[tuple[Asker, Asker]]:
    """The first server defines the custom kind with a size, the second with a color."""
    async with serving(tmp_path / "first") as first, serving(tmp_path / "second") as second:
        askers = Asker(first), Asker(second)
        for ask, properties in zip(askers, ({"size": {"type": "integer"}}, {"color": {"type": "string"}}), strict=True):
            code, made = await ask("POST", DEFINITIONS, definition(**properties))
            assert code == 201, made
            await expect_code(ask, THINGS, 200)
        yield askers


async def test_each_prunes_by_its_own_definition(servers: tuple[Asker, Asker]) -> None:
    made = [(await ask("POST", THINGS, thing("x", size=3, color="red")))[1]["spec"] for ask in servers]
    assert made == [{"size": 3}, {"color": "red"}]


async def test_a_definition_deleted_on_one_still_holds_on_the_other(servers: tuple[Asker, Asker]) -> None:
    first, second = servers
    await second("DELETE", f"{DEFINITIONS}/things.example.com")
    await expect_code(second, THINGS, 404)
    code, answer = await first("POST", THINGS, thing("x", size="not a number"))
    assert (code, answer["reason"]) == (422, "Invalid")


DEPLOYMENT = kind_named("Deployment")
SIZES = ("150m", "250m")
RESIZED = ("300m", "400m")


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[tuple[Whole, Whole]]:
    """Two whole clusters, each with its own definition of the same custom kind."""
    folders = tmp_path / "first", tmp_path / "second"
    async with Whole(folders[0], vpa=True) as first, Whole(folders[1], vpa=True) as second:
        for whole, properties in ((first, {"size": {"type": "integer"}}), (second, {"color": {"type": "string"}})):
            ask = Asker(whole.up.server)
            code, made = await ask("POST", DEFINITIONS, definition(**properties))
            assert code == 201, made
            await expect_code(ask, THINGS, 200)
        yield first, second


def autoscaler() -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}},
    }


def reported(pods: list[Object]) -> set[str]:
    """The CPU requests in force, according to the pods' statuses."""
    statuses = [status for pod in pods for status in pod.get("status", {}).get("containerStatuses") or ()]
    return {status.get("resources", {}).get("requests", {}).get("cpu", "") for status in statuses}


def ready(deployment: Object | None) -> bool:
    return ((deployment or {}).get("status") or {}).get("readyReplicas") == 2


async def pod_names(whole: Whole) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await whole.client.list(POD, "default"))["items"]]


def selected(vpa: Object | None) -> bool:
    conditions = ((vpa or {}).get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "RecommendationProvided" for condition in conditions)


async def test_two_clusters_in_turn_never_see_each_other(clusters: tuple[Whole, Whole]) -> None:
    for whole, cpu in zip(clusters, SIZES, strict=True):
        pod = pod_spec(cpu, node="")
        await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2, pod=pod))
        await whole.client.create(VPA, autoscaler())
    for whole, cpu in zip(clusters, SIZES, strict=True):
        await becomes(whole.client, DEPLOYMENT, "default", "web", ready)
        await all_become(whole.client, POD, "default", lambda pods, cpu=cpu: reported(pods) == {cpu})
        await becomes(whole.client, VPA, "default", "web", selected)
    names = [await pod_names(whole) for whole in clusters]
    for pair in zip(*names, strict=True):
        for whole, name, cpu in zip(clusters, pair, RESIZED, strict=True):
            patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
            await whole.client.patch(POD, "default", name, patch, "resize", STRATEGIC)
    for whole, cpu in zip(clusters, RESIZED, strict=True):
        await all_become(whole.client, POD, "default", lambda pods, cpu=cpu: reported(pods) == {cpu})
    askers = [Asker(whole.up.server) for whole in clusters]
    made = [(await ask("POST", THINGS, thing("x", size=3, color="red")))[1]["spec"] for ask in askers]
    assert made == [{"size": 3}, {"color": "red"}]
    assert not set(names[0]) & set(names[1])
