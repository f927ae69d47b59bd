"""The node's own HTTPS server: the kubelet's paths, and two that only podfit has (a pod's story and its four states).

Code in the same process may call `resource_use`, `stats` and `log` without a socket.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import generate_latest

from podfit.agent.agent import Agent
from podfit.agent.runtimes.values import EXITED, RuntimeEvent, RuntimeFailure
from podfit.agent.server import settings
from podfit.agent.server.access import Gate
from podfit.agent.server.logformat import BadLogOptions, LogOptions
from podfit.agent.server.logs import follow_log, read_log
from podfit.agent.server.states import four_states
from podfit.agent.server.streams import Streams
from podfit.agent.server.targets import find_pod, logged_container
from podfit.agent.server.usage import exposition
from podfit.agent.server.usage.summary import summary
from podfit.agent.server.usage.usage import UsageReader
from podfit.api.numbers import NodeReading
from podfit.api.quantity import Quantity
from podfit.kit.files.folderwatch import FolderWatch
from podfit.kit.web.addresses import bracketed
from podfit.kit.web.listener import Connection, HttpListener, side_listener_limit
from podfit.kit.web.routes import Handler, Info, Refusal, Routes, words_of

log = logging.getLogger(__name__)

_OPEN = "healthz"
Query = Mapping[str, Sequence[str]]


class NodeServer:
    def __init__(
        self,
        agent: Agent,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        gate: Gate | None = None,
        machine: bool = True,
    ) -> None:
        """`gate`: authorizes requests; without it all are allowed. `machine`: the node is this machine (see
        UsageReader)."""
        self.agent, self.host, self.port = agent, host, port
        self.tls, self._gate = tls, gate
        self._usage = UsageReader(agent, machine)
        self._streams = Streams(agent)
        self._started_at = agent.clock.now()
        self.routes = Routes()
        self._add_routes(self.routes)
        self._listener: HttpListener | None = None

    async def start(self) -> None:
        """Starts to listen, and publishes the port on the Node."""
        self._listener = HttpListener(self._serve, self.tls, limit=side_listener_limit(), handler_cancellation=True)
        await self._listener.open(self.host, self.port)
        self.port = self.agent.node.port = self._listener.port

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{bracketed(self.host)}:{self.port}"

    def _add_routes(self, routes: Routes) -> None:
        pages: dict[str, Handler] = {
            "/healthz": self._health,
            "/healthz/{check}": self._health,
            "/metrics": self._metrics,
            "/metrics/resource": self._resource,
            "/metrics/cadvisor": self._cadvisor,
            "/metrics/probes": self._probes,
            "/stats/summary": self._summary,
            "/configz": self._config,
            "/pods": self._pods,
            "/runningpods": self._running_pods,
            "/containerLogs/{namespace}/{pod}/{container}": self._logs,
            "/podfit/story/{namespace}/{pod}": self._story,
            "/podfit/states/{namespace}/{pod}": self._states,
        }
        for path, handler in pages.items():
            routes.add("GET", path, handler)
        self._streams.add_to(routes)

    # --- every request
    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            words = words_of(request.raw_path)
            if self._gate is not None and words[0] != _OPEN:
                transport = request.transport
                certificate = transport.get_extra_info("peercert") if transport is not None else None
                word = request.headers.get("Authorization", "")
                await self._gate.check(certificate, word, request.method, words[0])
                if isinstance(request.protocol, Connection):
                    request.protocol.trusted = True
            handler, info = self.routes.find(request.method, words)
            return await handler(request, info)
        except Refusal as refusal:
            return web.Response(status=refusal.code, text=refusal.text)
        except BadLogOptions as error:
            return web.Response(status=422, text=str(error))
        except RuntimeFailure as error:
            return web.Response(status=500, text=str(error))

    # --- interface for the same process
    async def resource_use(self) -> NodeReading:
        """The contents of /metrics/resource, as numbers for a meter in the same process."""
        return await self._usage.resources()

    async def stats(self) -> dict[str, Any]:
        config = self.agent.config
        memory = self._capacity("memory").value
        return summary(await self._usage.read(), config.node_name, memory, config.data_dir, self._started_at)

    def _capacity(self, name: str) -> Quantity:
        return Quantity.parse(self.agent.node.capacity.get(name, "0"))

    async def log(self, namespace: str, pod: str, container: str, query: Query) -> AsyncIterator[bytes]:
        """Reads a container's log as requested; errors are raised before the first piece."""
        options = LogOptions.parse(query, self.agent.clock.now())
        record = find_pod(self.agent, namespace, pod)
        state = await logged_container(self.agent, record, container, options.previous)
        file = self.agent.maker.log_folder(record) / container / f"{state.attempt}.log"
        if not options.follow or state.state == EXITED:
            return read_log(file, options)
        file.parent.mkdir(parents=True, exist_ok=True)
        return self._follow(file, options, state.id)

    async def _follow(self, file: Path, options: LogOptions, container_id: str) -> AsyncIterator[bytes]:
        watch = FolderWatch(file.parent)

        def woken(event: RuntimeEvent) -> None:
            if event.container_id in ("", container_id):
                watch.wake()

        async def ended() -> bool:
            state = await self.agent.runtime.container(container_id)
            return state is None or state.state == EXITED

        self.agent.listeners.append(woken)
        try:
            async for piece in follow_log(file, options, watch, ended):
                yield piece
        finally:
            self.agent.listeners.remove(woken)
            watch.close()

    # --- pages
    async def _logs(self, request: web.BaseRequest, info: Info) -> web.StreamResponse:
        query = {key: request.query.getall(key) for key in request.query}
        pieces = await self.log(info["namespace"], info["pod"], info["container"], query)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        try:
            async for piece in pieces:
                await answer.write(piece)
            await answer.write_eof()
        except ConnectionError:
            log.debug("the reader of a log disconnected")
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]
        return answer

    async def _health(self, request: web.BaseRequest, info: Info) -> web.Response:
        return web.Response(text="ok")

    async def _metrics(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _text(generate_latest(self.agent.metrics.registry))

    async def _resource(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _text(exposition.resource_page(await self._usage.read()).encode())

    async def _cadvisor(self, request: web.BaseRequest, info: Info) -> web.Response:
        root = str(getattr(self.agent.runtime, "cgroup_root", "/kubepods"))
        cores, memory = self._capacity("cpu").milli / 1000, self._capacity("memory").value
        return _text(exposition.cadvisor_page(await self._usage.read(), root, cores, memory).encode())

    async def _probes(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _text(exposition.probes_page(self.agent.records.values()).encode())

    async def _summary(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _json(await self.stats())

    async def _config(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _json(settings.configz(self.agent.config, self.port))

    async def _pods(self, request: web.BaseRequest, info: Info) -> web.Response:
        return _json(_pod_list([record.api_object for record in self.agent.records.values()]))

    async def _running_pods(self, request: web.BaseRequest, info: Info) -> web.Response:
        alive = {state.config.uid for state in await self.agent.runtime.pods() if state.alive}
        records = self.agent.records.values()
        return _json(_pod_list([record.api_object for record in records if record.uid in alive]))

    async def _story(self, request: web.BaseRequest, info: Info) -> web.Response:
        record = find_pod(self.agent, info["namespace"], info["pod"])
        names = {"namespace": record.namespace, "name": record.name, "uid": record.uid}
        return _json({**names, "story": record.story.to_json()})

    async def _states(self, request: web.BaseRequest, info: Info) -> web.Response:
        record = find_pod(self.agent, info["namespace"], info["pod"])
        return _json(await four_states(self.agent, record))


def _pod_list(pods: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _text(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": exposition.TEXT})
