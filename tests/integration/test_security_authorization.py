"""Authorization checks exactly what is served: paths, namespaces, names and selectors are parsed once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from tests.support.cluster.asking import Asker, serving

from podfit.apiserver.request import ANONYMOUS, Request, Response, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRETS = "/api/v1/namespaces/mine/secrets"
JANE = User("jane", ("system:authenticated",))
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
MARK = "do not show this"


async def grant(ask: Asker, name: str, rules: list[Any], namespace: str = "mine", who: str = JANE.name) -> None:
    """Gives a user permissions in a namespace, and waits until they are in force."""
    group = "rbac.authorization.k8s.io"
    role = {"metadata": {"name": name}, "rules": rules}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": who}],
    }
    for plural, body in (("roles", role), ("rolebindings", binding)):
        status, made = await ask("POST", f"{RBAC}/namespaces/{namespace}/{plural}", body)
        assert status == 201, made
    await settled(ask)


async def settled(ask: Asker) -> None:
    """Waits until everything written is in force."""
    while ask.server.hub.seen < ask.server.config.store.revision:
        await asyncio.sleep(0)


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    """Secrets in the namespaces `mine` and `other`."""
    async with serving(tmp_path) as server:
        one = Asker(server)
        for namespace in ("mine", "other"):
            await one("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            for name in ("allowed", "hidden"):
                body = {"metadata": {"name": name, "annotations": {"is": MARK if name == "hidden" else ""}}}
                status, _ = await one("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
                assert status == 201
        yield one


# --- namespaces -----------------------------------------------------------------------------------------------------


async def test_nothing_of_the_whole_cluster_is_reached_through_a_namespace(ask: Asker) -> None:
    """CVE-2019-11247, for every kind: Jane has all permissions in her namespace."""
    await grant(ask, "all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    kinds = [kind for kind in ask.server.registry if not kind.namespaced]
    assert len(kinds) > 10
    for kind in kinds:
        root = f"/apis/{kind.group}" if kind.group else "/api"
        base = f"{root}/{kind.version}/namespaces/mine/{kind.plural}"
        asked = [
            ("GET", base),
            ("POST", base),
            ("DELETE", base),
            ("GET", base.replace("/namespaces", "/watch/namespaces")),
        ]
        asked += [(method, f"{base}/x") for method in ("GET", "PUT", "PATCH", "DELETE")]
        asked += [("PUT", f"{base}/x/{sub.name}") for sub in kind.subresources]
        for method, path in asked:
            status, reported = await ask(method, path, {"metadata": {"name": "x"}}, user=JANE)
            assert status in (403, 404, 405), (method, path, reported)
    assert (await ask("GET", "/api/v1/namespaces/mine", user=JANE))[0] == 200


async def test_a_custom_resource_of_the_cluster_is_not_found_in_a_namespace(ask: Asker) -> None:
    """CVE-2019-11247."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    assert (await ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition))[0] == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    async with asyncio.timeout(30):
        while (await ask("POST", "/apis/example.com/v1/things", thing))[0] != 201:
            await asyncio.sleep(0)
    await grant(ask, "all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    for path in ("things", "things/t"):
        assert (await ask("GET", f"/apis/example.com/v1/namespaces/mine/{path}", user=JANE))[0] == 404
    assert (await ask("DELETE", "/apis/example.com/v1/namespaces/mine/things/t", user=JANE))[0] == 404
    assert (await ask("GET", "/apis/example.com/v1/things/t"))[0] == 200


async def test_an_object_goes_to_the_namespace_that_was_authorized(ask: Asker) -> None:
    await grant(ask, "all", [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}])
    body = {"metadata": {"name": "smuggled", "namespace": "other"}}
    assert (await ask("POST", SECRETS, body, user=JANE))[0] == 400
    patch = {"metadata": {"namespace": "other"}}
    assert (await ask("PATCH", f"{SECRETS}/allowed", patch, "application/merge-patch+json", user=JANE))[0] == 400
    assert (await ask("GET", "/api/v1/namespaces/other/secrets/smuggled"))[0] == 404


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "a%2Fb", "../../other/secrets/hidden"])
async def test_a_name_is_no_way_out_of_a_namespace(ask: Asker, name: str) -> None:
    """CVE-2022-3162."""
    await grant(ask, "all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
    status, reported = await ask("GET", f"{SECRETS}/{name}", user=JANE)
    assert status in (400, 403, 404) and MARK not in str(reported)


# --- selectors ------------------------------------------------------------------------------------------------------

ONE = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"], "resourceNames": ["allowed"]}]


@pytest.mark.parametrize(
    "selector",
    [
        r"type!=x\,metadata.name=allowed",
        r"type!=x\\\,metadata.name=allowed",
        "metadata.name!=x,metadata.name=allowed",
        "metadata.name==allowed",
        "metadata.name=hidden,metadata.name=allowed",
        "metadata.name=allowed\\",
        "type!=x",
    ],
)
async def test_no_selector_shows_more_than_the_object_it_was_authorized_for(ask: Asker, selector: str) -> None:
    await grant(ask, "one", ONE)
    status, reported = await ask("GET", SECRETS, user=JANE, fieldSelector=selector)
    assert status in (200, 400, 403) and MARK not in str(reported)
    assert (await ask("GET", SECRETS, user=JANE, fieldSelector="metadata.name=allowed"))[0] == 200


@pytest.mark.parametrize("selector", ["type!=x\\", "metadata.name!=x", "type!=x", "metadata.name=hidden"])
async def test_a_watch_of_one_object_shows_no_other(ask: Asker, selector: str) -> None:
    await grant(ask, "one", ONE)
    query = {"watch": ["true"], "fieldSelector": [selector], "timeoutSeconds": ["1"]}
    request = Request("GET", f"{SECRETS}/allowed", query, {}, b"", JANE)
    answer = await ask.server.handle(request)
    reported = answer.body + b"".join([piece async for piece in answer.stream] if answer.stream is not None else [])
    assert MARK.encode() not in reported


@pytest.mark.parametrize(
    ("selector", "status"),
    [
        ("spec.nodeName=n1", 200),
        ("spec.nodeName==n1,status.phase!=Failed", 200),
        (r"spec.nodeName!=x\,spec.nodeName=n1", 403),
        (r"metadata.name!=x\,spec.nodeName=n1", 403),
        ("spec.nodeName=n2", 403),
        ("spec.nodeName!=n1", 403),
    ],
)
async def test_a_node_lists_the_pods_bound_to_it_and_no_others(ask: Asker, selector: str, status: int) -> None:
    assert (await ask("GET", "/api/v1/pods", user=NODE, fieldSelector=selector))[0] == status


async def test_read_access_to_nodes_does_not_allow_commands_through_them(ask: Asker) -> None:
    """A WebSocket opens with GET."""
    group, name = "rbac.authorization.k8s.io", {"metadata": {"name": "look"}}
    rules = [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "look"}
    who = {"apiGroup": group, "kind": "User", "name": JANE.name}
    await ask("POST", f"{RBAC}/clusterroles", {**name, "rules": rules})
    await ask("POST", f"{RBAC}/clusterrolebindings", {**name, "roleRef": role, "subjects": [who]})
    await settled(ask)
    path = "/api/v1/nodes/n/proxy/exec/default/p/c"
    assert (await ask("GET", path, user=JANE))[0] == 404
    headers = {"connection": "Upgrade", "upgrade": "websocket"}
    answer = await ask.server.handle(Request("GET", path, {"command": ["id"]}, headers, b"", JANE))
    assert answer.status == 403


# --- paths ----------------------------------------------------------------------------------------------------------

WORDS = (
    *("api", "apis", "v1", "v1beta1", "namespaces", "mine", "other", "secrets", "hidden", "allowed", "configmaps"),
    *("nodes", "pods", "watch", "proxy", "status", "metrics", "metrics.k8s.io", "healthz", "readyz", "openapi", "v3"),
    *("", ".", "..", "%2e%2e", "%2f", "%252e", "%00", "*", "a b", ";", "?", "#", "\\", "SECRETS", "Secrets"),
)
SHAPES = (
    "/api/v1/namespaces/other/secrets/hidden",
    "/api/v1/namespaces/other/secrets",
    "/api/v1/secrets",
    "/api/v1/watch/namespaces/other/secrets",
    "/metrics",
    "/apis/metrics.k8s.io/v1beta1/namespaces/other/pods",
    "/apis/metrics.k8s.io/v1beta1/nodes",
)


def spelled(random: random.Random) -> str:
    """A hidden path in another spelling."""
    words = random.choice(SHAPES)[1:].split("/")
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(words) + 1)
        match random.randrange(5):
            case 0:
                words.insert(at, random.choice(WORDS))
            case 1 if at < len(words):
                words[at] = random.choice(WORDS)
            case 2:
                words[at:at] = [random.choice(WORDS), ".."]
            case 3 if at < len(words) and words[at]:
                words[at] = "".join(f"%{ord(letter):02x}" for letter in words[at])
            case 4:
                words[0:at] = [quote("/".join(words[0:at]), safe="")]
    return "/" + "/".join(words)


@pytest.mark.parametrize("user", [JANE, ANONYMOUS])
async def test_no_spelling_of_a_path_leads_past_authorization(ask: Asker, user: User) -> None:
    """Jane may read ConfigMaps in one namespace; 4,000 paths show nothing else to her, and nothing to anonymous
    clients.
    """

    async def usage(request: Request) -> Response:
        found = {"resources": []} if request.path == "/apis/metrics.k8s.io/v1beta1" else {"used": MARK}
        return Response(200, json.dumps(found).encode())

    ask.server.register_local_group("metrics.k8s.io/v1beta1", usage)
    await grant(ask, "maps", [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}])
    chance = random.Random(11)
    for _ in range(4000):
        path = unquote(spelled(chance).partition("?")[0])
        answer = await ask.server.handle(Request("GET", path, {"timeoutSeconds": ["1"]}, {}, b"", user))
        reported = answer.body
        if answer.stream is not None:
            assert path.startswith("/api/v1/") and "configmaps" in path, path
        assert answer.status < 500, path
        assert MARK.encode() not in reported and b"apiserver_request_total" not in reported, path


async def test_anonymous_clients_see_health_and_version_and_nothing_else(ask: Asker) -> None:
    open_paths = {path for path in ask.server.core.paths.listed() if (await ask("GET", path, user=ANONYMOUS))[0] != 403}
    assert open_paths == {"/healthz", "/livez", "/readyz", "/version"}
