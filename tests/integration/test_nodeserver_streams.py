"""Logs, exec, attach, port-forward and pages of a node, through the API server and directly, over real sockets."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

from podfit.agent.agent import Agent
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.kit.web.listener import LARGEST_MESSAGE
from podfit.streaming import spdy
from podfit.streaming.spdy import Blocks

PATIENCE_S = 20.0
POD_PATH = "/api/v1/namespaces/default/pods/p"


def body(command: str, name: str = "p", **container: Any) -> Object:
    one = {"name": "c", "image": "busybox", "command": ["sh", "-c", command], **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [one], "terminationGracePeriodSeconds": 0},
    }


def started(pod: Object | None) -> bool:
    states = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    return bool((states[0].get("state") or {}).keys() & {"running", "terminated"})


class Front:
    """Clients of the cluster's servers, with the administrator's certificate or without one."""

    def __init__(self, whole: Whole) -> None:
        self.whole = whole
        self.api = whole.up.server.url
        self.node = whole.up.node_servers[0].url
        self.agent: Agent = whole.up.agents[0]
        self.trusted, self.nobody = _tls(whole, True), _tls(whole, False)
        self.session = aiohttp.ClientSession()

    @property
    def runtime(self) -> FakeRuntime:
        assert isinstance(self.agent.runtime, FakeRuntime)
        return self.agent.runtime

    async def run(self, command: str = "echo hello; sleep 1d", **container: Any) -> Object:
        await self.whole.client.create(POD, body(command, **container))
        return await becomes(self.whole.client, POD, "default", "p", started)

    async def get(self, url: str, tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, str]:
        async with self.session.get(url, ssl=tls or self.trusted, headers=headers) as answer:
            return answer.status, await answer.text()

    @asynccontextmanager
    async def socket(self, path: str, protocol: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        async with self.session.ws_connect(self.api + path, protocols=[protocol], ssl=self.trusted) as socket:
            assert socket.protocol == protocol
            yield socket


def _tls(whole: Whole, trusted: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=whole.up.server.pki.ca.decode())
    if trusted:
        folder = whole.up.server.pki.folder
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    return context


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with Whole(tmp_path) as whole:
        one = Front(whole)
        try:
            yield one
        finally:
            await one.session.close()


async def messages(socket: aiohttp.ClientWebSocketResponse) -> list[tuple[int, bytes]]:
    """All data until the server closes; pieces of a channel are joined."""
    joined: dict[int, bytes] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for message in socket:
            joined[message.data[0]] = joined.get(message.data[0], b"") + message.data[1:]
    return sorted(joined.items())


SUCCESS = b'{"metadata":{},"status":"Success"}'


@pytest.mark.parametrize(
    ("command", "reported"), [("echo&command=hi", [(1, b"hi\n")]), ("nothing-of-this-name", [(3, b"no such file")])]
)
async def test_clients_of_the_first_channel_protocol_get_no_status(
    front: Front, command: str, reported: list[tuple[int, bytes]]
) -> None:
    await front.run()
    async with front.socket(f"{POD_PATH}/exec?command={command}&stdout=1&stderr=1", "channel.k8s.io") as socket:
        found = await messages(socket)
    assert [channel for channel, _ in found] == [channel for channel, _ in reported]
    assert all(words in data for (_, data), (_, words) in zip(found, reported, strict=True))


# --- logs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "wanted"), [("binary.k8s.io", b"hello\n"), ("base64.binary.k8s.io", "aGVsbG8K")])
async def test_logs_come_over_a_websocket_in_the_requested_protocol(
    front: Front, protocol: str, wanted: bytes | str
) -> None:
    await front.run()
    async with asyncio.timeout(PATIENCE_S):
        while (await front.get(f"{front.api}{POD_PATH}/log"))[1] != "hello\n":
            await asyncio.sleep(0.02)
        async with front.socket(f"{POD_PATH}/log", protocol) as socket:
            assert [message.data async for message in socket] == [wanted]


async def test_logs_come_through_the_api_server(front: Front) -> None:
    await front.run("echo one; echo two; echo three >&2; sleep 1d")
    assert await front.get(f"{front.api}{POD_PATH}/log") == (200, "one\ntwo\nthree\n")
    assert await front.get(f"{front.api}{POD_PATH}/log?tailLines=1") == (200, "three\n")
    assert (await front.get(f"{front.api}{POD_PATH}/log?limitBytes=5"))[1] == "one\nt"
    _, stamped = await front.get(f"{front.api}{POD_PATH}/log?timestamps=true&tailLines=1")
    assert stamped.endswith("Z three\n")


async def test_refusals_of_logs_have_kubernetes_words(front: Front) -> None:
    await front.run()
    status, reported = await front.get(f"{front.api}{POD_PATH}/log?previous=true")
    assert status == 400
    assert msgspec.json.decode(reported)["message"] == 'previous terminated container "c" in pod "p" not found'
    path = "/containerLogs/default/{}/{}"
    assert await front.get(front.node + path.format("x", "c")) == (404, 'pod "x" does not exist')
    assert await front.get(front.node + path.format("p", "x")) == (404, 'container "x" not found in pod "p"')
    assert (await front.get(front.node + path.format("p", "c") + "?tailLines=x"))[0] == 422


async def test_following_ends_with_the_container(front: Front) -> None:
    await front.run("echo one; sleep 1; echo two; exit 0")
    _, text = await asyncio.wait_for(front.get(f"{front.api}{POD_PATH}/log?follow=true"), PATIENCE_S)
    assert text.startswith("one\ntwo\n")


async def test_a_container_that_crashes_shows_its_last_run(front: Front) -> None:
    await front.whole.client.create(POD, body("echo tried; exit 1"))

    def crashes(pod: Object | None) -> bool:
        states = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
        waiting = (states[0].get("state") or {}).get("waiting") or {}
        return waiting.get("reason") == "CrashLoopBackOff"

    await becomes(front.whole.client, POD, "default", "p", crashes)
    assert await front.get(f"{front.api}{POD_PATH}/log") == (200, "tried\n")
    assert await front.get(f"{front.api}{POD_PATH}/log?previous=true") == (200, "tried\n")


async def test_a_container_that_has_ended_has_no_previous_run(front: Front) -> None:
    pod = body("echo done; exit 0")
    pod["spec"]["restartPolicy"] = "Never"
    await front.whole.client.create(POD, pod)
    await becomes(
        front.whole.client,
        POD,
        "default",
        "p",
        lambda obj: obj is not None and obj["status"].get("phase") == "Succeeded",
    )
    assert await front.get(f"{front.api}{POD_PATH}/log") == (200, "done\n")
    assert (await front.get(f"{front.api}{POD_PATH}/log?previous=true"))[0] == 400


async def test_a_container_that_waits_has_no_log_yet(front: Front) -> None:
    front.runtime.state.missing_images.add("nowhere")
    await front.whole.client.create(POD, body("true", image="nowhere"))

    def waits(pod: Object | None) -> bool:
        states = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
        return "ErrImagePull" in str((states[0].get("state") or {}).get("waiting"))

    await becomes(front.whole.client, POD, "default", "p", waits)
    status, reported = await front.get(f"{front.api}{POD_PATH}/log")
    whys = ("image can't be pulled", "trying and failing to pull image")
    assert status == 400
    assert msgspec.json.decode(reported)["message"] in [
        f'container "c" in pod "p" is waiting to start: {why}' for why in whys
    ]


async def test_a_container_that_waits_for_the_first_ones_reports_it(front: Front) -> None:
    pod = body("sleep 1d")
    pod["spec"]["initContainers"] = [{**pod["spec"]["containers"][0], "name": "first"}]
    await front.whole.client.create(POD, pod)

    def begun(pod: Object | None) -> bool:
        states = ((pod or {}).get("status") or {}).get("initContainerStatuses") or [{}]
        return "running" in (states[0].get("state") or {})

    await becomes(front.whole.client, POD, "default", "p", begun)
    status, reported = await front.get(f"{front.api}{POD_PATH}/log?container=c")
    why = 'container "c" in pod "p" is waiting to start: PodInitializing'
    assert (status, msgspec.json.decode(reported)["message"]) == (400, why)


# --- exec and attach -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_exec_gives_output_and_exit_code(front: Front, protocol: str) -> None:
    await front.run()
    query = "command=sh&command=-c&command=echo+out;echo+err+>%262;exit+4&stdout=true&stderr=true"
    async with front.socket(f"{POD_PATH}/exec?{query}", protocol) as socket:
        reported = dict(await messages(socket))
        assert socket.close_code == 1000
    assert (reported[1], reported[2]) == (b"out\n", b"err\n")
    status = msgspec.json.decode(reported[3])
    assert (status["reason"], status["details"]["causes"]) == (
        "NonZeroExitCode",
        [{"reason": "ExitCode", "message": "4"}],
    )


async def test_exec_takes_input_until_the_client_closes_it(front: Front) -> None:
    await front.run()
    path = f"{POD_PATH}/exec?command=cat&stdin=true&stdout=true"
    async with front.socket(path, "v5.channel.k8s.io") as socket:
        await socket.send_bytes(b"\x00hello ")
        await socket.send_bytes(b"\x00world")
        await socket.send_bytes(b"\xff\x00")
        assert await messages(socket) == [(1, b"hello world"), (3, SUCCESS)]


async def test_a_command_that_cannot_run_is_reported_in_the_status(front: Front) -> None:
    await front.run()
    async with front.socket(f"{POD_PATH}/exec?command=/nonexistent&stdout=true", "v5.channel.k8s.io") as socket:
        ((channel, reported),) = await messages(socket)
    status = msgspec.json.decode(reported)
    assert (channel, status["reason"], status["code"]) == (3, "InternalError", 500)
    assert "error executing command in container: failed to exec" in status["message"]


async def test_exec_into_an_exited_container_fails_in_the_status(front: Front) -> None:
    await front.run("exit 0")
    async with front.socket(f"{POD_PATH}/exec?command=true&stdout=true", "v5.channel.k8s.io") as socket:
        ((_, reported),) = await messages(socket)
    assert 'unable to upgrade connection: container not found ("c")' in msgspec.json.decode(reported)["message"]


async def test_attach_shows_what_comes_and_ends_with_the_container(front: Front) -> None:
    await front.run("echo early; sleep 1; echo late; exit 3")
    async with front.socket(f"{POD_PATH}/attach?stdout=true&stderr=true", "v5.channel.k8s.io") as socket:
        reported = dict(await messages(socket))
    assert reported[1].endswith(b"late\n")
    assert reported[3] == SUCCESS


async def test_streams_must_be_requested_and_upgraded(front: Front) -> None:
    await front.run()
    path = f"{front.node}/exec/default/p/c"
    assert (await front.get(f"{path}?command=true"))[0] == 400
    assert await front.get(f"{path}?command=true&output=1") == (400, "Upgrade request required")
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Protocol": "v9.channel.k8s.io"}
    status, reported = await front.get(f"{path}?command=true&output=1", **headers)
    assert status == 400
    assert "unable to negotiate protocol" in reported


# --- port-forward --------------------------------------------------------------------------------------------------


async def test_port_forward_over_channels(front: Front) -> None:
    pod = await front.run()
    front.runtime.state.ports[pod["metadata"]["uid"], 80] = lambda data: data.upper()
    async with front.socket(f"{POD_PATH}/portforward?ports=80,81", "v4.channel.k8s.io") as socket:
        seen = {}
        async with asyncio.timeout(PATIENCE_S):
            await socket.send_bytes(b"\x00hello")
            while len(seen) < 6:
                data = await socket.receive_bytes()
                seen[data[0], len([key for key in seen if key[0] == data[0]])] = data[1:]
                if len(seen) == 6:
                    break
    assert [seen[channel, 0] for channel in range(4)] == [struct.pack("<H", port) for port in (80, 80, 81, 81)]
    assert seen[0, 1] == b"HELLO"
    assert seen[3, 1].startswith(b"error forwarding port 81 to pod: ")


async def test_port_forward_in_a_tunnel_as_kubectl_does_it(front: Front) -> None:
    pod = await front.run()
    front.runtime.state.ports[pod["metadata"]["uid"], 80] = lambda data: data.upper()
    async with front.socket(f"{POD_PATH}/portforward", "SPDY/3.1+portforward.k8s.io") as socket:
        blocks = Blocks()
        for number, kind in ((1, "error"), (3, "data")):
            headers = {"streamtype": kind, "port": "80", "requestid": "0"}
            head = struct.pack(">IIBB", number, 0, 0, 0)
            await socket.send_bytes(spdy.control(spdy.SYN_STREAM, head + blocks.pack(headers)))
        await socket.send_bytes(spdy.data_frame(3, b"hello"))
        async with asyncio.timeout(PATIENCE_S):
            while (frame := await socket.receive_bytes())[:4] != struct.pack(">I", 3):
                continue
    assert frame == spdy.data_frame(3, b"HELLO")


async def test_exec_over_an_upgraded_connection_as_other_api_servers_do_it(front: Front) -> None:
    await front.run()
    server = front.whole.up.node_servers[0]
    reader, writer = await asyncio.open_connection(server.host, server.port, ssl=front.trusted, server_hostname="n1")
    writer.write(
        b"POST /exec/default/p/c?command=cat&input=1&output=1 HTTP/1.1\r\nHost: n1\r\nContent-Length: 0\r\n"
        b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"x-stream-protocol-version: v4.channel.k8s.io" in head.lower()
        blocks = Blocks()
        for number, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
            start = struct.pack(">IIBB", number, 0, 0, 0)
            writer.write(spdy.control(spdy.SYN_STREAM, start + blocks.pack({"streamtype": kind})))
        writer.write(spdy.data_frame(3, b"hello") + spdy.data_frame(3, b"", spdy.FIN))
        reported: dict[int, bytes] = {}
        while raw := await reader.read(8):
            word, rest = struct.unpack(">II", raw + await reader.readexactly(8 - len(raw)))
            data = await reader.readexactly(rest & 0xFFFFFF)
            if not word >> 31:
                reported[word] = reported.get(word, b"") + data
    assert (reported[5], reported[1]) == (b"hello", SUCCESS)
    writer.close()


# --- pages and doors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes", "/stats/summary", "/configz", "/pods"],
)
async def test_pages_require_permission(front: Front, path: str) -> None:
    assert (await front.get(front.node + path))[0] == 200
    assert await front.get(front.node + path, front.nobody) == (401, "Unauthorized")
    assert await front.get(front.node + path, front.nobody, Authorization="Bearer x") == (401, "Unauthorized")
    assert (await front.get(f"{front.api}/api/v1/nodes/n1/proxy{path}"))[0] == 200


async def test_unknown_paths_and_methods(front: Front) -> None:
    assert (await front.get(f"{front.node}/nothing"))[0] == 404
    assert (await front.get(f"{front.node}/nothing", front.nobody))[0] == 401
    async with front.session.delete(f"{front.node}/pods", ssl=front.trusted) as answer:
        assert answer.status == 405


async def test_health_is_open(front: Front) -> None:
    assert await front.get(f"{front.node}/healthz", front.nobody) == (200, "ok")


async def test_the_error_for_a_token_without_permissions_names_the_missing_ones(front: Front) -> None:
    ask = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = (await front.whole.client.raw("POST", path, body=ask))["status"]["token"]
    status, reported = await front.get(f"{front.node}/stats/summary", front.nobody, Authorization=f"Bearer {token}")
    who = "system:serviceaccount:default:default"
    assert (status, reported) == (
        403,
        f"Forbidden (user={who}, verb=get, resource=nodes, subresource(s)=[stats proxy])",
    )


async def test_the_node_serves_a_pods_story_and_its_four_states(front: Front) -> None:
    await front.run(resources={"requests": {"cpu": "100m"}, "limits": {"memory": "64Mi"}})
    _, story = await front.get(f"{front.node}/podfit/story/default/p")
    assert "admitted" in [chapter["what"] for chapter in msgspec.json.decode(story)["story"]]
    _, reported = await front.get(f"{front.node}/podfit/states/default/p")
    (container,) = msgspec.json.decode(reported)["containers"]
    assert container["desired"] == container["allocated"] == container["actuated"]
    assert container["actual"]["limits"] == {"memory": "64Mi"}
    assert container["actual"]["requests"] == {"cpu": "100m"}


async def test_a_node_runs_commands_without_streams(front: Front) -> None:
    await front.run()
    async with front.session.post(f"{front.node}/run/default/p/c?cmd=echo+hi", ssl=front.trusted) as answer:
        assert (answer.status, await answer.text()) == (200, "hi\n")


@pytest.mark.parametrize("compress", [0, 15])
@pytest.mark.parametrize("straight", [False, True])
async def test_a_message_that_is_too_long_ends_the_connection(front: Front, straight: bool, compress: int) -> None:
    """The message is never kept as a whole, and its compressed form would be short."""
    await front.run()
    query = "command=cat&stdin=true&stdout=true&input=1&output=1"
    url = f"{front.node}/exec/default/p/c?{query}" if straight else f"{front.api}{POD_PATH}/exec?{query}"
    async with front.session.ws_connect(
        url, protocols=["v5.channel.k8s.io"], ssl=front.trusted, compress=compress, max_msg_size=0
    ) as socket:
        await socket.send_bytes(bytes(LARGEST_MESSAGE + 1))
        async with asyncio.timeout(PATIENCE_S):
            reported = [message.data async for message in socket if message.data[:1] == b"\x01"]
        assert socket.closed and not reported
