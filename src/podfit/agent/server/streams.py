"""Exec, attach, run and port-forward: from an HTTP request to a container's streams."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from podfit.agent.agent import Agent
from podfit.agent.pods.record import PodRecord
from podfit.agent.probes.commands import run_command
from podfit.agent.runtimes.base import ByteStream, ExecStream
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.agent.server.targets import container_spec, find_pod, running_container
from podfit.kit.web.listener import LARGEST_MESSAGE
from podfit.kit.web.routes import Info, Refusal, Routes
from podfit.streaming.channels import V1, V4, V5, ChannelEnd
from podfit.streaming.forward import BadPort, ChannelForward, ports_of
from podfit.streaming.remote import ERROR, RESIZE, STDERR, STDIN, STDOUT, RemoteEnd, converse, failure_status
from podfit.streaming.tunnels import TUNNEL, UPGRADE, SocketCarrier, SpdyEnd, TunnelForward, upgraded

log = logging.getLogger(__name__)

OpenStream = Callable[[], Awaitable[ExecStream]]


class Streams:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def add_to(self, routes: Routes) -> None:
        for uid in ("", "/{uid}"):
            where = "{namespace}/{pod}" + uid
            routes.add("GET POST", f"/exec/{where}/{{container}}", self.exec)
            routes.add("GET POST", f"/attach/{where}/{{container}}", self.attach)
            routes.add("GET POST", f"/portForward/{where}", self.port_forward)
            routes.add("POST", f"/run/{where}/{{container}}", self.run)

    def _pod(self, info: Info) -> PodRecord:
        return find_pod(self._agent, info["namespace"], info["pod"], info.get("uid", ""))

    # --- exec and attach
    async def exec(self, request: web.BaseRequest, info: Info) -> web.StreamResponse:
        command = request.query.getall("command", [])
        if not command:
            raise Refusal(400, "you must specify a command")

        async def open_stream() -> ExecStream:
            container = await running_container(self._agent, self._pod(info), info["container"])
            tty, stdin = _is_set(request, "tty", "tty"), _is_set(request, "input", "stdin")
            return await self._agent.counted.exec(container.id, list(command), tty, stdin)

        return await self._converse(request, open_stream, False)

    async def attach(self, request: web.BaseRequest, info: Info) -> web.StreamResponse:
        name = info["container"]

        async def open_stream() -> ExecStream:
            record = self._pod(info)
            container = await running_container(self._agent, record, name)
            takes_input = bool((container_spec(record, name) or {}).get("stdin"))
            return await self._agent.counted.attach(container.id, takes_input and _is_set(request, "input", "stdin"))

        return await self._converse(request, open_stream, True)

    async def _converse(self, request: web.BaseRequest, open_stream: OpenStream, attached: bool) -> web.StreamResponse:
        wanted = {
            channel
            for channel, names in ((STDOUT, ("output", "stdout")), (STDERR, ("error", "stderr")))
            if _is_set(request, *names)
        }
        if not wanted and not _is_set(request, "input", "stdin"):
            raise Refusal(400, "you must specify at least 1 of stdin, stdout, stderr")
        if _spdy(request):
            return await self._converse_spdy(request, open_stream, wanted, attached)
        socket = await _websocket(request, (V5, V4, V1))
        await self._serve(ChannelEnd(socket), open_stream, wanted, attached)
        return socket

    async def _converse_spdy(
        self, request: web.BaseRequest, open_stream: OpenStream, wanted: set[int], attached: bool
    ) -> web.StreamResponse:
        offered = request.headers.getall("X-Stream-Protocol-Version", [])
        if not any(V4 in words for words in offered):
            raise Refusal(403, f"unable to upgrade: client supports {offered}, server accepts [{V4}]")
        channels = {ERROR, *wanted}
        if _is_set(request, "input", "stdin"):
            channels.add(STDIN)
        if _is_set(request, "tty"):
            channels = (channels | {RESIZE}) - {STDERR}
        answer, carrier = await upgraded(request, V4)
        end = SpdyEnd(carrier, frozenset(channels))
        try:
            await end.open()
            await self._serve(end, open_stream, wanted, attached)
        except TimeoutError:
            log.info("the client did not open the streams of an exec")
        finally:
            await end.close()
        return answer

    @staticmethod
    async def _serve(end: RemoteEnd, open_stream: OpenStream, wanted: set[int], attached: bool) -> None:
        try:
            stream = await open_stream()
        except Refusal as refusal:
            await end.finish(failure_status(f"unable to upgrade connection: {refusal.text}"))
        except RuntimeFailure as error:
            word = "attaching to container" if attached else "executing command in container"
            await end.finish(failure_status(f"error {word}: {error}"))
        else:
            await converse(end, stream, frozenset(wanted), attached)

    async def run(self, request: web.BaseRequest, info: Info) -> web.Response:
        """A command's output as plain text, without streams."""
        words = request.query.getall("cmd", [])
        container = await running_container(self._agent, self._pod(info), info["container"])
        command = words[0].split() if len(words) == 1 else list(words)
        if not command:
            raise Refusal(400, "you must specify a command")
        code, output = await run_command(self._agent.runtime, container.id, command)
        return web.Response(status=200 if code == 0 else 500, text=output)

    # --- port-forward
    async def port_forward(self, request: web.BaseRequest, info: Info) -> web.StreamResponse:
        record = self._pod(info)

        async def connect(port: int) -> ByteStream:
            return await self._agent.counted.connect(record.uid, port)

        if _spdy(request):
            answer, carrier = await upgraded(request, "portforward.k8s.io")
            await TunnelForward(carrier, connect).run()
            return answer
        if TUNNEL in request.headers.get("Sec-WebSocket-Protocol", ""):
            socket = await _websocket(request, (TUNNEL,))
            await TunnelForward(SocketCarrier(socket), connect).run()
            return socket
        try:
            ports = ports_of(request.query.getall("port", []))
        except BadPort as error:
            raise Refusal(400, str(error)) from error
        socket = await _websocket(request, (V4,))
        await ChannelForward(socket, connect, ports).run()
        return socket


def _spdy(request: web.BaseRequest) -> bool:
    return request.headers.get("Upgrade", "").upper() == UPGRADE


def _is_set(request: web.BaseRequest, *names: str) -> bool:
    return any(request.query.get(name, "").lower() in ("1", "true") for name in names)


async def _websocket(request: web.BaseRequest, protocols: Sequence[str]) -> web.WebSocketResponse:
    """Upgrades the request to a WebSocket that speaks one of the protocols."""
    if "websocket" not in request.headers.get("Upgrade", "").lower():
        raise Refusal(400, "Upgrade request required")
    words = request.headers.get("Sec-WebSocket-Protocol", "")
    offered = [word.strip() for word in words.split(",") if word.strip()]
    if offered and not set(offered) & set(protocols):
        server = " ".join(protocols)
        raise Refusal(
            400, f"unable to negotiate protocol: client supports [{' '.join(offered)}], server accepts [{server}]"
        )
    socket = web.WebSocketResponse(protocols=protocols, max_msg_size=LARGEST_MESSAGE)
    await socket.prepare(request)
    return socket
