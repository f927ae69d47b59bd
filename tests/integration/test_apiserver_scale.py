"""The scale subresource: who owns the replicas, server-side apply, and what admission sees."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import workload
from tests.support.servers.hooks import HookServer

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN

SETS = "/apis/apps/v1/namespaces/default/deployments"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


class Scaler(Asker):
    async def apply(self, replicas: int, manager: str, force: str = "false") -> tuple[int, Any]:
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
        body = {**scale, "spec": {"replicas": replicas}}
        return await self("PATCH", f"{SETS}/web/scale", body, APPLY, fieldManager=manager, force=force)

    async def owners(self) -> dict[tuple[str, str, str], Object]:
        """Owned fields by (manager, operation, subresource)."""
        _, obj = await self("GET", f"{SETS}/web")
        return {
            (row["manager"], row["operation"], row.get("subresource", "")): row
            for row in obj["metadata"]["managedFields"]
        }


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Scaler]:
    async with serving(tmp_path / "server") as server:
        asker = Scaler(server)
        code, reported = await asker("POST", SETS, workload("Deployment", "web", 2), fieldManager="maker")
        assert code == 201, reported
        yield asker


async def test_scaling_moves_ownership_of_replicas_only(ask: Scaler) -> None:
    await ask("PATCH", f"{SETS}/web/scale", {"spec": {"replicas": 5}}, MERGE, fieldManager="scaler")
    owners = await ask.owners()
    mine = owners["scaler", "Update", "scale"]
    assert (mine["fieldsV1"], mine["apiVersion"]) == (REPLICAS, "apps/v1")
    assert "time" not in mine
    spec = owners["maker", "Update", ""]["fieldsV1"]["f:spec"]
    assert "f:replicas" not in spec
    assert "f:template" in spec


async def test_an_applied_scale_that_changes_what_others_own_is_a_conflict(ask: Scaler) -> None:
    code, reported = await ask.apply(7, "boss")
    assert (code, reported["reason"]) == (409, "Conflict")
    why = 'Apply failed with 1 conflict: conflict with "maker" using autoscaling/v1: .spec.replicas'
    assert reported["message"] == why
    code, scale = await ask.apply(7, "boss", force="true")
    assert (code, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 7})
    owners = await ask.owners()
    assert owners["boss", "Apply", "scale"]["fieldsV1"] == REPLICAS
    assert "f:replicas" not in owners["maker", "Update", ""]["fieldsV1"]["f:spec"]
    assert (await ask("GET", f"{SETS}/web"))[1]["spec"]["replicas"] == 7


async def test_an_applied_scale_that_agrees_shares_the_replicas(ask: Scaler) -> None:
    assert (await ask.apply(2, "second"))[0] == 200
    owners = await ask.owners()
    assert owners["second", "Apply", "scale"]["fieldsV1"] == REPLICAS
    assert "f:replicas" in owners["maker", "Update", ""]["fieldsV1"]["f:spec"]


async def test_a_scale_is_applied_to_what_exists_and_as_what_it_is(ask: Scaler) -> None:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    code, reported = await ask("PATCH", f"{SETS}/web/scale", body, APPLY, fieldManager="m")
    assert (code, reported["message"]) == (400, "invalid object type: apps/v1, Kind=Deployment")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "no"}, "spec": {"replicas": 1}}
    code, reported = await ask("PATCH", f"{SETS}/no/scale", scale, APPLY, fieldManager="m")
    assert (code, reported["message"]) == (404, 'deployments.apps "no" not found')
    code, reported = await ask("PATCH", f"{SETS}/web/scale", {**scale, "metadata": {"name": "web"}}, APPLY)
    assert code == 422
    assert "fieldManager: Required value: is required for apply patch" in reported["message"]


async def test_admission_sees_a_scale_and_may_change_it(ask: Scaler, tmp_path: Path) -> None:
    rules = [
        {"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}
    ]
    patch = base64.b64encode(b'[{"op": "replace", "path": "/spec/replicas", "value": 3}]').decode()
    async with HookServer(tmp_path / "hooks") as hooks:
        hooks.answers["h"] = lambda asked: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
        kind = "MutatingWebhookConfiguration"
        path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
        code, reported = await ask("POST", path, hooks.configuration(kind, "h", rules))
        assert code == 201, reported
        code, scale = await ask("PATCH", f"{SETS}/web/scale", {"spec": {"replicas": 9}}, MERGE)
        assert (code, scale["spec"]) == (200, {"replicas": 3})
        ((_, asked),) = hooks.asked
    assert asked["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert asked["resource"] == {"group": "apps", "version": "v1", "resource": "deployments"}
    assert (asked["object"]["kind"], asked["object"]["spec"]) == ("Scale", {"replicas": 9})
    assert asked["oldObject"]["spec"] == {"replicas": 2}
    assert (await ask("GET", f"{SETS}/web"))[1]["spec"]["replicas"] == 3


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HERDS = "/apis/example.com/v1/namespaces/default/herds"


async def define_herds(ask: Asker) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
    }
    names = {"kind": "Herd", "plural": "herds"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    code, answer = await ask("POST", DEFINITIONS, {"metadata": {"name": "herds.example.com"}, "spec": spec})
    assert code == 201, answer
    client = local_client(ask.server, ADMIN, "test")
    await becomes(client, kind_named("CustomResourceDefinition"), "", "herds.example.com", established)


def established(definition: Object | None) -> bool:
    conditions = ((definition or {}).get("status") or {}).get("conditions") or []
    return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]


async def test_the_scale_of_a_custom_resource_is_refused_by_its_own_validation(ask: Scaler) -> None:
    await define_herds(ask)
    herd = {"apiVersion": "example.com/v1", "kind": "Herd", "metadata": {"name": "h"}, "spec": {"size": 2}}
    assert (await ask("POST", HERDS, herd))[0] == 201
    code, status = await ask("PATCH", f"{HERDS}/h/scale", {"spec": {"replicas": -1}}, MERGE)
    assert (code, status["message"]) == (
        422,
        'Herd.example.com "h" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer',
    )


async def test_a_custom_resource_that_names_no_replicas_has_no_scale(ask: Scaler) -> None:
    await define_herds(ask)
    herd = {"apiVersion": "example.com/v1", "kind": "Herd", "metadata": {"name": "h"}, "spec": {}}
    assert (await ask("POST", HERDS, herd))[0] == 201
    code, status = await ask("GET", f"{HERDS}/h/scale")
    assert (code, status["message"]) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.size" does not exist',
    )
