"""A small cluster in one process for tests of nodes: our API server on a store in memory, agents on fake runtimes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
from tests.support.cluster.invariants import expect_node_is_sound

from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.furnish.volumes.volumes import remove_memory_volumes
from podfit.agent.runtimes.fake.node import FakeNodeState
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, NAMESPACE, POD, kind_named
from podfit.api.resize.dialects import LABEL, NATIVE_HEADERS
from podfit.api.status import ApiError
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.front import local
from podfit.apiserver.request import ADMIN, User
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import ClientRequest, Reply, Stream, Transport
from podfit.kit.clock import FakeClock
from podfit.store.memory import MemoryStore


def local_client(server: ApiServer) -> Client:
    return local.local_client(server, ADMIN, "test")


class Native:
    """A transport that requests the native form of pods, as every component does."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.close = inner.close

    async def request(self, ask: ClientRequest) -> Reply:
        return await self._inner.request(self._native(ask))

    def stream(self, ask: ClientRequest) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(self._native(ask))

    @staticmethod
    def _native(ask: ClientRequest) -> ClientRequest:
        return msgspec.structs.replace(ask, headers={**NATIVE_HEADERS, **(ask.headers or {})})


def _native(client: Client) -> Client:
    return Client(Native(client.transport))


class Cluster:
    """One API server; `node` adds an agent whose machine outlives it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.server = ApiServer(Config(MemoryStore(), folder / "server", tls=False, **options))
        self.client = local_client(self.server)
        self.native = _native(self.client)
        """The same client, but pods are requested in native form, as stored, regardless of a namespace's dialect."""
        self.clock = FakeClock()
        self.nodes: list[TestNode] = []

    async def __aenter__(self) -> Cluster:
        await self.server.start()
        await self.namespace("default")
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            await node.stop()
            remove_memory_volumes(node.config.pods_dir)
        await self.server.stop()

    async def namespace(self, name: str, dialect: str = "") -> None:
        """Creates a namespace with the service account that a controller would add; `dialect`: the value of its dialect
        label."""
        labels = {"labels": {LABEL: dialect}} if dialect else {}
        bodies: list[tuple[Any, Object]] = [
            (NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **labels}}),
            (
                kind_named("ServiceAccount"),
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": "default", "namespace": name},
                },
            ),
        ]
        for kind, body in bodies:
            try:
                await self.client.create(kind, body)
            except ApiError as error:
                if error.code != 409:
                    raise

    async def node(self, name: str = "node1", *, user: User = ADMIN, **config: Any) -> TestNode:
        node = TestNode(self, name, config, user)
        self.nodes.append(node)
        await node.start()
        return node

    async def pod(self, name: str, namespace: str = "default") -> Object:
        return await self.client.get(POD, namespace, name)

    async def resize(self, name: str, patch: Object, namespace: str = "default") -> Object:
        return await self.client.patch(POD, namespace, name, patch, "resize", STRATEGIC)

    async def events(self, namespace: str = "default") -> list[Object]:
        return list((await self.client.list(EVENT, namespace))["items"])


class TestNode:
    __test__ = False

    def __init__(self, cluster: Cluster, name: str, config: dict[str, Any], user: User = ADMIN) -> None:
        """`user`: the identity of its agent at the API server."""
        self.cluster, self.name = cluster, name
        self._client = cluster.native if user is ADMIN else _native(local.local_client(cluster.server, user, "test"))
        self.machine = FakeNodeState()
        data = cluster.folder / name
        self.config = AgentConfig(
            **{
                "node_name": name,
                "data_dir": data,
                "durable": False,
                "on_disk": False,
                "address": "10.0.0.1",
                **config,
            }
        )
        self.runtime = FakeRuntime(cluster.clock, self.machine)
        self.agent = self._agent()
        self.up = False

    def _agent(self) -> Agent:
        return Agent(self._client, self.runtime, self.config, self.cluster.clock)

    async def start(self) -> None:
        if self.up:
            return
        self.up = True
        await self.agent.start()
        await asyncio.wait_for(self.agent.synced.wait(), 20)
        await self.quiet()

    async def stop(self) -> None:
        if self.up:
            self.up = False
            await self.agent.stop()

    async def restart(self) -> None:
        """Restarts the agent on the same machine and the same disk."""
        await self.stop()
        self.runtime = FakeRuntime(self.cluster.clock, self.machine)
        self.agent = self._agent()
        await self.start()

    async def quiet(self) -> None:
        """Waits until nothing is in progress: watch events delivered, passes ended, Events sent."""
        calm = 0
        while calm < 12:
            await asyncio.sleep(0)
            before = self.cluster.server.config.store.revision
            await asyncio.sleep(0)
            if self.up:
                await self.agent.idle()
            calm = calm + 1 if before == self.cluster.server.config.store.revision else 0
        if self.up and self.agent.synced.is_set():
            expect_node_is_sound(self.agent, self.machine)

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        while seconds > 0:
            await self.cluster.clock.advance(min(step, seconds))
            await self.quiet()
            seconds -= step

    async def until(self, done: Callable[[], Any], limit_s: float = 60.0) -> None:
        """Advances virtual time until `done`, which may be a coroutine function, returns true."""
        spent = 0.0
        while True:
            await self.quiet()
            answer = done()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            if spent >= limit_s:
                raise AssertionError(f"not so after {limit_s} virtual seconds")
            await self.cluster.clock.advance(0.5)
            spent += 0.5
