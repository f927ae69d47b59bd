"""The official Python client, against `podfit up`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kubernetes import client, config, watch

from tests.e2e.conftest import Running, eventually

POD = {
    "metadata": {"name": "official", "labels": {"app": "official"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "c",
                "image": "host",
                "command": ["sh", "-c", "while true; do sleep 1; done"],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "16Mi"},
                    "limits": {"cpu": "100m", "memory": "32Mi"},
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def api(up: Running) -> Iterator[client.ApiClient]:
    made = config.new_client_from_config(config_file=str(up.kubeconfig))
    eventually(
        lambda: client.CoreV1Api(made).list_namespaced_service_account("default").items, "the service account exists"
    )
    yield made
    made.close()


@pytest.fixture
def pod(api: client.ApiClient) -> Iterator[str]:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod("default", POD)
    eventually(lambda: core.read_namespaced_pod("official", "default").status.phase == "Running", "the pod runs")
    yield "official"
    core.delete_namespaced_pod("official", "default", grace_period_seconds=0)
    eventually(
        lambda: not core.list_namespaced_pod("default", field_selector="metadata.name=official").items, "it is gone"
    )


def test_a_pod_is_resized_through_the_typed_method(api: client.ApiClient, pod: str) -> None:
    core = client.CoreV1Api(api)
    resources = {"limits": {"cpu": "150m", "memory": "48Mi"}}
    patch = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    answer = core.patch_namespaced_pod_resize(pod, "default", patch)
    assert answer.spec.containers[0].resources.limits == {"cpu": "150m", "memory": "48Mi"}

    def actual() -> bool:
        status = core.read_namespaced_pod(pod, "default").status.container_statuses[0]
        return bool(status.resources.limits == {"cpu": "150m", "memory": "48Mi"} and status.restart_count == 0)

    eventually(actual, "the status shows the new limits")


def test_a_watch_sees_a_change(api: client.ApiClient, pod: str) -> None:
    core = client.CoreV1Api(api)
    revision = core.list_namespaced_pod("default").metadata.resource_version
    core.patch_namespaced_pod(pod, "default", {"metadata": {"annotations": {"seen": "yes"}}})
    for event in watch.Watch().stream(
        core.list_namespaced_pod,
        "default",
        resource_version=revision,
        timeout_seconds=20,
        label_selector="app=official",
    ):
        if (event["object"].metadata.annotations or {}).get("seen") == "yes":
            assert event["type"] == "MODIFIED"
            return
    raise AssertionError("the change was not watched")


def test_errors_carry_the_status_of_kubernetes(api: client.ApiClient, pod: str) -> None:
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(api).patch_namespaced_pod_resize(pod, "default", patch)
    status = json.loads(refused.value.body)
    assert (status["code"], status["reason"]) == (422, "Invalid")


def test_a_custom_resource_is_served_after_its_definition(api: client.ApiClient) -> None:
    extensions, custom = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    extensions.create_custom_resource_definition(
        {
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": names,
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            },
        }
    )

    def established() -> bool:
        found = extensions.read_custom_resource_definition("gadgets.example.com").status
        return any(item.type == "Established" and item.status == "True" for item in (found.conditions or []))

    eventually(established, "the definition is established")
    place = ("example.com", "v1", "default", "gadgets")
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 3}}
    assert custom.create_namespaced_custom_object(*place, body)["spec"] == {"size": 3}
    with pytest.raises(client.ApiException) as refused:
        custom.patch_namespaced_custom_object(*place, "g", {"spec": {"size": "three"}})
    assert refused.value.status == 422
    extensions.delete_custom_resource_definition("gadgets.example.com")
