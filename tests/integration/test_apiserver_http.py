"""The server over real sockets: TLS, identities, streams, limits, and requests forwarded to nodes and other servers."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from tests.support.cluster.asking import serving, tls_of

from podfit.apiserver.app import ApiServer
from podfit.apiserver.auth.authenticate import Authenticator
from podfit.apiserver.config import BODY_LIMIT, Config
from podfit.apiserver.front.http import HttpFront
from podfit.apiserver.front.turns import Turns
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.kit.clock import RealClock
from podfit.store.memory import MemoryStore

MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with serving(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def admin(server: ApiServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, server.pki.admin, tmp_path))
    async with aiohttp.ClientSession(server.url, connector=connector) as session:
        yield session


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


MAPS = "/api/v1/namespaces/default/configmaps"


async def test_anonymous_sees_version_and_health_only(server: ApiServer, tmp_path: Path) -> None:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, None, tmp_path))
    async with aiohttp.ClientSession(server.url, connector=connector) as nobody:
        codes = {}
        for path in ("/version", "/healthz", "/readyz", "/api/v1/pods", "/metrics"):
            async with nobody.get(path) as answer:
                codes[path] = answer.status
    assert codes == {"/version": 200, "/healthz": 200, "/readyz": 200, "/api/v1/pods": 403, "/metrics": 403}


async def test_a_bad_token_is_not_anonymous(server: ApiServer, tmp_path: Path) -> None:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, None, tmp_path))
    async with aiohttp.ClientSession(server.url, connector=connector) as nobody:
        async with nobody.get("/version", headers={"Authorization": "Bearer nonsense"}) as answer:
            assert answer.status == 401
            assert (await answer.json())["reason"] == "Unauthorized"


async def test_a_token_of_a_service_account_is_its_user(
    server: ApiServer, admin: aiohttp.ClientSession, tmp_path: Path
) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await admin.post(accounts, json={"metadata": {"name": "robot"}})
    async with admin.post(f"{accounts}/robot/token", json={}) as answer:
        token = (await answer.json())["status"]["token"]
    connector = aiohttp.TCPConnector(ssl=tls_of(server, None, tmp_path))
    bearer = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(server.url, connector=connector, headers=bearer) as robot:
        async with robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}) as answer:
            user = (await answer.json())["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:robot"


async def test_a_body_above_the_limit_is_refused(admin: aiohttp.ClientSession) -> None:
    async with admin.post(MAPS, data=b'{"a":"' + b"x" * BODY_LIMIT + b'"}') as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"


async def test_large_responses_are_compressed_for_clients_that_accept_it(admin: aiohttp.ClientSession) -> None:
    await admin.post(MAPS, json=config_map("big", text="x" * 200_000))
    async with admin.get(MAPS + "/big", headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert (await answer.json())["data"]["text"] == "x" * 200_000
    async with admin.get(MAPS + "/big", headers={"Accept-Encoding": "identity"}) as answer:
        assert "Content-Encoding" not in answer.headers


async def test_a_watch_streams_changes_as_they_come(admin: aiohttp.ClientSession) -> None:
    async with admin.get(MAPS, params={"watch": "true", "labelSelector": "w"}) as stream:
        labelled = config_map("a")
        labelled["metadata"]["labels"] = {"w": "1"}
        await admin.post(MAPS, json=labelled)
        await admin.patch(f"{MAPS}/a", json={"metadata": {"labels": None}}, headers=MERGE)
        async with asyncio.timeout(10):
            seen = [json.loads(await stream.content.readline())["type"] for _ in range(2)]
    assert seen == ["ADDED", "DELETED"]


async def test_a_watch_may_be_a_websocket(admin: aiohttp.ClientSession) -> None:
    async with admin.ws_connect(MAPS + "?watch=true&fieldSelector=metadata.name=a") as socket:
        await admin.post(MAPS, json=config_map("a"))
        message = await socket.receive(timeout=10)
        assert message.type == WSMsgType.TEXT
        assert json.loads(message.data)["object"]["metadata"]["name"] == "a"


@pytest.mark.parametrize("socket", [False, True])
async def test_a_client_that_hangs_up_leaves_no_watch_behind(
    server: ApiServer, admin: aiohttp.ClientSession, socket: bool
) -> None:
    path = f"{MAPS}?watch=true&resourceVersion=0"
    opened = await admin.ws_connect(path) if socket else await admin.get(path)
    await watchers(server, 1)
    opened.close() if isinstance(opened, aiohttp.ClientResponse) else await opened.close()
    await watchers(server, 0)


@pytest.mark.parametrize("socket", [False, True])
async def test_a_client_that_is_gone_before_its_watch_begins_leaves_neither_watch_nor_traceback(
    caplog: pytest.LogCaptureFixture, socket: bool
) -> None:
    ended = asyncio.Event()

    class Watch:
        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            ended.set()

    async def handle(request: Request) -> Response:
        assert request.upgrade is not None and request.upgrade.transport is not None
        request.upgrade.transport.abort()
        return Response(200, stream=Watch())

    front = HttpFront(handle, Authenticator(), None, Turns(RealClock()))
    await front.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{front.port}") as session:
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await (session.ws_connect("/") if socket else session.get("/"))
        await asyncio.wait_for(ended.wait(), 10)
    finally:
        await front.stop()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def watchers(server: ApiServer, count: int) -> None:
    async with asyncio.timeout(10):
        while len(list(server.hub.watchers())) != count:
            await asyncio.sleep(0.01)


async def test_stopping_ends_open_watches(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    async with admin.get(MAPS, params={"watch": "true", "resourceVersion": "0"}) as stream:
        await server.hub.stop()
        async with asyncio.timeout(10):
            assert await stream.content.read() == b""


async def test_updates_of_one_object_by_many_are_not_lost(admin: aiohttp.ClientSession) -> None:
    await admin.post(MAPS, json=config_map("a"))

    async def add(key: int) -> int:
        async with admin.patch(f"{MAPS}/a", json={"data": {f"k{key}": "v"}}, headers=MERGE) as answer:
            return answer.status

    codes = await asyncio.gather(*(add(key) for key in range(50)))
    async with admin.get(f"{MAPS}/a") as answer:
        kept = (await answer.json()).get("data") or {}
    assert set(codes) == {200}, "who states no revision is never told of a conflict"
    assert len(kept) == len(codes)


class FakeNode:
    """A node's own server: logs and exec."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self._app = web.Application()
        self._app.router.add_get("/containerLogs/{tail:.*}", self.logs)
        self._app.router.add_get("/exec/{tail:.*}", self.exec)
        pair = server.pki.node_serving("n1", ["127.0.0.1"])
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (folder / "n.crt").write_bytes(pair.cert)
        (folder / "n.key").write_bytes(pair.key)
        self._context.load_cert_chain(folder / "n.crt", folder / "n.key")
        self.asked: list[str] = []
        self.port = 0

    async def start(self) -> web.AppRunner:
        runner = web.AppRunner(self._app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        self.port = runner.addresses[0][1]
        return runner

    async def logs(self, request: web.Request) -> web.Response:
        self.asked.append(request.path_qs)
        return web.Response(text="line\n")

    async def exec(self, request: web.Request) -> web.WebSocketResponse:
        self.asked.append(request.path_qs)
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        await socket.send_bytes(b"\x01hello")
        await socket.send_bytes(b'\x03{"status":"Success"}')
        await socket.close()
        return socket


async def make_pod_on(server: ApiServer, admin: aiohttp.ClientSession, port: int) -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await admin.post("/api/v1/nodes", json={"metadata": {"name": "n1"}, "status": status})
    await admin.post("/api/v1/namespaces/default/serviceaccounts", json={"metadata": {"name": "default"}})
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
    async with admin.post("/api/v1/namespaces/default/pods", json={"metadata": {"name": "p"}, "spec": spec}) as answer:
        assert answer.status == 201, await answer.text()


async def test_logs_and_exec_are_the_nodes_answers(
    server: ApiServer, admin: aiohttp.ClientSession, tmp_path: Path
) -> None:
    node = FakeNode(server, tmp_path)
    runner = await node.start()
    try:
        await make_pod_on(server, admin, node.port)
        pod = "/api/v1/namespaces/default/pods/p"
        async with admin.get(f"{pod}/log", params={"tailLines": "5"}) as answer:
            assert await answer.text() == "line\n"
        path = f"{pod}/exec?command=sh&command=-c&stdout=true"
        async with admin.ws_connect(path, protocols=["v5.channel.k8s.io", "v4.channel.k8s.io"]) as socket:
            assert socket.protocol == "v5.channel.k8s.io"
            assert (await socket.receive(timeout=10)).data == b"\x01hello"
            assert (await socket.receive(timeout=10)).data == b'\x03{"status":"Success"}'
        assert node.asked[0] == "/containerLogs/default/p/c?tailLines=5"
        assert node.asked[1].endswith("/c?command=sh&command=-c&output=1")
    finally:
        await runner.cleanup()


async def test_exec_without_an_upgrade_is_a_bad_request(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    await make_pod_on(server, admin, 1)
    async with admin.get("/api/v1/namespaces/default/pods/p/exec?command=sh") as answer:
        assert answer.status == 400
    refused = "dial tcp 127.0.0.1:1: connect: connection refused"
    async with admin.get("/api/v1/namespaces/default/pods/p/log") as answer:
        body = (await answer.json())["message"]
        assert (answer.status, body) == (500, f'Get "https://127.0.0.1:1/containerLogs/default/p/c": {refused}')
    path = "/api/v1/namespaces/default/pods/p/exec?command=sh"
    for protocol in ("websocket", "SPDY/3.1"):
        headers = {"Connection": "Upgrade", "Upgrade": protocol}
        async with admin.post(path, headers=headers) as answer:
            body = (await answer.json())["message"]
            assert (answer.status, body) == (500, f"error dialing backend: {refused}")
    async with admin.get("/api/v1/nodes/n1/proxy/x") as answer:
        body = (await answer.json())["message"]
        assert (answer.status, body) == (503, f"error trying to reach service: {refused}")


async def test_a_component_may_serve_a_group_of_its_own(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    resources = [{"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": ["get", "list"]}]

    async def metrics(request: Request) -> Response:
        if request.path == "/apis/metrics.k8s.io/v1beta1":
            return Response(200, json.dumps({"resources": resources}).encode())
        return Response(200, json.dumps({"path": request.path, "user": request.user.name}).encode())

    server.register_local_group("metrics.k8s.io/v1beta1", metrics)
    async with admin.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods") as answer:
        assert await answer.json() == {
            "path": "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods",
            "user": "kubernetes-admin",
        }
    async with admin.get("/apis/metrics.k8s.io/v1beta1") as answer:
        assert (await answer.json())["resources"] == resources


async def test_a_group_of_another_server_is_passed_on(admin: aiohttp.ClientSession, server: ApiServer) -> None:
    async def other(request: web.Request) -> web.Response:
        if request.path == "/apis/x.example.com/v1":
            return web.json_response({"resources": [{"name": "things", "kind": "Thing", "verbs": ["get"]}]})
        body = {"user": request.headers["X-Remote-User"], "query": request.query_string}
        groups = request.headers.getall("X-Remote-Group")
        answer = web.json_response({**body, "groups": groups})
        answer.headers.extend([("Warning", '299 - "one"'), ("Warning", '299 - "two"')])
        return answer

    app = web.Application()
    app.router.add_get("/{tail:.*}", other)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        service = {
            "metadata": {
                "name": "v1.x.example.com",
                "annotations": {"podfit.dev/url": f"http://127.0.0.1:{runner.addresses[0][1]}"},
            },
            "spec": {
                "group": "x.example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "insecureSkipTLSVerify": True,
                "service": {"namespace": "default", "name": "x"},
            },
        }
        services = "/apis/apiregistration.k8s.io/v1/apiservices"
        async with admin.post(services, json=service) as answer:
            assert answer.status == 201, await answer.text()
        await available(admin, f"{services}/v1.x.example.com")
        async with admin.get("/apis/x.example.com/v1/things?a=b") as answer:
            groups = ["system:masters", "system:authenticated"]
            assert await answer.json() == {"user": "kubernetes-admin", "query": "a=b", "groups": groups}
            assert answer.headers.getall("Warning") == ['299 - "one"', '299 - "two"']
        async with admin.get("/apis") as answer:
            assert "x.example.com" in [group["name"] for group in (await answer.json())["groups"]]
    finally:
        await runner.cleanup()


async def available(admin: aiohttp.ClientSession, path: str) -> None:
    name = path.rsplit("/", 1)[1]
    query = {"watch": "true", "fieldSelector": f"metadata.name={name}"}
    async with asyncio.timeout(10), admin.get(path.rsplit("/", 1)[0], params=query) as stream:
        while True:
            event = json.loads(await stream.content.readline())
            conditions = (event["object"].get("status") or {}).get("conditions") or []
            if any(row["type"] == "Available" and row["status"] == "True" for row in conditions):
                return


async def test_a_second_start_at_the_same_place_writes_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    first = ApiServer(Config(store, tmp_path))
    await first.start()
    port = first.front.port
    await first.stop()
    revision = store.revision
    second = ApiServer(Config(store, tmp_path, port=port))
    await second.start()
    assert second.config.store.revision == revision
    answer = await second.handle(Request("GET", "/apis/autoscaling.k8s.io/v1", {}, {}, b"", ADMIN))
    assert answer.status == 200
    await second.stop()
