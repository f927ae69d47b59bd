"""Connections that the API server makes on behalf of clients: to which addresses, with which credentials, and
without redirects.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.cluster.asking import Asker, serving
from tests.support.servers.elsewhere import Elsewhere, redirect
from yarl import URL

from podfit.apiserver.app import ApiServer
from podfit.apiserver.proxying import dialing

POD = "/api/v1/namespaces/default/pods/p"
EXEC = f"{POD}/exec?command=id&stdout=true&container=c"
RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


class World:
    """An API server, a server in place of a node, a pod or a webhook, and a second one that must not be reached."""

    def __init__(self, server: ApiServer, evil: Elsewhere, other: Elsewhere, folder: Path) -> None:
        self.server, self.evil, self.other = server, evil, other
        self.admin = Asker(server)
        self._folder = folder
        self.session = aiohttp.ClientSession()

    def tls(self, name: str, *groups: str) -> ssl.SSLContext:
        """The credentials of the user of that name."""
        pair = self.server.pki.issue_client_cert(name, groups)
        (self._folder / "crt").write_bytes(pair.cert)
        (self._folder / "key").write_bytes(pair.key)
        context = ssl.create_default_context(cadata=self.server.pki.ca.decode())
        context.load_cert_chain(self._folder / "crt", self._folder / "key")
        return context

    async def make(self, path: str, body: Any) -> None:
        status, made = await self.admin("POST", path, body)
        assert status == 201, made

    async def node(self, name: str, address: str, port: int) -> None:
        await self.make("/api/v1/nodes", {"metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await self.admin("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, "application/merge-patch+json")

    async def pod(self, address: str) -> None:
        await self.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        spec = {"nodeName": "evil", "containers": [{"name": "c", "image": "i"}]}
        await self.make("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        status = {"podIP": address, "podIPs": [{"ip": address}]}
        await self.admin("PATCH", f"{POD}/status", {"status": status}, "application/merge-patch+json")

    async def get(self, path: str, name: str = "boss", *groups: str, **headers: str) -> tuple[int, str]:
        tls = self.tls(name, *(groups or ("system:masters",)))
        url = URL(f"{self.server.url}{path}", encoded=True)
        async with self.session.get(url, ssl=tls, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(tmp_path / "data"))
        ca = server.pki.ca + server.pki.front_proxy.pem
        evil, other = [await stack.enter_async_context(Elsewhere(tmp_path / name, ca)) for name in ("evil", "other")]
        one = World(server, evil, other, tmp_path)
        await one.node("evil", "127.0.0.1", evil.port)
        await one.pod("127.0.0.1")
        yield one
        await one.session.close()


# --- credentials ----------------------------------------------------------------------------------------------------


async def test_a_pod_behind_a_proxy_never_sees_the_certificate_that_nodes_trust(world: World) -> None:
    target = f"/api/v1/namespaces/default/pods/https:p:{world.evil.port}/proxy/x"
    assert (await world.get(target))[0] == 200
    await world.get(target, Connection="Upgrade", Upgrade="anything")
    assert [seen.certificate for seen in world.evil.seen] == [None, None]


async def test_a_pods_proxy_to_the_api_server_itself_is_an_anonymous_client(world: World) -> None:
    target = f"/api/v1/namespaces/default/pods/https:p:{world.server.front.port}/proxy/api/v1/secrets"
    status, reported = await world.get(target)
    assert status == 403 and "system:anonymous" in reported


async def test_a_node_that_reports_the_api_servers_address_gains_no_rights_there(world: World) -> None:
    await world.node("self", "127.0.0.1", world.server.front.port)
    for path in ("api/v1/secrets", "apis/rbac.authorization.k8s.io/v1/clusterroles", "api/v1/namespaces/default/pods"):
        status, reported = await world.get(f"/api/v1/nodes/self/proxy/{path}")
        assert status == 403 and "kube-apiserver-kubelet-client" in reported


async def test_a_node_authenticates_the_api_server(world: World) -> None:
    assert (await world.get("/api/v1/nodes/evil/proxy/pods"))[0] == 200
    subject = dict(part for row in world.evil.seen[0].certificate["subject"] for part in row)
    assert subject == {"commonName": "kube-apiserver-kubelet-client"}


@pytest.mark.parametrize("upgrade", [{}, {"Connection": "Upgrade", "Upgrade": "anything"}])
async def test_a_proxy_passes_no_credentials_and_no_identity_on(world: World, upgrade: dict[str, str]) -> None:
    token = base64.urlsafe_b64encode(b"secret").decode().rstrip("=")
    headers = {
        "Authorization": "Bearer secret",
        "Impersonate-User": "boss",
        "Impersonate-Group": "system:masters",
        "X-Remote-User": "boss",
        "Sec-WebSocket-Protocol": f"v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{token}",
        **upgrade,
    }
    await world.get(f"/api/v1/namespaces/default/pods/https:p:{world.evil.port}/proxy/x", **headers)
    (seen,) = world.evil.seen
    assert not {"authorization", "impersonate-user", "x-remote-user"} & seen.headers.keys()
    assert token not in str(seen.headers)


# --- redirects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
@pytest.mark.parametrize("status", [302, 307])
async def test_a_node_cannot_redirect_an_exec_to_another_node(world: World, protocol: str, status: int) -> None:
    """CVE-2020-8559."""
    world.evil.answer = redirect(f"{world.other.url}/exec/default/victim/c?command=id", status)
    headers = {"Connection": "Upgrade", "Upgrade": protocol}
    if protocol == "websocket":
        headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode()}
    code, reported = await world.get(EXEC, **headers)
    assert code == 500 and f"invalid upgrade response: status code {status}" in reported
    assert len(world.evil.seen) == 1 and not world.other.seen


async def test_a_node_cannot_redirect_a_reader_of_logs(world: World) -> None:
    world.evil.answer = redirect(f"{world.other.url}/x")
    status, reported = await world.get(f"{POD}/log?container=c")
    assert status == 500 and "redirects forbidden" in reported
    assert len(world.evil.seen) == 1 and not world.other.seen


async def aggregate(world: World, there: Elsewhere, **spec: Any) -> None:
    """Registers another server for the group x.example.com."""
    service = {
        "metadata": {"name": "v1.x.example.com", "annotations": {"podfit.dev/url": there.url}},
        "spec": {
            "group": "x.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "x"},
            **spec,
        },
    }
    await world.make("/apis/apiregistration.k8s.io/v1/apiservices", service)


async def things(world: World, path: str = "things", *groups: str) -> tuple[int, str]:
    """Requests an object of that group, once the server has registered it."""
    async with asyncio.timeout(30):
        while (await world.get("/apis/x.example.com/v1/things"))[0] == 404:
            await asyncio.sleep(0)
    return await world.get(f"/apis/x.example.com/v1/{path}", "boss", *groups)


async def test_a_redirect_of_an_aggregated_server_reaches_neither_its_target_nor_the_client(world: World) -> None:
    """CVE-2022-3172."""
    world.evil.answer = redirect(f"{world.other.url}/api/v1/secrets")
    await aggregate(world, world.evil, insecureSkipTLSVerify=True)
    answer = await things(world)
    assert answer == (502, "the backend attempted to redirect this request, which is not permitted")
    assert world.evil.seen and not world.other.seen


async def test_an_aggregated_server_shows_a_certificate_of_its_service(world: World, tmp_path: Path) -> None:
    async with Elsewhere(tmp_path / "x", world.server.pki.front_proxy.pem, "x.default.svc") as right:
        bundle = base64.b64encode(right.authority.cert).decode()
        await aggregate(world, right, caBundle=bundle)
        assert (await things(world))[0] == 200
        seen = right.seen[-1]
        assert seen.headers["x-remote-user"] == "boss" and seen.certificate is not None
    other = base64.b64encode(world.evil.authority.cert).decode()
    for spec in ({"caBundle": other}, {"caBundle": None}):
        patch = {"metadata": {"annotations": {"podfit.dev/url": world.evil.url}}, "spec": spec}
        path = "/apis/apiregistration.k8s.io/v1/apiservices/v1.x.example.com"
        assert (await world.admin("PATCH", path, patch, "application/merge-patch+json"))[0] == 200
        async with asyncio.timeout(30):
            while "verify" not in (answer := await world.get("/apis/x.example.com/v1/things"))[1]:
                await asyncio.sleep(0)
        assert answer[0] == 503
    assert not world.evil.seen


async def test_no_path_climbs_on_its_way_to_an_aggregated_server(world: World) -> None:
    """The aggregated server trusts the API server to have authorized the request."""
    await aggregate(world, world.evil, insecureSkipTLSVerify=True)
    assert (await things(world, "namespaces/mine/things/t"))[0] == 200
    for path in ("things/%2e%2e", "things/t/%2e%2e/%2e%2e/other", "%2e%2e/%2e%2e/%2e%2e/api/v1/secrets", "things%2f.."):
        assert (await things(world, f"namespaces/mine/{path}"))[0] == 404
    assert {seen.path for seen in world.evil.seen} <= {
        "/apis/x.example.com/v1",
        "/apis/x.example.com/v1/things",
        "/apis/x.example.com/v1/namespaces/mine/things/t",
    }


async def test_a_redirect_of_a_webhook_is_not_followed(world: World) -> None:
    """CVE-2020-8561."""
    hook = {
        "name": "h.example.com",
        "clientConfig": {
            "url": f"{world.evil.url}/h",
            "caBundle": base64.b64encode(world.evil.authority.cert).decode(),
        },
        "rules": RULES,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    world.evil.answer = redirect(f"{world.other.url}/h")
    await world.make(configurations, {"metadata": {"name": "h"}, "webhooks": [hook]})
    status, at = 201, 0
    async with asyncio.timeout(30):
        while status == 201:
            at += 1
            body = {"metadata": {"name": f"c{at}"}}
            status, reported = await world.admin("POST", "/api/v1/namespaces/default/configmaps", body)
            await asyncio.sleep(0)
    assert status == 500 and "status code 307" in reported["message"]
    assert world.evil.seen and not world.other.seen


async def test_bytes_after_a_rejected_upgrade_are_a_new_request(world: World) -> None:
    """CVE-2018-1002105: the connection to the node must not stay open for the client."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", world.server.front.port, ssl=world.tls("boss", "system:masters"), server_hostname="127.0.0.1"
    )
    head = f"POST {EXEC} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
    writer.write(head.encode() + b"GET /exec/default/victim/c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(30):
        reported = await reader.read()
    writer.close()
    assert [seen.path.partition("?")[0] for seen in world.evil.seen] == ["/exec/default/p/" + await uid(world) + "/c"]
    assert b"101 Switching" not in reported


async def uid(world: World) -> str:
    return str((await world.admin("GET", POD))[1]["metadata"]["uid"])


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1", "::ffff:169.254.169.254"])
async def test_a_proxy_does_not_connect_to_special_addresses(world: World, address: str) -> None:
    """CVE-2022-3294, CVE-2020-8555: addresses that only the API server's machine can reach."""
    await world.node("special", address, 80)
    for path in ("nodes/special/proxy/x", "nodes/http:special:8080/proxy/x"):
        status, reported = await world.get(f"/api/v1/{path}")
        assert status == 400 and "address not allowed" in reported


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"])
async def test_loopback_is_no_place_for_nodes_of_a_server_that_others_reach(address: str) -> None:
    with pytest.raises(dialing.NotAllowed, match="address not allowed"):
        await dialing.allowed_address(address, loopback=False)


async def test_a_name_is_resolved_once_and_the_checked_address_is_dialled() -> None:
    """CVE-2020-8562: a name resolved a second time for the connection may have another address by then."""
    assert dialing.parsed(await dialing.allowed_address("localhost", loopback=True)) is not None


@pytest.mark.parametrize("name", ["p:80@127.0.0.1", "ftp:p:80", "p:http", "http:p:80:90", "p:99999", ":80", "http::80"])
async def test_a_proxy_takes_no_name_that_would_change_the_host(world: World, name: str) -> None:
    status, reported = await world.get(f"/api/v1/namespaces/default/pods/{name}/proxy/x")
    assert status == 400 and "invalid pod request" in reported


@pytest.mark.parametrize("host", ["a" * 64, "." * 5, "a..b", "\ud800", "x" * 300, "%"])
async def test_an_invalid_name_is_not_looked_up(host: str) -> None:
    with pytest.raises(dialing.NotAllowed):
        await dialing.allowed_address(host, loopback=True)
