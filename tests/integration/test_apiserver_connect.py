"""CONNECT: admission and authorization of exec, port-forward and proxies, and what proxies forward."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec
from tests.support.servers.hooks import HookServer

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.apiserver.services.endpoints import endpoint_of

PATH = "/api/v1/namespaces/default/pods/p"
V5 = "v5.channel.k8s.io"
RULES = [{"operations": ["CONNECT"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]


class Door:
    def __init__(self, whole: Whole, hooks: HookServer) -> None:
        self.whole, self.hooks, self.url = whole, hooks, whole.up.server.url
        pki = whole.up.server.pki
        self.tls = ssl.create_default_context(cadata=pki.ca.decode())
        self.tls.load_cert_chain(pki.folder / "admin.crt", pki.folder / "admin.key")
        self.session = aiohttp.ClientSession()

    async def run(self) -> None:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()}
        await self.whole.client.create(POD, body, "default")
        await becomes(self.whole.client, POD, "default", "p", lambda pod: (pod or {})["status"]["phase"] == "Running")

    async def hook(self, kind: str, **more: Any) -> None:
        await self.whole.client.create(kind_named(kind), self.hooks.configuration(kind, "h", RULES, **more))

    async def exec(self, query: str, **headers: str) -> dict[int, bytes]:
        reported: dict[int, bytes] = {}
        url = f"{self.url}{PATH}/exec?{query}"
        async with self.session.ws_connect(url, protocols=[V5], ssl=self.tls, headers=headers) as socket:
            async for message in socket:
                reported[message.data[0]] = reported.get(message.data[0], b"") + message.data[1:]
        return reported

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
        async with self.session.request(
            method, self.url + path, ssl=self.tls, headers=headers, allow_redirects=False
        ) as answer:
            body = await answer.read()
            is_json = answer.content_type == "application/json"
            return answer.status, msgspec.json.decode(body) if is_json else body, answer.headers.get("Location", "")


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    async with HookServer(tmp_path / "hooks") as hooks, Whole(tmp_path / "data") as whole:
        one = Door(whole, hooks)
        await one.run()
        yield one
        await one.session.close()


async def test_a_hook_sees_the_options_of_an_exec(door: Door) -> None:
    await door.hook("ValidatingWebhookConfiguration")
    reported = await door.exec("command=echo&command=hi&stdout=true&container=c")
    assert reported[1] == b"hi\n"
    ((_, asked),) = door.hooks.asked
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "PodExecOptions"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (asked["subResource"], asked["operation"], asked["options"]) == ("exec", "CONNECT", None)
    assert (asked["name"], asked["namespace"], asked["oldObject"]) == ("p", "default", None)
    assert asked["object"] == {
        "kind": "PodExecOptions",
        "apiVersion": "v1",
        "stdout": True,
        "container": "c",
        "command": ["echo", "hi"],
    }


async def test_a_hook_may_refuse_a_connection(door: Door) -> None:
    await door.hook("ValidatingWebhookConfiguration")
    door.hooks.answers["h"] = lambda asked: {"allowed": False, "status": {"message": "not here", "code": 403}}
    status, reported, _ = await door.ask(f"{PATH}/portforward?ports=80,81", "POST")
    assert (status, reported["message"]) == (403, 'admission webhook "h.example.com" denied the request: not here')
    assert door.hooks.asked[0][1]["object"] == {
        "kind": "PodPortForwardOptions",
        "apiVersion": "v1",
        "ports": [80, 81],
    }


async def test_a_hook_may_change_what_is_run(door: Door) -> None:
    await door.hook("MutatingWebhookConfiguration")
    patch = msgspec.json.encode([{"op": "replace", "path": "/command/1", "value": "changed"}])
    door.hooks.answers["h"] = lambda asked: {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(patch).decode(),
    }
    assert (await door.exec("command=echo&command=hi&stdout=true"))[1] == b"changed\n"


async def test_selectors_of_labels_do_not_select_connections(door: Door) -> None:
    absent = {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}
    await door.hook("ValidatingWebhookConfiguration", objectSelector=absent)
    assert (await door.exec("command=echo&stdout=true"))[1] == b"\n"
    assert door.hooks.asked == []


async def _only_get(door: Door) -> None:
    role: Object = {
        "metadata": {"name": "looks"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec", "pods/proxy"], "verbs": ["get"]}],
    }
    await door.whole.client.create(kind_named("Role"), role, "default")
    binding: Object = {
        "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looks"},
        "subjects": [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await door.whole.client.create(kind_named("RoleBinding"), binding, "default")


async def test_read_access_does_not_allow_exec_by_websocket(door: Door) -> None:
    await _only_get(door)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await door.exec("command=echo&stdout=true", **{"Impersonate-User": "reader"})
    assert refused.value.status == 403


async def test_invalid_ports_are_bad_requests(door: Door) -> None:
    status, reported, _ = await door.ask(f"{PATH}/portforward?ports=http", "POST")
    why = 'cannot convert to []int32: strconv.ParseUint: parsing "http": invalid syntax'
    assert (status, reported["message"]) == (400, why)


async def test_proxies_pass_paths_on_as_they_are(door: Door) -> None:
    seen: list[tuple[str, str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append((request.method, request.raw_path))
        if request.headers.get("Upgrade") == "websocket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str((await socket.receive_str()).upper())
            return socket
        if request.path == "/page":
            return web.Response(text='<a href="/next">next</a>', content_type="text/html")
        if request.path == "/headers":
            return web.json_response(sorted(name.lower() for name in request.headers))
        if request.path == "/old":
            raise web.HTTPFound("/new")
        return web.Response(text="here", status=203)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        base = f"/api/v1/namespaces/default/pods/p:{port}/proxy"
        assert (await door.ask(f"{base}?a=b"))[::2] == (301, f"{base}/?a=b")
        assert (await door.ask(f"{base}/deep/er/?x=1"))[:2] == (203, b"here")
        assert (await door.ask(f"{base}/", "HEAD"))[0] == 203
        assert (await door.ask(f"{base}?a=b", "DELETE"))[:2] == (203, b"here")
        assert (await door.ask(base, "OPTIONS"))[:2] == (203, b"here")
        assert seen == [("GET", "/deep/er/?x=1"), ("HEAD", "/"), ("DELETE", "/?a=b"), ("OPTIONS", "/")]
        assert (await door.ask(f"{base}/page"))[1] == f'<a href="{base}/next">next</a>'.encode()
        own: Any = {"skip_auto_headers": ("Content-Type",), "data": b"{}", "ssl": door.tls}
        async with door.session.post(f"{door.url}{base}/headers", **own) as answer:
            passed = set(await answer.json())
        assert not passed & {"content-type", "accept-encoding"} and "x-forwarded-uri" in passed
        assert (await door.ask(f"{base}/old"))[::2] == (302, f"{base}/new")
        async with door.session.ws_connect(f"{door.url}{base}/ws", ssl=door.tls) as socket:
            await socket.send_str("loud")
            assert await socket.receive_str() == "LOUD"
    finally:
        await runner.cleanup()


async def test_a_service_is_reached_through_its_endpoints(door: Door) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    await door.whole.client.create(
        kind_named("Service"), {"metadata": {"name": "s"}, "spec": {"ports": ports}}, "default"
    )
    status, reported, _ = await door.ask("/api/v1/namespaces/default/services/s:a/proxy/")
    assert (status, reported["message"]) == (503, 'no endpoints available for service "s"')
    assert (await door.ask("/api/v1/namespaces/default/services/t/proxy/"))[0] == 404
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "a", "port": 8080}, {"name": "b", "port": 8081}]}]
    await door.whole.client.create(kind_named("Endpoints"), {"metadata": {"name": "s"}, "subsets": subsets}, "default")
    objects = door.whole.up.server.objects
    found = [endpoint_of(objects, "default", "s", port) for port in ("a", "80", "b", "81")]
    assert found == [("10.0.0.1", port) for port in (8080, 8080, 8081, 8081)]
