"""Invalid configurations applied to pods are rejected as Kubernetes 1.36 rejects them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        asker = Asker(server)
        await asker("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        spec = {"schedulerName": "none", "containers": [{"name": "a", "image": "i"}]}
        assert (await asker("POST", PODS, {"metadata": {"name": "r"}, "spec": spec}))[0] == 201
        yield asker


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r"}, "spec": {"containers": list(containers)}}


async def apply(ask: Asker, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    return await ask("PATCH", path, body, APPLY, fieldManager="me", force="true", fieldValidation="Strict")


async def test_a_container_without_a_name_applied_to_resize_is_refused_with_field_errors(ask: Asker) -> None:
    code, status = await apply(ask, f"{PODS}/r/resize", pod({"image": "j"}))
    assert (code, status["reason"]) == (422, "Invalid")
    assert "spec.containers[1].name" in {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize("path", ["/r", "/r/resize", "/r/status", "/r/ephemeralcontainers"])
async def test_a_malformed_quantity_cannot_be_converted(ask: Asker, path: str) -> None:
    wanted = pod({"name": "a", "image": "i", "resources": {"requests": {"cpu": "abc"}}})
    code, status = await apply(ask, PODS + path, wanted)
    assert (code, status["message"]) == (
        500,
        "failed to convert new object (/r; /v1, Kind=Pod) to proper version: "
        f"unable to convert unstructured object to /v1, Kind=Pod: {MALFORMED}",
    )


async def test_replicas_of_a_scale_that_are_no_integer_cannot_be_converted(ask: Asker) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    assert (await ask("POST", deployments, {"metadata": {"name": "d"}, "spec": spec}))[0] == 201
    wanted = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 1.5}}
    code, status = await apply(ask, f"{deployments}/d/scale", wanted)
    assert (code, status["message"]) == (
        500,
        "failed to convert new object (/d; autoscaling/v1, Kind=Scale) to proper version: "
        "unable to convert unstructured object to autoscaling/v1, Kind=Scale: cannot convert float64 to int32",
    )


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"ports": [{"containerPort": "80"}]}, "unrecognized type: int32"),
        ({"stdin": "yes"}, "unrecognized type: bool"),
        ({"image": 5.5}, "unrecognized type: string"),
        ({"image": 5}, "cannot convert int64 to string"),
        ({"ports": [{"containerPort": 1.5}]}, "cannot convert float64 to int32"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_strategic_patch_of_the_wrong_type_says_what_go_cannot_convert(
    ask: Asker, container: dict[str, Any], why: str
) -> None:
    patch = {"spec": {"containers": [{"name": "a", **container}]}}
    code, status = await ask("PATCH", f"{PODS}/r/resize", patch, STRATEGIC)
    assert code == 422
    assert status["message"].endswith(f": {why}")


async def test_a_number_or_string_of_another_type_names_the_field_it_was_read_for(ask: Asker) -> None:
    spec = {"containers": [{"name": "a", "image": "i", "livenessProbe": {"tcpSocket": {"port": True}}}]}
    code, status = await ask("POST", PODS, {"metadata": {"name": "q"}, "spec": spec})
    assert code == 400
    assert "cannot unmarshal bool into Go struct field TCPSocketAction.spec.containers." in status["message"]


async def test_a_quantity_may_have_spaces_around_it(ask: Asker) -> None:
    spec = {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": " 1 "}}}]}
    _, made = await ask("POST", PODS, {"metadata": {"name": "q"}, "spec": spec})
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


async def test_a_condition_of_the_status_without_a_type_names_its_place_in_the_status(ask: Asker) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "r"},
        "status": {"conditions": [{"status": "True"}]},
    }
    code, status = await apply(ask, f"{PODS}/r/status", body)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "status.conditions[0].Type")


@pytest.mark.parametrize("path", ["/none/resize", "/none/status", "/none/ephemeralcontainers"])
async def test_an_absent_pod_is_reported_before_the_configuration_is_read(ask: Asker, path: str) -> None:
    assert (await apply(ask, PODS + path, {}))[0] == 404
    assert (await apply(ask, f"{PODS}/none", {}))[0] == 400, "the main endpoint would create it"


@pytest.mark.parametrize("entries", [[], [{}]])
async def test_an_empty_list_of_managed_fields_resets_them(ask: Asker, entries: list[Any]) -> None:
    code, made = await ask("PATCH", f"{PODS}/r", {"metadata": {"managedFields": entries}}, MERGE)
    assert code == 200 and "managedFields" not in made["metadata"]


async def test_an_empty_list_of_managed_fields_sent_to_a_subresource_changes_nothing(ask: Asker) -> None:
    body = {"metadata": {"managedFields": []}, "status": {"message": "m"}}
    code, made = await ask("PATCH", f"{PODS}/r/status", body, MERGE)
    assert code == 200 and len(made["metadata"]["managedFields"]) == 2
