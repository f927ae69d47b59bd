"""Flow control over HTTPS: requests are classified, limited and counted by the cluster's own objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.support.cluster.asking import serving, tls_of

from podfit.apiserver.app import ApiServer
from podfit.apiserver.calls import Call
from podfit.apiserver.flows.estimate import WorkEstimate
from podfit.apiserver.request import ADMIN, Request, Response

MAPS = "/api/v1/namespaces/default/configmaps"
FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMA, LEVEL = "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with serving(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def admin(server: ApiServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, server.pki.admin, tmp_path), limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector) as session:
        yield session


@pytest.fixture
async def nobody(server: ApiServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, None, tmp_path), limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector) as session:
        yield session


async def uid(admin: aiohttp.ClientSession, resource: str, name: str) -> str:
    async with admin.get(f"{FLOWS}/{resource}/{name}") as answer:
        found: str = (await answer.json())["metadata"]["uid"]
        return found


async def test_answers_name_the_flow_schema_and_priority_level(admin: aiohttp.ClientSession) -> None:
    async with admin.get(MAPS) as answer:
        named = answer.headers[SCHEMA], answer.headers[LEVEL]
    wanted = await uid(admin, "flowschemas", "exempt"), await uid(admin, "prioritylevelconfigurations", "exempt")
    assert named == wanted


async def test_a_refused_request_names_them_too(admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession) -> None:
    async with nobody.get(MAPS) as answer:
        assert answer.status == 403
        assert answer.headers[SCHEMA] == await uid(admin, "flowschemas", "global-default")


async def test_requests_are_classified_by_the_user_they_impersonate(admin: aiohttp.ClientSession) -> None:
    async with admin.get(MAPS, headers={"Impersonate-User": "system:serviceaccount:default:default"}) as answer:
        assert answer.headers[SCHEMA] == await uid(admin, "flowschemas", "service-accounts")


async def test_a_refused_impersonation_has_no_flow(admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession) -> None:
    async with nobody.get(MAPS, headers={"Impersonate-User": "ann"}) as answer:
        assert (answer.status, SCHEMA in answer.headers) == (403, False)
    async with admin.get(MAPS, headers={"Impersonate-Group": "some"}) as answer:
        assert (answer.status, SCHEMA in answer.headers) == (400, False)


async def test_a_watch_names_them_and_keeps_no_seat(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    async with admin.get(MAPS, params={"watch": "true"}) as answer:
        assert LEVEL in answer.headers
        assert not any(level.executing for level in server.core.flows.levels.values())


LIMITED = {
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "one"},
    "spec": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}, "borrowingLimitPercent": 0},
    },
}
RULE = {"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["*"], "clusterScope": True}
FOR_ANYBODY = {
    "kind": "FlowSchema",
    "metadata": {"name": "first"},
    "spec": {
        "matchingPrecedence": 2,
        "priorityLevelConfiguration": {"name": "one"},
        "rules": [
            {"subjects": [{"kind": "Group", "group": {"name": "system:unauthenticated"}}], "resourceRules": [RULE]}
        ],
    },
}


async def limited(admin: aiohttp.ClientSession, server: ApiServer) -> None:
    for resource, body in (("prioritylevelconfigurations", LIMITED), ("flowschemas", FOR_ANYBODY)):
        async with admin.post(f"{FLOWS}/{resource}", json={"apiVersion": FLOWS[6:], **body}) as answer:
            assert answer.status == 201, await answer.text()
    while "one" not in server.core.flows.levels:
        await asyncio.sleep(0)


async def test_a_request_beyond_its_level_is_sent_back_with_retry_after(
    server: ApiServer, admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession
) -> None:
    await limited(admin, server)
    server.core.flows.levels["one"].arrive(WorkEstimate(), 0, 0.0)
    async with nobody.get(MAPS) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert await answer.text() == "Too many requests, please try again later.\n"
        assert answer.headers[SCHEMA] == await uid(admin, "flowschemas", "first")


async def test_a_request_of_another_level_is_answered_meanwhile(
    server: ApiServer, admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession
) -> None:
    await limited(admin, server)
    server.core.flows.levels["one"].arrive(WorkEstimate(), 0, 0.0)
    async with admin.get(MAPS) as answer:
        assert answer.status == 200


async def test_seats_are_free_again_after_the_answer(
    server: ApiServer, admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession
) -> None:
    await limited(admin, server)
    for _ in range(3):
        async with nobody.get(MAPS) as answer:
            assert answer.status == 403
    assert server.core.flows.levels["one"].executing == 0


async def test_rejections_are_counted_under_kubernetes_names(
    server: ApiServer, admin: aiohttp.ClientSession, nobody: aiohttp.ClientSession
) -> None:
    await limited(admin, server)
    server.core.flows.levels["one"].arrive(WorkEstimate(), 0, 0.0)
    async with nobody.get(MAPS) as answer:
        assert answer.status == 429
    async with admin.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    labels = 'flow_schema="first",priority_level="one",reason="concurrency-limit"'
    assert f"apiserver_flowcontrol_rejected_requests_total{{{labels}}} 1.0" in lines


async def test_a_request_that_waited_too_long_is_sent_back(server: ApiServer, nobody: aiohttp.ClientSession) -> None:
    flows = server.core.flows
    flows.wait_s = 0.01
    level = flows.levels["global-default"]
    level.configure(level.uid, {"limited": {"limitResponse": {"type": "Queue"}}}, level.bounds)
    level.executing += level.limit
    async with nobody.get(MAPS) as answer:
        assert answer.status == 429
    assert level.waiting == 0


async def test_default_objects_that_were_changed_or_deleted_are_reconciled(
    server: ApiServer, admin: aiohttp.ClientSession
) -> None:
    change = {"spec": {"matchingPrecedence": 7}}
    merge = {"Content-Type": "application/merge-patch+json"}
    async with admin.patch(f"{FLOWS}/flowschemas/system-nodes", json=change, headers=merge) as answer:
        assert answer.status == 200
    async with admin.delete(f"{FLOWS}/flowschemas/probes") as answer:
        assert answer.status == 200
    await server.flow_upkeep.reconcile()
    async with admin.get(f"{FLOWS}/flowschemas/system-nodes") as answer:
        assert (await answer.json())["spec"]["matchingPrecedence"] == 500
    assert await uid(admin, "flowschemas", "probes")


async def test_a_client_waits_for_a_quarter_of_its_timeout(server: ApiServer, nobody: aiohttp.ClientSession) -> None:
    level = server.core.flows.levels["global-default"]
    level.executing += level.limit
    async with nobody.get(f"{MAPS}?timeout=40ms") as answer:
        assert answer.status == 429


async def test_lists_and_writes_are_counted_by_the_seats_that_they_are_estimated_to_take(
    server: ApiServer, admin: aiohttp.ClientSession
) -> None:
    async with admin.post(MAPS, json={"metadata": {"name": "large"}, "data": {"a": "x" * 250_000}}) as answer:
        assert answer.status == 201
    async with admin.get(MAPS) as answer:
        assert answer.status == 200
    async with admin.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    labels = 'flow_schema="exempt",priority_level="exempt"'
    found = {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if line.startswith("apiserver_flow")}
    name = "apiserver_flowcontrol_work_estimated_seats"
    assert found[f"{name}_sum{{{labels}}}"] > found[f"{name}_count{{{labels}}}"]
    assert found[f"apiserver_flowcontrol_watch_count_samples_count{{{labels}}}"] == 1


async def test_long_work_does_not_wait_for_a_connection_that_stays_open(server: ApiServer) -> None:
    opened = asyncio.Event()

    async def stay(call: Call) -> Response:
        opened.set()
        await asyncio.Event().wait()
        raise AssertionError

    core, path = server.core, "/api/v1/namespaces/default/pods/p/attach"
    core.handlers.add("", "pods", "attach", stay)
    session = asyncio.create_task(server.handle(Request("POST", path, {}, {}, user=ADMIN)))
    await opened.wait()
    lane = core.parts.long_responses
    lane._timeout_s = 600
    async with asyncio.timeout(60):
        await lane.wait(Request("GET", "/api/v1/pods", {}, {}, user=ADMIN, is_long=True))
    session.cancel()
