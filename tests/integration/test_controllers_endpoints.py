"""Endpoints and EndpointSlices follow the pods of a Service, and Endpoints written by others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.registry.kinds import NODE, POD, kind_named

SERVICE, ENDPOINTS, SLICE = map(kind_named, ("Service", "Endpoints", "EndpointSlice"))
NAME = "kubernetes.io/service-name"


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


async def service(whole: Whole, name: str, **spec: Any) -> None:
    body = {"ports": [{"port": 80}], **spec}
    meta = {"name": name, "namespace": "default", "labels": {"team": "a"}}
    await whole.client.create(SERVICE, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": body})


async def pod(whole: Whole, name: str, app: str, ip: str) -> None:
    """A pod on a node without an agent: the test sets its address."""
    meta, spec = {"name": name, "namespace": "default", "labels": {"app": app}}, {**pod_spec(), "nodeName": "elsewhere"}
    await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}
    await whole.client.patch(POD, "default", name, {"status": status}, subresource="status")


def targets(slices: list[Any], name: str) -> list[tuple[str, bool]]:
    return sorted(
        (endpoint["targetRef"]["name"], endpoint["conditions"]["ready"])
        for row in slices
        if row["metadata"]["labels"].get(NAME) == name
        for endpoint in row.get("endpoints") or ()
    )


async def test_a_ready_pod_is_in_both_forms_until_it_is_deleted(whole: Whole) -> None:
    await service(whole, "web", selector={"app": "web"})
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}, "spec": {"unschedulable": True}}
    await whole.client.create(NODE, node)
    await pod(whole, "a", "web", "10.1.0.1")
    await pod(whole, "b", "web", "10.1.0.2")
    await pod(whole, "c", "web", "127.0.0.1")
    slices = await all_become(
        whole.client, SLICE, "default", lambda rows: targets(rows, "web") == [("a", True), ("b", True)]
    )
    mine = next(row for row in slices if row["metadata"]["labels"].get(NAME) == "web")
    assert mine["metadata"]["labels"]["team"] == "a" and mine["ports"] == [{"name": "", "protocol": "TCP", "port": 80}]
    found = await becomes(
        whole.client,
        ENDPOINTS,
        "default",
        "web",
        lambda obj: len(((obj or {}).get("subsets") or [{}])[0].get("addresses") or ()) == 2,
    )
    assert (
        found is not None and found["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] == "endpoint-controller"
    )
    await whole.client.delete(POD, "default", "a", {"gracePeriodSeconds": 0})
    await all_become(whole.client, SLICE, "default", lambda rows: targets(rows, "web") == [("b", True)])


async def test_endpoints_go_with_their_service(whole: Whole) -> None:
    await service(whole, "short", selector={"app": "none"})
    await becomes(whole.client, ENDPOINTS, "default", "short", lambda endpoints: endpoints is not None)
    await all_become(
        whole.client, SLICE, "default", lambda rows: any(NAME in row["metadata"]["labels"] for row in rows)
    )
    await whole.client.delete(SERVICE, "default", "short")
    await becomes(whole.client, ENDPOINTS, "default", "short", lambda endpoints: endpoints is None)
    await all_become(
        whole.client,
        SLICE,
        "default",
        lambda rows: all(row["metadata"]["labels"].get(NAME) != "short" for row in rows),
    )


async def test_endpoints_that_others_write_are_mirrored_and_those_of_the_server_are_not(whole: Whole) -> None:
    await service(whole, "outside")
    meta = {"name": "outside", "namespace": "default"}
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 5432, "name": "db"}]}]
    await whole.client.create(
        ENDPOINTS, {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}
    )

    def mirrored(rows: list[Any]) -> bool:
        return any(row["metadata"]["labels"].get(NAME) == "outside" and row.get("endpoints") for row in rows)

    slices = await all_become(whole.client, SLICE, "default", mirrored)
    mine = [row for row in slices if row["metadata"]["labels"].get(NAME) == "outside"]
    assert mine[0]["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert mine[0]["ports"] == [{"name": "db", "protocol": "TCP", "port": 5432}]
    assert [row["metadata"]["name"] for row in slices if row["metadata"]["labels"].get(NAME) == "kubernetes"] == [
        "kubernetes"
    ]
    await whole.client.delete(ENDPOINTS, "default", "outside")
    await all_become(whole.client, SLICE, "default", lambda rows: not mirrored(rows))
