"""Components of one process share the objects of watches and writes: none of them may change another's view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, workload

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.apiserver.representation.forms import Form
from podfit.apiserver.storage.events import WatchEvent
from podfit.client.rest import STRATEGIC
from podfit.client.transport import ClientRequest, LocalTransport, Reply

DEPLOYMENT, QUOTA = kind_named("Deployment"), kind_named("ResourceQuota")
AUTOSCALER = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
}


async def test_objects_delivered_by_a_watch_are_never_modified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought: dict[int, tuple[bytes, Any]] = {}
    shown = WatchEvent.shown

    def handed_over(event: WatchEvent, word: str, form: Form) -> Any:
        obj = shown(event, word, form)
        brought[id(obj)] = (event.encoded(word, form), obj)
        return obj

    monkeypatch.setattr(WatchEvent, "shown", handed_over)
    async with Whole(tmp_path, vpa=True) as whole:
        await _live_through_a_day(whole)
    assert {obj["kind"] for _, obj in brought.values()} >= {"Pod", "Deployment", "VerticalPodAutoscaler"}
    assert [line for line, obj in brought.values() if _fresh(line) != obj] == []


async def test_the_object_returned_by_a_write_is_never_modified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[str, bytes, Any]] = []
    request = LocalTransport.request

    async def remembered(transport: LocalTransport, ask: ClientRequest) -> Reply:
        reply = await request(transport, ask)
        if reply.shared is not None:
            answers.append((f"{ask.method} {ask.path}", msgspec.json.encode(reply.shared), reply.shared))
        return reply

    monkeypatch.setattr(LocalTransport, "request", remembered)
    async with Whole(tmp_path, vpa=True) as whole:
        await _live_through_a_day(whole)
        for _ in range(3):
            await whole.up.agents[0].node._renew()
    assert {obj["kind"] for _, _, obj in answers} >= {"Pod", "ReplicaSet", "Deployment", "Event", "Node", "Lease"}
    assert [asked for asked, then, obj in answers if msgspec.json.encode(obj) != then] == []


async def _live_through_a_day(whole: Whole) -> None:
    client = whole.client
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"requests.cpu": "10", "pods": "20"}}}
    await client.create(QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    await client.create(VPA, AUTOSCALER)
    await client.create(DEPLOYMENT, workload("Deployment", "web", 3))
    await becomes(client, DEPLOYMENT, "default", "web", lambda deployment: _ready(deployment) == 3)
    pods = (await client.list(POD, "default"))["items"]
    name, size = pods[0]["metadata"]["name"], {"requests": {"cpu": "200m"}}
    patch = {"spec": {"containers": [{"name": "c", "resources": size}]}}
    await client.patch(POD, "default", name, patch, "resize", STRATEGIC)
    await becomes(client, POD, "default", name, _resized)
    await client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 1}})
    await becomes(client, DEPLOYMENT, "default", "web", lambda pod: (pod or {})["status"].get("replicas") == 1)
    await client.delete(DEPLOYMENT, "default", "web")
    await becomes(client, DEPLOYMENT, "default", "web", lambda deployment: deployment is None)


def _fresh(line: bytes) -> Any:
    obj = msgspec.json.decode(line)["object"]
    obj["metadata"].pop("managedFields", None)
    return obj


def _ready(obj: Any) -> int:
    return int(((obj or {}).get("status") or {}).get("readyReplicas") or 0)


def _resized(obj: Any) -> bool:
    (status,) = obj["status"]["containerStatuses"]
    return bool(status["resources"]["requests"]["cpu"] == "200m")
