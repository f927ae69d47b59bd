"""`kubectl top` against a whole cluster: from a node's counters to the table."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import aiohttp
import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, POD, kind_named
from podfit.api.status import ApiError
from podfit.cli.sizing.usage import node_metrics, pod_metrics
from podfit.client.kubeconfig import load
from podfit.compose import MeterAlone
from podfit.meter.meter import MeterConfig
from podfit.meter.registration import Remote, register

PATIENCE_S = 60.0
KUBECTL = shutil.which("kubectl")
ROOT = "/apis/metrics.k8s.io/v1beta1"


def loaded(name: str, cpu: str) -> Object:
    annotations = {"podfit.dev/fake-cpu": f"constant:{cpu}", "podfit.dev/fake-memory": "constant:20Mi"}
    meta = {"name": name, "namespace": "default", "annotations": annotations, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()}


def running(pod: Object | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running"


async def measured(whole: Whole, name: str) -> None:
    """Waits until the meter has reported the pod."""
    meter = whole.up.meter
    assert meter is not None
    meter.config = MeterConfig(interval_s=1.1)
    seen = asyncio.Event()
    meter.subscribe(lambda samples: seen.set() if any(sample.pod == name for sample in samples) else None)
    await asyncio.wait_for(seen.wait(), PATIENCE_S)


async def test_usage_goes_from_the_node_to_the_api(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        await whole.client.create(POD, loaded("busy", "500m"))
        await becomes(whole.client, POD, "default", "busy", running)
        await measured(whole, "busy")
        found = await whole.client.raw("GET", f"{ROOT}/namespaces/default/pods/busy")
        assert found["kind"] == "PodMetrics"
        assert [container["name"] for container in found["containers"]] == ["c"]
        assert found["containers"][0]["usage"]["memory"] == "20Mi"
        listed = await whole.client.raw("GET", f"{ROOT}/pods", {"labelSelector": "app=idle"})
        assert listed["items"] == []
        assert (await whole.client.raw("GET", f"{ROOT}/nodes/n1"))["kind"] == "NodeMetrics"
        with pytest.raises(ApiError, match="podmetrics.metrics.k8s.io"):
            await whole.client.raw("GET", f"{ROOT}/namespaces/default/pods/nobody")


async def test_the_group_is_announced(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        service = kind_named("APIService")
        await becomes(whole.client, service, "", "v1beta1.metrics.k8s.io", lambda obj: obj is not None)
        role = await whole.client.get(kind_named("ClusterRole"), "", "system:aggregated-metrics-reader")
        assert role["rules"][0]["apiGroups"] == ["metrics.k8s.io"]
        resources = await whole.client.raw("GET", ROOT)
        assert [row["name"] for row in resources["resources"]] == ["nodes", "pods"]


async def test_a_meter_of_its_own_process_is_aggregated(tmp_path: Path) -> None:
    """The meter joins with a kubeconfig, is found by its APIService and answers only the API server."""
    async with Whole(tmp_path, controllers=False) as whole:
        alone = MeterAlone(load(str(whole.up.kubeconfig)), "127.0.0.1", 0)
        url = await alone.start()
        try:
            name = "v1beta1.metrics.k8s.io"
            made = await becomes(whole.client, kind_named("APIService"), "", name, available)
            assert made is not None and "annotations" not in made["metadata"]
            assert made["spec"]["service"]["name"] == "podfit-meter"
            seen = asyncio.Event()
            alone.meter.subscribe(lambda samples: seen.set())
            alone.meter.config = MeterConfig(interval_s=1.1)
            await whole.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "x"}}
            await whole.client.create(kind_named("ServiceAccount"), account)
            pod = loaded("busy", "250m")
            pod["metadata"]["namespace"] = "x"
            pod["spec"]["automountServiceAccountToken"] = False
            await whole.client.create(POD, pod)
            await asyncio.wait_for(seen.wait(), PATIENCE_S)
            found = await whole.client.raw("GET", f"{ROOT}/namespaces/x/pods/busy")
            assert found["containers"][0]["usage"]["memory"] == "20Mi"
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{url}{ROOT}/pods", ssl=False) as answer:
                    assert answer.status == 401
                async with session.get(f"{url}/healthz", ssl=False) as answer:
                    assert answer.status == 200
        finally:
            await alone.stop()


async def test_a_group_that_comes_home_is_served_again(tmp_path: Path) -> None:
    """A stopped meter leaves its APIService behind; the next start in one process takes it over."""
    async with Whole(tmp_path) as whole:
        service, name = kind_named("APIService"), "v1beta1.metrics.k8s.io"
        await register(whole.client, Remote("https://127.0.0.1:1", whole.up.server.pki.ca))
        await becomes(whole.client, service, "", name, lambda obj: reason(obj) == "FailedDiscoveryCheck")
        await register(whole.client)
        await becomes(whole.client, service, "", name, lambda obj: available(obj) and reason(obj) == "Local")
        assert "metrics.k8s.io" in [group["name"] for group in (await whole.client.raw("GET", "/apis"))["groups"]]
        assert (await whole.client.raw("GET", f"{ROOT}/nodes"))["kind"] == "NodeMetricsList"


async def test_podfit_top_distinguishes_missing_metrics_from_an_unavailable_metrics_server(tmp_path: Path) -> None:
    async with Whole(tmp_path, controllers=False) as whole:
        reasons: list[str] = []
        assert await node_metrics(whole.client, reasons.append) is None
        await register(whole.client, Remote("https://127.0.0.1:1", whole.up.server.pki.ca))
        service, name = kind_named("APIService"), "v1beta1.metrics.k8s.io"
        await becomes(whole.client, service, "", name, lambda obj: reason(obj) == "FailedDiscoveryCheck")
        assert await pod_metrics(whole.client, "default", report=reasons.append) is None
    assert reasons[0] == "metrics.k8s.io is not served"
    assert reasons[1].startswith("metrics.k8s.io does not answer: ")


def reason(service: Object | None) -> str:
    rows = ((service or {}).get("status") or {}).get("conditions") or [{}]
    return str(rows[0].get("reason"))


def available(service: Object | None) -> bool:
    rows = ((service or {}).get("status") or {}).get("conditions") or [{}]
    return rows[0].get("status") == "True"


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_kubectl_top_shows_pods_and_nodes(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        await whole.client.create(POD, loaded("busy", "250m"))
        await becomes(whole.client, POD, "default", "busy", running)
        await measured(whole, "busy")
        environment = {**os.environ, "KUBECONFIG": str(whole.up.kubeconfig), "HOME": str(tmp_path)}
        for words, name in ((("pod", "--containers"), "busy"), (("node",), "n1")):
            pipe = asyncio.subprocess.PIPE
            assert KUBECTL is not None
            process = await asyncio.create_subprocess_exec(
                KUBECTL, "top", *words, stdout=pipe, stderr=pipe, env=environment
            )
            out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
            assert (process.returncode, errors) == (0, b"")
            assert name in out.decode().splitlines()[1]
