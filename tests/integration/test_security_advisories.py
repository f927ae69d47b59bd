"""Kubernetes' security advisories with a counterpart in podfit, tested on a running server or node.

Those about proxies, redirects and addresses are in `test_security_proxies`, those about authorization in
`test_security_authorization`; docs/security.md lists all of them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.cluster.asking import Asker, serving
from tests.support.cluster.expect import becomes
from tests.support.cluster.nodes import Cluster
from tests.support.cluster.whole import Whole, pod_spec
from tests.support.servers.elsewhere import Elsewhere
from tests.support.servers.hooks import HookServer

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.auth.certs.certificates import new_authority
from podfit.apiserver.request import Request, User
from podfit.client.kubeconfig import Access
from podfit.client.rest import Client
from podfit.client.transport import Unreachable

PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


# --- admission ------------------------------------------------------------------------------------------------------

ENV_FROM = {"envFrom": [{"secretRef": {"name": "other"}}]}
ENV = {"env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]}


async def strict_account(ask: Asker) -> None:
    """The namespace's account may mount the secret `own` only."""
    meta = {"name": "default", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    assert (await ask("POST", ACCOUNTS, {"metadata": meta, "secrets": [{"name": "own"}]}))[0] == 201


def pod_with(container: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", **container}], **spec}}


@pytest.mark.parametrize(
    "pod",
    [
        pod_with(ENV_FROM),
        pod_with(ENV),
        pod_with({}, initContainers=[{"name": "i", "image": "i", **ENV_FROM}]),
        pod_with({}, volumes=[{"name": "v", "secret": {"secretName": "other"}}]),
        pod_with({}, volumes=[{"name": "v", "projected": {"sources": [{"secret": {"name": "other"}}]}}]),
    ],
)
async def test_a_pod_uses_no_secret_that_its_account_does_not_list(ask: Asker, pod: Object) -> None:
    """CVE-2024-3177."""
    await strict_account(ask)
    status, reported = await ask("POST", PODS, pod)
    assert status == 403 and "does not reference that secret" in reported["message"]


@pytest.mark.parametrize("source", [ENV_FROM, ENV])
async def test_an_ephemeral_container_uses_no_secret_that_its_account_does_not_list(ask: Asker, source: Object) -> None:
    """CVE-2023-2728."""
    await strict_account(ask)
    assert (await ask("POST", PODS, pod_with({})))[0] == 201
    patch = {"spec": {"ephemeralContainers": [{"name": "e", "image": "i", **source}]}}
    media = "application/strategic-merge-patch+json"
    status, reported = await ask("PATCH", f"{PODS}/p/ephemeralcontainers", patch, media)
    assert status == 403 and "ephemeral container e" in reported["message"]


async def test_a_hook_sees_a_node_before_and_after_a_change_as_a_whole(tmp_path: Path) -> None:
    """CVE-2021-25735."""
    async with HookServer(tmp_path / "hooks") as hooks, Whole(tmp_path / "data", nodes=0) as whole:
        labels = {"zone": "a", "kept": "yes"}
        await whole.client.create(
            NODE, {"metadata": {"name": "n", "labels": labels}, "spec": {"podCIDR": "10.1.0.0/24"}}
        )
        rules = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}]
        kind = "ValidatingWebhookConfiguration"
        await whole.client.create(kind_named(kind), hooks.configuration(kind, "h", rules))
        hooks.answers["h"] = lambda asked: {
            "allowed": asked["oldObject"]["metadata"]["labels"] != labels
            or asked["object"]["metadata"]["labels"]["zone"] == "a"
        }
        async with asyncio.timeout(30):
            while not hooks.asked:
                await whole.client.patch(NODE, "", "n", {"metadata": {"annotations": {"try": "again"}}})
        with pytest.raises(ApiError, match="denied the request"):
            await whole.client.patch(NODE, "", "n", {"metadata": {"labels": {"zone": "b"}}})
        # Controllers change the node, too: only the request about the label counts.
        asked = next(
            asked for _, asked in reversed(hooks.asked) if asked["object"]["metadata"]["labels"]["zone"] == "b"
        )
        before, after = asked["oldObject"], asked["object"]
        assert before["spec"] == after["spec"] and before["metadata"]["labels"] == labels
        assert after["metadata"]["labels"] == {"zone": "b", "kept": "yes"}


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0"])
async def test_endpoints_lead_to_no_special_address(ask: Asker, address: str) -> None:
    """CVE-2021-25737."""
    body = {"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]}
    status, _ = await ask("POST", "/api/v1/namespaces/default/endpoints", body)
    assert status == 422


@pytest.mark.parametrize("role", ["edit", "admin"])
async def test_users_of_a_namespace_write_no_endpoints(ask: Asker, role: str) -> None:
    """CVE-2021-25740."""
    _, found = await ask("GET", f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")
    writing = {"create", "update", "patch", "delete", "deletecollection", "*"}
    rules = [rule for rule in found["rules"] if writing & set(rule["verbs"])]
    assert rules
    assert not {"endpoints", "endpointslices", "*"} & {word for rule in rules for word in rule.get("resources") or ()}


async def test_a_user_of_a_namespace_cannot_give_away_what_they_do_not_have(ask: Asker) -> None:
    """Neither by a role, nor by a binding to one, nor by a label that adds rules to an aggregated role."""
    rbac, group = "/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "jane"}],
    }
    assert (await ask("POST", f"{rbac}/namespaces/default/rolebindings", binding))[0] == 201
    jane = User("jane", ("system:authenticated",))
    async with asyncio.timeout(30):
        while (await ask("GET", PODS, user=jane))[0] != 200:
            await asyncio.sleep(0)
    grasping = {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    boss = {**binding, "metadata": {"name": "boss"}, "roleRef": {**binding["roleRef"], "name": "cluster-admin"}}
    for path, body in (
        ("namespaces/default/roles", grasping),
        ("namespaces/default/rolebindings", boss),
        ("clusterrolebindings", boss),
        ("clusterroles", {**grasping, "metadata": {"name": "x", "labels": {f"{group}/aggregate-to-admin": "true"}}}),
    ):
        status, reported = await ask("POST", f"{rbac}/{path}", body, user=jane)
        assert status == 403, reported


async def test_impersonation_requires_the_permission(ask: Asker) -> None:
    jane = User("jane", ("system:authenticated",))
    for headers in (
        {"impersonate-user": "boss"},
        {"impersonate-user": "jane", "impersonate-group": "system:masters"},
        {"impersonate-user": "jane", "impersonate-group": "team\nsystem:masters"},
        {"impersonate-user": "system:serviceaccount:kube-system:default"},
        {"impersonate-user": "jane", "impersonate-extra-scopes": "all"},
    ):
        answer = await ask.server.handle(Request("GET", "/api", {}, headers, b"", jane))
        assert answer.status == 403, headers


# --- nodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "profile",
    [
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "p.json"}},
        {"seccompProfile": {"type": "Localhost", "localhostProfile": ""}},
        {"appArmorProfile": {"type": "Localhost", "localhostProfile": "p"}},
    ],
)
async def test_a_container_is_not_started_without_the_profile_it_requests(cluster: Cluster, profile: Object) -> None:
    """CVE-2023-2431: it would run unconfined."""
    node = await cluster.node()
    spec = {"nodeName": "node1", "automountServiceAccountToken": False}
    body = pod_with({"securityContext": profile}, **spec)
    await cluster.client.create(POD, body, "default")
    await node.quiet()
    (seen,) = (await cluster.pod("p"))["status"]["containerStatuses"]
    assert seen["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    assert "is not supported" in seen["state"]["waiting"]["message"]


async def test_a_local_profile_is_named(ask: Asker) -> None:
    """CVE-2023-2431."""
    assert (await ask("POST", ACCOUNTS, {"metadata": {"name": "default"}}))[0] == 201
    status, reported = await ask("POST", PODS, pod_with({"securityContext": {"seccompProfile": {"type": "Localhost"}}}))
    assert status == 422 and "localhostProfile" in reported["message"]


async def test_a_container_is_the_same_user_after_its_restart(cluster: Cluster) -> None:
    """CVE-2019-11245."""
    node = await cluster.node()
    node.machine.image_users["busybox:1"] = "1000:2000"
    container = {"image": "busybox:1", "command": ["sh", "-c", "sleep 5"]}
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "securityContext": {"runAsNonRoot": True}}
    await cluster.client.create(POD, pod_with(container, **spec), "default")
    await node.quiet()
    users = []
    for _ in range(3):
        (seen,) = (await cluster.pod("p"))["status"]["containerStatuses"]
        users.append((seen["restartCount"], seen.get("user")))
        await node.pass_time(200)
    assert users[-1][0] > users[0][0]
    assert len({str(user) for _, user in users}) == 1


async def test_a_volume_that_would_run_programs_is_not_made(tmp_path: Path) -> None:
    """CVE-2024-10220, CVE-2025-1767: gitRepo."""
    async with Whole(tmp_path, runtime="process", stop_pods=True) as whole:
        repository = tmp_path / "repository"
        volumes = [{"name": "v", "gitRepo": {"repository": str(repository), "directory": "."}}]
        body = {"metadata": {"name": "p"}, "spec": pod_spec(volumes=volumes)}
        await whole.client.create(POD, body, "default")
        event = kind_named("Event")

        async def refused() -> bool:
            found = (await whole.client.list(event, "default"))["items"]
            return any("unsupported type gitRepo" in entry["message"] for entry in found)

        async with asyncio.timeout(60):
            while not await refused():
                await asyncio.sleep(0.05)
        pod = await whole.client.get(POD, "default", "p")
        assert pod["status"]["phase"] == "Pending"


async def test_every_page_of_a_nodes_server_but_health_needs_a_credential_and_a_right(tmp_path: Path) -> None:
    """CVE-2019-11248, and the endpoints of CVE-2024-9042 and CVE-2025-0426, which podfit does not have."""
    async with Whole(tmp_path) as whole, aiohttp.ClientSession() as session:
        node = await becomes(whole.client, NODE, "", "n1", lambda obj: obj is not None and "status" in obj)
        assert node is not None
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        (server,) = whole.up.node_servers
        paths = [path.replace("{", "").replace("}", "") for path in server.routes.paths()]
        assert len(paths) > 15
        bearer = {"Authorization": f"Bearer {await token_of(whole, 'default')}"}
        found = {}
        for path in [*paths, "/logs/", "/checkpoint/n/p/c", "/debug/pprof/"]:
            for method in ("GET", "POST"):
                for who, headers in (("", {}), ("pod", bearer)):
                    url = f"https://127.0.0.1:{port}{path}"
                    async with session.request(method, url, ssl=False, headers=headers) as answer:
                        found[path, method, who] = answer.status
        health = {path for path in found if path[0].startswith("/healthz")}
        assert {found[path] for path in health} == {200, 405}
        assert {found[path] for path in found.keys() - health if not path[2]} == {401}
        assert {found[path] for path in found.keys() - health if path[2]} == {403}


async def token_of(whole: Whole, account: str) -> str:
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    status, made = await Asker(whole.up.server)("POST", path, {"spec": {}})
    assert status == 201
    return str(made["status"]["token"])


# --- credentials ----------------------------------------------------------------------------------------------------


async def test_no_credential_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2019-11250, CVE-2020-8563 to 8565: neither credentials sent by clients nor stored ones are logged."""
    caplog.set_level(logging.DEBUG)
    async with Whole(tmp_path) as whole, aiohttp.ClientSession(base_url=whole.up.server.url) as session:
        token = await token_of(whole, "default")
        hidden = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        tls = ssl.create_default_context(cadata=whole.up.server.pki.ca.decode())
        for headers in (
            {"Authorization": f"Bearer {token}"},
            {"Authorization": f"Bearer {token}x"},
            {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
                "Sec-WebSocket-Protocol": f"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{hidden}",
            },
        ):
            for path in ("/api", "/api/v1/namespaces/default/pods/p/exec?command=id", "/api/v1/pods?watch=true"):
                async with session.get(path, headers=headers, ssl=tls) as answer:
                    await answer.read()
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2-is-secret"}}
        await whole.client.create(kind_named("Secret"), secret, "default")
        body = {"metadata": {"name": "p"}, "spec": pod_spec()}
        await whole.client.create(POD, body, "default")
        await becomes(whole.client, POD, "default", "p", lambda pod: (pod or {})["status"]["phase"] == "Running")
    encoded = base64.b64encode(b"hunter2-is-secret").decode()
    for credential in (token.rpartition(".")[2], hidden[-40:], "hunter2-is-secret", encoded):
        assert credential not in caplog.text


async def test_a_client_trusts_the_authority_in_its_kubeconfig_for_the_host_it_names(tmp_path: Path) -> None:
    """CVE-2025-9708: a certificate of another authority, or of another host, is rejected."""
    ca = new_authority("clients", timedelta(days=1)).cert
    async with Elsewhere(tmp_path / "a", ca) as right, Elsewhere(tmp_path / "b", ca, "other.example") as other:
        for server, authority, trusted in (
            (right, right.authority, True),
            (right, other.authority, False),
            (other, other.authority, False),
        ):
            client = Client(Access(server.url, ca=authority.cert, token="secret").transport())
            try:
                await client.list(NODE, "")
                assert trusted
            except Unreachable:
                assert not trusted
            finally:
                await client.close()
    assert len(right.seen) == 1 and not other.seen


async def test_nothing_is_answered_without_tls(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        ports = [whole.up.server.front.port, *(node.port for node in whole.up.node_servers)]
        assert len(ports) == 2
        for port in ports:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/1.1" not in await reader.read()
            writer.close()
