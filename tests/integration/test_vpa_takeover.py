"""Two admission webhooks registered by URL: one stands by for the other, and nothing is evicted in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled

from podfit.api.registry.kinds import LEASE, POD, kind_named
from podfit.kit.clock import rfc3339_micro
from podfit.vpa.admission import loop
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

CONFIG = AdmissionConfig(
    port=0, host="127.0.0.1", address="", register_by_url=True, webhook_address="127.0.0.1", namespace="kube-system"
)
MUTATING = kind_named("MutatingWebhookConfiguration")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server") as made:
        await made.deployment("web", 2)
        await made.vpa("web", "web", updatePolicy={"updateMode": "Recreate"})
        bounds: Any = {"lowerBound": {"cpu": "400m"}, "upperBound": {"cpu": "1"}}
        await made.recommend("web", {"cpu": "500m"}, **bounds)
        yield made


@asynccontextmanager
async def serving(cluster: Autoscaled) -> AsyncIterator[AdmissionWebhook]:
    webhook = AdmissionWebhook(cluster.client, CONFIG, cluster.clock)
    task = asyncio.ensure_future(webhook.run())
    try:
        await asyncio.wait_for(webhook.registered.wait(), 30)
        yield webhook
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def updating(cluster: Autoscaled) -> AsyncIterator[Updater]:
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await updater.start()
    try:
        yield updater
    finally:
        await updater.stop()


async def lease(cluster: Autoscaled) -> None:
    """Renews its Lease as another webhook would that is not registered."""
    spec = {"holderIdentity": "other", "renewTime": rfc3339_micro(cluster.clock.now() + 600)}
    body = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": "vpa-admission-controller"}}
    if await cluster.admin.find(LEASE, "kube-system", "vpa-admission-controller") is None:
        await cluster.admin.create(LEASE, {**body, "spec": spec}, "kube-system")
    else:
        await cluster.admin.patch(LEASE, "kube-system", "vpa-admission-controller", {"spec": spec})


async def registered_port(cluster: Autoscaled) -> int:
    found = await cluster.admin.get(MUTATING, "", "vpa-webhook-config")
    return int(found["webhooks"][0]["clientConfig"]["url"].rpartition(":")[2])


async def create(cluster: Autoscaled, name: str) -> Any:
    found = await cluster.admin.get(REPLICA_SET, "default", "web-1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": found["metadata"]["uid"]}
    meta = {"name": name, "labels": {"app": "web"}, "ownerReferences": [{**owner, "controller": True}]}
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}]}
    return await cluster.admin.create(
        POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "default"
    )


async def alive(cluster: Autoscaled) -> int:
    found = await cluster.admin.list(POD, "default")
    return sum(not pod["metadata"].get("deletionTimestamp") for pod in found["items"])


async def test_a_standby_webhook_takes_over_and_sizes_pods(
    cluster: Autoscaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STAND_BY_S", 0.1)
    async with serving(cluster) as first:
        async with serving(cluster) as second:
            assert await registered_port(cluster) == second.port
            await first.upkeep()
            assert await registered_port(cluster) == second.port, "the first one stands by"
        async with asyncio.timeout(30):
            while await registered_port(cluster) != first.port:
                await asyncio.sleep(0.02)
        pod = await create(cluster, "new")
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"


async def test_nothing_is_evicted_while_the_registered_webhook_does_not_answer(cluster: Autoscaled) -> None:
    async with serving(cluster) as webhook:
        port = webhook.port
    await lease(cluster)
    async with updating(cluster) as updater:
        await updater.one_pass()
        story = updater.skip_reasons.of(("default", "web"))
    assert await alive(cluster) == 2
    assert story is not None
    reported = story["pods"]["web-1-0"]
    assert reported["reason"] == "NoAdmission"
    assert f"registered at https://127.0.0.1:{port} does not answer" in reported["message"]


async def test_pods_are_evicted_while_it_answers(cluster: Autoscaled) -> None:
    async with serving(cluster), updating(cluster) as updater:
        await lease(cluster)
        await updater.one_pass()
    assert await alive(cluster) == 1


async def test_evictions_stop_after_a_successor_that_no_webhook_has_seen(cluster: Autoscaled) -> None:
    await lease(cluster)
    async with updating(cluster) as updater:
        await updater.one_pass()
        assert await alive(cluster) == 1
        await create(cluster, "unsized")
        async with asyncio.timeout(20):
            while updater.headroom._waiting is None or updater.headroom._waiting.get("default", "unsized") is None:
                await asyncio.sleep(0.01)
        await updater.one_pass()
        waiting = await updater.webhook.unavailable()
    assert waiting is not None and "pod unsized, successor of an evicted pod, did not pass" in waiting.message
