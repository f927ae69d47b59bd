"""A cluster in one process serves all its metrics at fixed paths of one port."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.agent.config import AgentConfig
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import User
from podfit.client.kubeconfig import load
from podfit.compose import agent_alone
from podfit.compose_runtimes import RuntimeSettings
from podfit.kit.web.addresses import CannotListen

PAGES = {
    "/metrics": "apiserver_request_total",
    "/metrics/scheduler": "scheduler_schedule_attempts_total",
    "/metrics/recommender": "vpa_recommender_samples_total",
    "/metrics/updater": "vpa_updater_execution_latency_seconds_count",
    "/metrics/admission": "vpa_admission_controller_admission_pods_total",
}
READER = User("prometheus", ("system:authenticated",))
ROLE, BINDING = kind_named("ClusterRole"), kind_named("ClusterRoleBinding")


async def test_the_scheduler_of_podfit_up_is_seen_at_the_servers_port(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec(node="")}
        await whole.client.create(POD, body, "default")
        await becomes(whole.client, POD, "default", "p", lambda pod: bool(pod and pod["spec"].get("nodeName")))
        text = str(await whole.client.raw("GET", "/metrics/scheduler"))
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in text


async def test_every_component_has_a_page_of_its_own(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=True) as whole:
        texts = {path: str(await whole.client.raw("GET", path)) for path in PAGES}
        listed = (await whole.client.raw("GET", "/"))["paths"]
    for path, name in PAGES.items():
        assert path in listed
        assert [other for other, text in texts.items() if f"\n{name}" in text] == [path]


async def test_a_component_that_does_not_run_has_no_page(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=False) as whole:
        with pytest.raises(ApiError) as refused:
            await whole.client.raw("GET", "/metrics/recommender")
    assert refused.value.code == 404


async def test_reading_pages_requires_permission(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        reader = local_client(whole.up.server, READER, "prometheus")
        for path in ("/metrics", "/metrics/scheduler", "/metrics/nodes"):
            with pytest.raises(ApiError) as refused:
                await reader.raw("GET", path)
            assert refused.value.code == 403
        rules = [{"nonResourceURLs": ["/metrics", "/metrics/*"], "verbs": ["get"]}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "reader"}}
        await whole.client.create(ROLE, {**role, "kind": "ClusterRole", "rules": rules})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER.name}
        await whole.client.create(
            BINDING, {**role, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]}
        )
        server = whole.up.server
        while server.hub.seen < server.config.store.revision:
            await asyncio.sleep(0)
        assert "apiserver_request_total" in str(await reader.raw("GET", "/metrics"))
        assert "scheduler_pending_pods" in str(await reader.raw("GET", "/metrics/scheduler"))


async def test_prometheus_is_shown_where_every_node_serves_its_metrics(tmp_path: Path) -> None:
    async with Whole(tmp_path, nodes=2, node_name="n") as whole:
        for name in ("n-1", "n-2"):
            await becomes(whole.client, NODE, "", name, lambda node: node is not None)
        targets = await whole.client.raw("GET", "/metrics/nodes")
        ports = [node.port for node in whole.up.node_servers]
    assert targets == [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}}
        for name, port in zip(("n-1", "n-2"), ports, strict=True)
    ]


async def test_nodes_listen_at_the_port_that_was_named(tmp_path: Path, unused_tcp_port: int) -> None:
    async with Whole(tmp_path, node_port=unused_tcp_port) as whole:
        assert [node.port for node in whole.up.node_servers] == [unused_tcp_port]


async def test_the_autoscaler_listens_at_the_address_that_was_named(tmp_path: Path, unused_tcp_port: int) -> None:
    here = f"127.0.0.1:{unused_tcp_port}"
    async with Whole(tmp_path, vpa=True, vpa_flags={"updater": [f"--address={here}"]}) as whole:
        assert whole.up.autoscaler is not None
        async with asyncio.timeout(20):
            while not whole.up.autoscaler.updater.http.port:
                await asyncio.sleep(0)
        async with aiohttp.ClientSession() as session, session.get(f"http://{here}/metrics") as answer:
            alone = await answer.text()
        shown = str(await whole.client.raw("GET", "/metrics/updater"))
    assert [line for line in shown.splitlines() if line.startswith("# HELP")] == [
        line for line in alone.splitlines() if line.startswith("# HELP")
    ]


async def test_an_agent_does_not_start_on_another_port_than_was_named(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        taken = whole.up.node_servers[0].port
        config = AgentConfig("n2", tmp_path / "n2", address="127.0.0.1", port=taken)
        with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{taken}"):
            await agent_alone(load(str(whole.up.kubeconfig)), RuntimeSettings("fake"), config)
