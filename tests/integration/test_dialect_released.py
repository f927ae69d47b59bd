"""Responses of the dialects v1.31 and v1.32 that differ from the native API equal those of the releases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster

from podfit.api.objects import Object

STRATEGIC = "application/strategic-merge-patch+json"
BASE = "/api/v1/namespaces/old"
BOTH = pytest.mark.parametrize("version", ["v1.31", "v1.32"])


@pytest.fixture
async def ask(tmp_path: Path, version: str) -> AsyncIterator[Asker]:
    async with Cluster(tmp_path) as cluster:
        await cluster.namespace("old", version)
        yield Asker(cluster.server)


def container(name: str = "c", **more: Any) -> Object:
    return {"name": name, "image": "busybox", "resources": {"requests": {"cpu": "100m"}}, **more}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [container()], **spec}}


def resize_of(requests: Object) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}


@BOTH
@pytest.mark.parametrize("sidecar", [{}, {"restartPolicy": "Always"}], ids=["init container", "sidecar"])
async def test_init_containers_have_no_policies(ask: Asker, version: str, sidecar: Object) -> None:
    policy = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
    body = pod(initContainers=[container("i", resizePolicy=[policy], **sidecar)])
    code, answer = await ask("POST", f"{BASE}/pods", body)
    go = 'core.ContainerResizePolicy{ResourceName:"cpu", RestartPolicy:"NotRequired"}'
    where = "spec.initContainers[0].resizePolicy"
    said = f'Pod "p" is invalid: {where}: Invalid value: []core.ContainerResizePolicy{{{go}}}'
    assert (code, answer["message"]) == (422, f"{said}: must not be set for init containers")


@BOTH
async def test_ephemeral_containers_have_no_policies(ask: Asker, version: str) -> None:
    await ask("POST", f"{BASE}/pods", pod())
    policy = {"resourceName": "cpu", "restartPolicy": "NotRequired"}
    patch = {"spec": {"ephemeralContainers": [{"name": "e", "image": "busybox", "resizePolicy": [policy]}]}}
    code, answer = await ask("PATCH", f"{BASE}/pods/p/ephemeralcontainers", patch, STRATEGIC)
    where = "spec.ephemeralContainers[0].resizePolicy"
    said = f'Pod "p" is invalid: {where}: Forbidden: cannot be set for an Ephemeral Container'
    assert (code, answer["message"]) == (422, said)


@BOTH
async def test_names_of_resources_are_printed_without_quotes(ask: Asker, version: str) -> None:
    await ask("POST", f"{BASE}/pods", pod())
    door = "/resize" if version == "v1.32" else ""
    code, answer = await ask("PATCH", f"{BASE}/pods/p{door}", resize_of({"bogus": "1"}), STRATEGIC)
    assert code == 422
    said = "spec.containers[0].resources.requests[bogus]: Invalid value: bogus: must be a standard resource"
    assert said in answer["message"]


@BOTH
async def test_a_template_whose_pods_never_restart_is_refused_with_the_message_of_the_release(
    ask: Asker, version: str
) -> None:
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    spec = {"restartPolicy": "Never", "containers": [container(resizePolicy=[policy])]}
    body = {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}}
    code, answer = await ask("POST", "/apis/batch/v1/namespaces/old/jobs", body)
    said = "must be 'NotRequired' when `restartPolicy` is 'Never'"
    where = "spec.template.spec.containers[0].resizePolicy"
    expected = f'Job.batch "j" is invalid: {where}: Invalid value: "RestartContainer": {said}'
    assert (code, answer["message"]) == (422, expected)


@pytest.mark.parametrize("version", ["v1.31"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "POST", "DELETE"])
async def test_there_is_no_subresource_resize_for_any_method(ask: Asker, version: str, method: str) -> None:
    await ask("POST", f"{BASE}/pods", pod())
    code, answer = await ask(method, f"{BASE}/pods/p/resize", {}, STRATEGIC)
    assert (code, answer["reason"]) == (404, "NotFound")


@pytest.mark.parametrize(("version", "word"), [("v1.31", None), ("v1.32", "Proposed")])
async def test_a_resize_of_a_pod_without_a_node_is_proposed_in_1_32_alone(
    ask: Asker, version: str, word: str | None
) -> None:
    await ask("POST", f"{BASE}/pods", pod())
    door = "/resize" if version == "v1.32" else ""
    code, answer = await ask("PATCH", f"{BASE}/pods/p{door}", resize_of({"cpu": "200m"}), STRATEGIC)
    assert (code, answer["status"].get("resize")) == (200, word)


@pytest.mark.parametrize("version", ["v1.32"])
async def test_a_pod_without_a_node_that_changes_otherwise_is_not_proposed(ask: Asker, version: str) -> None:
    await ask("POST", f"{BASE}/pods", pod(schedulingGates=[{"name": "example.com/gate"}]))
    _, answer = await ask("PATCH", f"{BASE}/pods/p", {"spec": {"schedulingGates": None}}, STRATEGIC)
    assert "resize" not in answer["status"]
