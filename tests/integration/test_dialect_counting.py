"""Quotas and the scheduler count a pod that is being resized by the rule of its namespace's dialect.

Also covers how components of podfit learn the server's default dialect, and how the server announces it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.expect import becomes
from tests.support.cluster.nodes import Native
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, POD, kind_named
from podfit.api.resize.dialects import HEADER, LABEL
from podfit.apiserver.request import ADMIN, Request
from podfit.client import Client
from podfit.client.resizing import default_dialect
from podfit.kit.clock import RealClock

QUOTA = kind_named("ResourceQuota")
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
ROOM = {"cpu": "3", "memory": "4Gi"}


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path, node_capacity=ROOM) as made:
        yield made


def is_running(pod: Object | None) -> bool:
    listed = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    return bool(listed) and all("running" in item.get("state", {}) for item in listed)


def is_infeasible(pod: Object | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or []
    return any(condition.get("reason") == "Infeasible" for condition in conditions)


def uses(cpu: str) -> Any:
    return lambda quota: ((quota or {}).get("status") or {}).get("used", {}).get("requests.cpu") == cpu


async def add_quota(whole: Whole, namespace: str, cpu: str) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": cpu}}}
    code, answer = await Asker(whole.up.server)("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)
    assert code == 201, answer
    await becomes(whole.client, QUOTA, namespace, "q", uses("0"))


async def add_pod(whole: Whole, namespace: str, name: str, cpu: str, node: str = "n1") -> tuple[int, Object]:
    body = {"metadata": {"name": name}, "spec": pod_spec(cpu, "32Mi", node)}
    return await Asker(whole.up.server)("POST", f"/api/v1/namespaces/{namespace}/pods", body)


async def resize(whole: Whole, namespace: str, cpu: str, where: str = "") -> None:
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    path = f"/api/v1/namespaces/{namespace}/pods/p{where}"
    code, answer = await Asker(whole.up.server)("PATCH", path, patch, STRATEGIC)
    assert code == 200, answer


# --- quota ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "where", "used"),
    [("2020", "", "50"), ("2021", "", "50"), ("v1.31", "", "1"), ("v1.32", "/resize", "1"), ("", "/resize", "1")],
)
async def test_an_infeasible_resize_counts_in_quota_as_the_dialect_says(
    whole: Whole, dialect: str, where: str, used: str
) -> None:
    namespace = await whole.namespace("n", dialect)
    await add_quota(whole, namespace, "60")
    await add_pod(whole, namespace, "p", "1")
    await becomes(whole.client, POD, namespace, "p", is_running)
    await resize(whole, namespace, "50", where)
    await becomes(Client(Native(whole.client.transport)), POD, namespace, "p", is_infeasible)
    await becomes(whole.client, QUOTA, namespace, "q", uses(used))
    code, answer = await add_pod(whole, namespace, "other", "12", node="")
    assert code == (403 if used == "50" else 201), answer


async def test_a_namespace_that_changes_its_dialect_is_counted_by_its_new_rule(whole: Whole) -> None:
    namespace = await whole.namespace("n")
    await add_quota(whole, namespace, "60")
    await add_pod(whole, namespace, "p", "1")
    await becomes(whole.client, POD, namespace, "p", is_running)
    await resize(whole, namespace, "50", "/resize")
    await becomes(Client(Native(whole.client.transport)), POD, namespace, "p", is_infeasible)
    await becomes(whole.client, QUOTA, namespace, "q", uses("1"))
    await whole.client.patch(NAMESPACE, "", namespace, {"metadata": {"labels": {LABEL: "2020"}}})
    await becomes(whole.client, QUOTA, namespace, "q", uses("50"))


# --- the server's default -------------------------------------------------------------------------------------------


async def test_parts_learn_the_default_dialect_from_the_server(tmp_path: Path) -> None:
    async with Whole(tmp_path, resize_dialect="2020") as whole:
        assert await default_dialect(whole.client, RealClock()) == "2020"


async def test_a_native_server_says_nothing_of_dialects_in_its_version(whole: Whole) -> None:
    _, version = await Asker(whole.up.server)("GET", "/version")
    assert "resizeDialect" not in version
    assert await default_dialect(whole.client, RealClock()) == "v1.35"


async def deferred_beside_a_pod_without_node(whole: Whole) -> None:
    """A resize to 2500m waits for the capacity that another pod holds; a third pod of 1 CPU is to be scheduled."""
    await add_pod(whole, "default", "p", "500m")
    await add_pod(whole, "default", "neighbour", "1")
    for name in ("p", "neighbour"):
        await becomes(whole.client, POD, "default", name, is_running)
    await resize(whole, "default", "2500m")
    await add_pod(whole, "default", "new", "1", node="")


def is_bound(pod: Object | None) -> bool:
    return bool(((pod or {}).get("spec") or {}).get("nodeName"))


def is_unschedulable(pod: Object | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or []
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


async def test_the_scheduler_counts_by_the_servers_default_of_2020(tmp_path: Path) -> None:
    async with Whole(tmp_path, node_capacity=ROOM, resize_dialect="2020") as whole:
        await deferred_beside_a_pod_without_node(whole)
        await becomes(whole.client, POD, "default", "new", is_bound)


async def test_the_scheduler_counts_by_the_servers_default_of_2021(tmp_path: Path) -> None:
    async with Whole(tmp_path, node_capacity=ROOM, resize_dialect="2021") as whole:
        await deferred_beside_a_pod_without_node(whole)
        await becomes(whole.client, POD, "default", "new", is_unschedulable)


async def test_the_scheduler_counts_by_a_label_that_came_later(tmp_path: Path) -> None:
    async with Whole(tmp_path, node_capacity=ROOM, resize_dialect="2021") as whole:
        await deferred_beside_a_pod_without_node(whole)
        await becomes(whole.client, POD, "default", "new", is_unschedulable)
        await whole.client.patch(NAMESPACE, "", "default", {"metadata": {"labels": {LABEL: "2020"}}})
        await becomes(whole.client, POD, "default", "new", is_bound)


# --- discovery ------------------------------------------------------------------------------------------------------

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def announced(whole: Whole) -> set[str]:
    """The documents in which the server lists pods/resize."""
    ask = Asker(whole.up.server)
    _, plain = await ask("GET", "/api/v1")
    _, aggregated = await ask("GET", "/api", accept=AGGREGATED)
    _, swagger = await ask("GET", "/openapi/v2")
    _, openapi = await ask("GET", "/openapi/v3/api/v1")
    pods = next(
        resource for resource in aggregated["items"][0]["versions"][0]["resources"] if resource["resource"] == "pods"
    )
    path = "/api/v1/namespaces/{namespace}/pods/{name}/resize"
    found = {
        "plain": "pods/resize" in {resource["name"] for resource in plain["resources"]},
        "aggregated": "resize" in {subresource["subresource"] for subresource in pods["subresources"]},
        "swagger": path in swagger["paths"],
        "openapi": path in openapi["paths"],
    }
    return {name for name, listed in found.items() if listed}


@pytest.mark.parametrize("default", ["2020", "2021", "v1.31", "v1.32", "v1.35"])
async def test_discovery_lists_the_subresource_resize_where_the_default_dialect_has_it(
    tmp_path: Path, default: str
) -> None:
    async with Whole(tmp_path, resize_dialect=default, controllers=False) as whole:
        everywhere = {"plain", "aggregated", "swagger", "openapi"}
        assert await announced(whole) == (set() if default in ("2020", "v1.31") else everywhere)


async def test_a_client_of_the_native_form_discovers_resize_whatever_the_default(tmp_path: Path) -> None:
    async with Whole(tmp_path, resize_dialect="v1.31", controllers=False) as whole:
        answer = await whole.up.server.handle(Request("GET", "/api/v1", {}, {HEADER.lower(): "v1.35"}, b"", ADMIN))
        assert b'"pods/resize"' in answer.body


@pytest.mark.parametrize("dialect", ["2020", "v1.31"])
async def test_resize_is_not_found_in_a_namespace_whose_dialect_has_none(whole: Whole, dialect: str) -> None:
    await whole.namespace("old", dialect)
    await add_pod(whole, "old", "p", "1")
    code, answer = await Asker(whole.up.server)("PATCH", "/api/v1/namespaces/old/pods/p/resize", {}, MERGE)
    said = "the server could not find the requested resource"
    assert (code, answer["reason"], answer["message"]) == (404, "NotFound", said)
    assert await announced(whole)


# --- the role of nodes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("default", "allowed"), [("2020", True), ("2021", False), ("v1.35", False)])
async def test_the_role_of_nodes_allows_updates_of_pods_where_they_allocate_in_the_spec(
    tmp_path: Path, default: str, allowed: bool
) -> None:
    async with Whole(tmp_path, resize_dialect=default, controllers=False) as whole:
        role = await whole.client.get(kind_named("ClusterRole"), "", "system:node")
        verbs = {verb for rule in role["rules"] if "pods" in rule.get("resources", ()) for verb in rule["verbs"]}
        assert ({"patch", "update"} <= verbs) is allowed
