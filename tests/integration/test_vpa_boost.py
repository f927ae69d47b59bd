"""A startup boost of a new pod uses the capacity that is free beyond the recommended size, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled

from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, kind_named
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook

CONFIG = AdmissionConfig(
    port=0,
    host="127.0.0.1",
    address="",
    register_by_url=True,
    webhook_address="127.0.0.1",
    feature_gates={"CPUStartupBoost": True},
)
TENFOLD = {"cpu": {"type": "Factor", "factor": 10, "durationSeconds": 30}}


class Boosting(NamedTuple):
    cluster: Autoscaled
    webhook: AdmissionWebhook


@pytest.fixture
async def boosting(tmp_path: Path) -> AsyncIterator[Boosting]:
    """A node of 8 CPUs, and the webhook."""
    async with autoscaled(tmp_path / "server") as made:
        webhook = AdmissionWebhook(made.client, CONFIG, made.clock)
        await webhook.start()
        try:
            await webhook.upkeep()
            yield Boosting(made, webhook)
        finally:
            await webhook.stop()


async def boosted(boosting: Boosting, mode: str = "Recreate") -> Any:
    """A new pod that requests 100m, with a recommendation of one CPU and a boost to ten times as much while it
    starts.
    """
    cluster = boosting.cluster
    await cluster.deployment("web", 0)
    await cluster.vpa("web", "web", updatePolicy={"updateMode": mode}, startupBoost=TENFOLD)
    await cluster.recommend("web", {"cpu": "1", "memory": "300Mi"}, lowerBound={"cpu": "500m", "memory": "200Mi"})
    await cluster.caught_up(boosting.webhook.caches.caches)
    found = await cluster.admin.get(REPLICA_SET, "default", "web-1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": found["metadata"]["uid"]}
    meta = {"name": "new", "labels": {"app": "web"}, "ownerReferences": [{**owner, "controller": True}]}
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m"}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}]}
    return await cluster.admin.create(
        POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "default"
    )


def cpu(pod: Any, kind: str = "requests") -> int:
    return Quantity.parse(pod["spec"]["containers"][0]["resources"][kind]["cpu"]).milli


def note(pod: Any) -> str:
    return str(pod["metadata"]["annotations"].get("podfit.dev/fitted", ""))


async def test_a_boost_with_room_is_given_in_full(boosting: Boosting) -> None:
    await boosting.cluster.node("large", cpu="64")
    pod = await boosted(boosting)
    assert cpu(pod) == 10_000 and cpu(pod, "limits") == 20_000 and note(pod) == ""


async def test_a_boost_is_cut_to_what_nodes_have_left(boosting: Boosting) -> None:
    await boosting.cluster.pod("neighbour", resources={"requests": {"cpu": "5"}})
    pod = await boosted(boosting)
    assert 2980 <= cpu(pod) <= 3000, "8 CPUs, of which 5 are taken"
    assert cpu(pod, "limits") == 2 * cpu(pod)
    assert pod["metadata"]["annotations"]["vpaCpuStartupBoost/main"] == (
        '{"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m"}}'
    )
    assert note(pod) == (
        f"container main: startup boost to {cpu(pod)}m of cpu instead of 10, which no node or quota has left"
    )


async def test_a_boost_is_cut_to_what_the_quota_has_left(boosting: Boosting) -> None:
    await boosting.cluster.node("large", cpu="64")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    kind = kind_named("ResourceQuota")
    made = await boosting.cluster.admin.create(kind, {**quota, "spec": {"hard": {"limits.cpu": "4"}}}, "default")
    made["status"] = {"hard": {"limits.cpu": "4"}, "used": {"limits.cpu": "0"}}
    await boosting.cluster.admin.update(kind, made, "status")
    pod = await boosted(boosting)
    assert 3960 <= cpu(pod, "limits") <= 4000


async def test_without_room_for_any_boost_the_pod_starts_squeezed(boosting: Boosting) -> None:
    await boosting.cluster.pod("neighbour", resources={"requests": {"cpu": "7300m"}})
    pod = await boosted(boosting)
    assert 690 <= cpu(pod) <= 700
    assert "of cpu instead of 1000m" in note(pod)


async def test_a_boost_without_a_recommendation_is_cut_too(boosting: Boosting) -> None:
    await boosting.cluster.pod("neighbour", resources={"requests": {"cpu": "7500m"}})
    pod = await boosted(boosting, "Off")
    assert 490 <= cpu(pod) <= 500, "ten times 100m are wanted"
