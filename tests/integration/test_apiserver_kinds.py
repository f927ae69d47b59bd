"""Built-in kinds that the API server itself acts on: flow schemas, service ranges, component statuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
MERGE = "application/merge-patch+json"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


async def until(ask: Asker, path: str, wanted: Callable[[Any], bool]) -> None:
    """The hub delivers changes to the component that acts on them; it needs a few iterations of the event loop."""
    async with asyncio.timeout(60):
        while not wanted((await ask("GET", path))[1]):
            await asyncio.sleep(0)


def dangling(schema: dict[str, Any]) -> tuple[str, str]:
    row = schema["status"]["conditions"][0]
    return row["status"], row["reason"]


async def test_a_flow_schema_says_whether_its_priority_level_exists(ask: Asker) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"priorityLevelConfiguration": {"name": "mine"}}}
    code, created = await ask("POST", f"{FLOWS}/flowschemas", body)
    assert code == 201 and created["status"] == {}
    assert dangling((await ask("GET", f"{FLOWS}/flowschemas/a"))[1]) == ("True", "NotFound")
    level = {
        "metadata": {"name": "mine"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    assert (await ask("POST", f"{FLOWS}/prioritylevelconfigurations", level))[0] == 201
    await until(ask, f"{FLOWS}/flowschemas/a", lambda schema: dangling(schema) == ("False", "Found"))


async def test_every_cluster_has_the_flow_objects_of_kubernetes_and_mandatory_ones_come_back(ask: Asker) -> None:
    _, schemas = await ask("GET", f"{FLOWS}/flowschemas")
    _, levels = await ask("GET", f"{FLOWS}/prioritylevelconfigurations")
    assert (len(schemas["items"]), len(levels["items"])) == (11, 8)
    assert {dangling(schema) for schema in schemas["items"]} == {("False", "Found")}
    old = (await ask("GET", f"{FLOWS}/prioritylevelconfigurations/catch-all"))[1]["metadata"]["uid"]
    assert (await ask("DELETE", f"{FLOWS}/prioritylevelconfigurations/catch-all"))[0] == 200
    again = f"{FLOWS}/prioritylevelconfigurations/catch-all"
    await until(ask, again, lambda level: level.get("metadata", {}).get("uid", old) != old)


async def test_the_range_of_services_and_the_slice_of_the_server_are_objects(ask: Asker) -> None:
    _, found = await ask("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
    assert found["spec"] == {"cidrs": ["10.96.0.0/16"]}
    assert found["status"]["conditions"][0]["type"] == "Ready"
    _, own = await ask("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
    assert own["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert own["endpoints"][0]["conditions"] == {"ready": True}


async def test_the_store_is_the_only_component_with_a_status(ask: Asker) -> None:
    code, found = await ask("GET", "/api/v1/componentstatuses")
    assert code == 200 and [row["metadata"]["name"] for row in found["items"]] == ["etcd-0"]
    assert (await ask("GET", "/api/v1/componentstatuses/etcd-0"))[1]["conditions"][0]["status"] == "True"
    assert (await ask("GET", "/api/v1/componentstatuses/other"))[0] == 404
    assert (await ask("DELETE", "/api/v1/componentstatuses/etcd-0"))[0] == 405


async def test_an_empty_list_that_go_always_prints_is_null_once_it_is_stored(ask: Asker) -> None:
    path, body = "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "empty"}, "rules": []}
    code, made = await ask("POST", path, body)
    assert code == 201 and made["rules"] is None
    assert (await ask("GET", f"{path}/empty"))[1]["rules"] is None


async def test_a_volume_says_since_when_it_is_in_its_phase(ask: Asker) -> None:
    source = {"hostPath": {"path": "/x"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    _, made = await ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec})
    since = made["metadata"]["creationTimestamp"]
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": since}
    volume, said = "/api/v1/persistentvolumes/v/status", "2001-02-03T04:05:06Z"

    async def change(**status: str | None) -> str:
        code, changed = await ask("PATCH", volume, {"status": status}, MERGE)
        assert code == 200
        return str(changed["status"]["lastPhaseTransitionTime"])

    assert await change(message="x") == since
    assert await change(lastPhaseTransitionTime=None) == since
    assert await change(phase="Bound", lastPhaseTransitionTime=said) == said
    assert await change(phase="Released") not in (said, "")


async def test_a_dry_run_answers_what_would_be_stored(ask: Asker) -> None:
    """Empty lists without omitempty are null in the store of Kubernetes, and in the response."""
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    body = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [], "ports": []}
    _, dry = await ask("POST", path, body, dryRun="All")
    _, stored = await ask("POST", path, body)
    assert dry["endpoints"] is stored["endpoints"] is None
    assert dry["ports"] is stored["ports"] is None
    _, dry = await ask("PUT", f"{path}/a", body, dryRun="All")
    assert dry["endpoints"] is None


async def test_a_revision_in_a_new_object_is_refused_by_the_store_alone(ask: Asker) -> None:
    path, body = "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a", "resourceVersion": "5"}}
    code, status = await ask("POST", path, body)
    assert (code, status["message"]) == (500, "resourceVersion should not be set on objects to be created")
    assert (await ask("POST", path, body, dryRun="All"))[0] == 201
    assert (await ask("POST", path, {"metadata": {"name": "A_", "resourceVersion": "5"}}))[0] == 422
    for at, none in enumerate(("0", "abc", "-1")):
        code, made = await ask("POST", path, {"metadata": {"name": f"n{at}", "resourceVersion": none}})
        assert code == 201 and made["metadata"]["resourceVersion"] != none


async def test_a_dry_run_that_would_make_an_object_repeats_the_revision_it_states(ask: Asker) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    body = {"metadata": {"name": "a", "resourceVersion": "5"}}
    for method, where in (("POST", path), ("PUT", f"{path}/a")):
        code, dry = await ask(method, where, body, dryRun="All")
        assert (code, dry["metadata"]["resourceVersion"]) == (201, "5")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"name": 1}, "(/; /v1, Kind=ConfigMap): .metadata.name: expected string"),
        ({"name": "a", "namespace": ["b"]}, "(/a; /v1, Kind=ConfigMap): .metadata.namespace: expected string"),
    ],
)
async def test_a_name_that_is_not_text_is_left_out_of_the_refusal(
    ask: Asker, metadata: dict[str, Any], words: str
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    media = "application/apply-patch+yaml"
    code, status = await ask("PATCH", "/api/v1/namespaces/default/configmaps/a", body, media, fieldManager="m")
    assert code == 500 and f"failed to create typed patch object {words}" in status["message"]


_MANY = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "60Mi"}}},
    {
        "type": "External",
        "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "3"}},
    },
    {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "10"}}},
]
_CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "app",
        "target": {"type": "Utilization", "averageUtilization": 60},
    },
}


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [
        (_MANY, "memory: <unknown>/60Mi, <unknown>/3 (avg) + 1 more..."),
        (_MANY[2:], "<unknown>/10"),
        ([_CONTAINER], "cpu: <unknown>/60%"),
    ],
)
async def test_targets_of_an_autoscaler_are_shown_for_every_type_of_metric(
    ask: Asker, metrics: list[dict[str, Any]], shown: str
) -> None:
    group, plural = "/apis/autoscaling", "namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    body = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5, "metrics": metrics}}
    assert (await ask("POST", f"{group}/v2/{plural}", body))[0] == 201
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    for version in ("v1", "v2"):
        _, table = await ask("GET", f"{group}/{version}/{plural}", accept=accept)
        assert table["rows"][0]["cells"][2] == shown


async def test_a_replication_controller_orphans_its_pods_by_default(ask: Asker) -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await ask("POST", path, {"metadata": {"name": "a"}, "spec": {"template": template}}))[0] == 201
    _, going = await ask("DELETE", f"{path}/a")
    assert going["metadata"]["finalizers"] == ["orphan"]


async def test_integers_of_a_strategic_patch_are_cut_to_their_size(ask: Asker) -> None:
    path = "/api/v1/namespaces/default/pods"
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}
    pod = {"metadata": {"name": "a"}, "spec": spec}
    account = {"metadata": {"name": "default"}}
    assert (await ask("POST", "/api/v1/namespaces/default/serviceaccounts", account))[0] == 201
    assert (await ask("POST", path, pod))[0] == 201
    row = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 99_999_999_999}
    patch = {"status": {"containerStatuses": [row]}}
    code, patched = await ask("PATCH", f"{path}/a/status", patch, "application/strategic-merge-patch+json")
    assert (code, patched["status"]["containerStatuses"][0]["restartCount"]) == (200, 1_215_752_191)
