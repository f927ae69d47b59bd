"""Pod Security on a server: the effects of a namespace's labels on clients, warnings in headers included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.cluster.asking import serving

from podfit.apiserver.app import ApiServer
from podfit.apiserver.request import ADMIN, Request

PODS = "/api/v1/namespaces/ns/pods"
HARD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
MISSING = (
    'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)


async def send(server: ApiServer, method: str, path: str, body: Any) -> tuple[int, Any, list[str]]:
    """The status, the response, and the texts of its warnings."""
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await server.handle(Request(method, path, {}, {"content-type": media}, json.dumps(body).encode(), ADMIN))
    quoted = [value.removeprefix('299 - "')[:-1] for name, value in answer.headers if name == "Warning"]
    return answer.status, json.loads(answer.body), [text.replace('\\"', '"') for text in quoted]


def named(name: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {f"pod-security.kubernetes.io/{key}": at for key, at in labels.items()}}
    }


def pod(name: str, **context: Any) -> dict[str, Any]:
    rows = [{"name": "a", "image": "i", "securityContext": context}]
    return {"metadata": {"name": name}, "spec": {"containers": rows}}


async def test_a_namespace_is_restricted_step_by_step(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        code, made, _ = await send(server, "POST", "/api/v1/namespaces", named("ns", warn="restricted"))
        assert code == 201, made
        await send(server, "POST", "/api/v1/namespaces/ns/serviceaccounts", named("default"))

        code, _, warnings = await send(server, "POST", PODS, pod("soft"))
        assert (code, warnings) == (201, [f'would violate PodSecurity "restricted:latest": {MISSING}'])

        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        deployment = {**named("d"), "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
        code, _, warnings = await send(server, "POST", "/apis/apps/v1/namespaces/ns/deployments", deployment)
        assert (code, warnings) == (201, [f'would violate PodSecurity "restricted:latest": {MISSING}'])

        code, answer, _ = await send(server, "PATCH", "/api/v1/namespaces/ns", named("ns", enforce="strict"))
        assert (code, answer["reason"]) == (422, "Invalid")

        code, _, warnings = await send(server, "PATCH", "/api/v1/namespaces/ns", named("ns", enforce="restricted"))
        assert (code, warnings) == (
            200,
            [
                'existing pods in namespace "ns" violate the new PodSecurity enforce level "restricted:latest"',
                "soft: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, "
                "seccompProfile",
            ],
        )

        code, answer, warnings = await send(server, "POST", PODS, pod("other"))
        assert (code, answer["details"], warnings) == (403, {"name": "other", "kind": "pods"}, [])
        assert answer["message"] == f'pods "other" is forbidden: violates PodSecurity "restricted:latest": {MISSING}'

        code, _, warnings = await send(server, "POST", PODS, pod("hard", **HARD))
        assert (code, warnings) == (201, [])

        # Existing pods do not change: only new images are checked.
        code, _, _ = await send(server, "PATCH", f"{PODS}/soft", {"metadata": {"labels": {"x": "y"}}})
        assert code == 200
        debugger = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
        code, answer, _ = await send(server, "PATCH", f"{PODS}/hard/ephemeralcontainers", debugger)
        assert code == 403 and 'container "e" must set' in answer["message"]
