"""Builds all components in one process: API server, controllers, scheduler, agents, meter and autoscaler."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from podfit.api.objects import freeze
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN, Request, Response, User
from podfit.client import Client
from podfit.compose.options import UpOptions
from podfit.compose.parts import (
    CONTROLLERS,
    SCHEDULER,
    account_client,
    account_user,
    make_blocks,
    make_controller_context,
    node_user,
    open_store,
)
from podfit.compose_runtimes import RuntimeSettings, make_runtime
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks

if TYPE_CHECKING:
    import ssl

    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
    from podfit.agent.agent import Agent
    from podfit.agent.server.server import NodeServer
    from podfit.apiserver.config import Config
    from podfit.compose_vm import VmProcess
    from podfit.meter.meter import Meter
    from podfit.vpa.combined import Autoscaler

RANGE_WAIT_S = 5.0
"""How long a node waits for a pod range from the cluster's range; after that it starts with one of its own choice."""


class Up:
    """API server, controllers, scheduler, agents, meter and autoscaler, all in this process."""

    def __init__(self, options: UpOptions, clock: Clock | None = None) -> None:
        from podfit.apiserver.app import ApiServer

        self.options = options
        self.clock: Clock = clock or RealClock()
        self.tasks = Tasks("up")
        self.agents: list[Agent] = []
        self.node_servers: list[NodeServer] = []
        self._node_tls: ssl.SSLContext | None = None
        self.meter: Meter | None = None
        self.autoscaler: Autoscaler | None = None
        self.vms: VmProcess | None = None
        options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.server = ApiServer(self._server_config())

    def client(self, user: User, name: str) -> Client:
        """A client for a component of this process. Watches and writes return objects that all components share."""
        return local_client(self.server, user, name, shares=True)

    def _server_config(self) -> Config:
        from podfit.apiserver.config import Config

        options = self.options
        return Config(
            open_store(options.store, options.data_dir),
            options.data_dir,
            options.host,
            options.port,
            extra_sans=options.extra_sans,
            enable_admission=options.enable_admission,
            disable_admission=options.disable_admission,
            token_file=options.token_file,
            in_flight=options.in_flight,
            resize_dialect=options.resize_dialect,
            clock=self.clock,
        )

    @property
    def kubeconfig(self) -> Path:
        return self.options.kubeconfig or self.options.data_dir / "admin.kubeconfig"

    async def start(self) -> None:
        from podfit.store.compact import Compactor

        await self.server.start()
        self._write_kubeconfigs()
        self.tasks.start(Compactor(self.server.config.store, clock=self.clock).run(), "compaction")
        if self.options.controllers:
            self.tasks.start(self._controllers(), "controllers")
        if self.options.scheduler:
            self.tasks.start(self._scheduler(), "scheduler")
        if self.options.vm:
            await self._start_vms()
        for name in self.options.node_names():
            await self._start_agent(name)
        if self.options.controllers:
            await self._start_meter()
        if self.options.vpa:
            await self._start_autoscaler()
        await asyncio.gather(*(agent.synced.wait() for agent in self.agents))

    def _write_kubeconfigs(self) -> None:
        from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfigs
        from podfit.client.merging import merge, read_renamed

        options, parts = self.options, {"controllers": CONTROLLERS.name, "scheduler": SCHEDULER.name}
        folder, context = options.data_dir, options.context
        write_kubeconfigs(folder, self.server.pki, self.server.url, context, parts, options.node_names())
        if options.kubeconfig is not None:
            merge(options.kubeconfig, read_renamed(folder / "admin.kubeconfig", context))

    async def _controllers(self) -> None:
        from podfit.controllers.all import run_controllers

        client, writer = self.client(CONTROLLERS, "controllers"), partial(account_client, self.server, shares=True)
        context = make_controller_context(client, self.clock, self.server.pki.ca, writer)
        context.sign_request = self.server.pki.signer
        context.pod_blocks = make_blocks(self.options.pod_ranges)
        await run_controllers(context)

    async def _scheduler(self) -> None:
        from podfit.scheduler import Scheduler, SchedulerConfig

        client = self.client(SCHEDULER, "scheduler")
        scheduler = Scheduler(client, self.options.scheduling or SchedulerConfig(), self.clock)
        self.server.show_metrics({"scheduler": scheduler.metrics.text})
        await scheduler.run()

    async def _start_vms(self) -> None:
        from podfit.api.registry.kinds import kind_named
        from podfit.api.status import ApiError
        from podfit.compose_vm import HANDLER, VmProcess, runtime_class
        from podfit.images.store import IMAGES

        self.vms = VmProcess(self.options.data_dir, self.options.data_dir / IMAGES, self.options.vm)
        await self.vms.start()
        endpoints = {**self.options.runtime_endpoints, HANDLER: self.vms.endpoint}
        self.options = replace(self.options, runtime_endpoints=endpoints)
        try:
            await local_client(self.server, ADMIN, "installer").create(kind_named("RuntimeClass"), runtime_class())
        except ApiError as error:
            # An existing object may have been changed by an administrator, and is kept.
            if error.code != 409:
                raise

    async def _start_agent(self, name: str) -> None:
        from podfit.agent.agent import Agent
        from podfit.agent.config import AgentConfig

        folder = self.options.data_dir / "nodes" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        config = AgentConfig(
            name,
            folder,
            capacity=self.options.node_capacity,
            **self.options.node_settings,
            range_wait_s=RANGE_WAIT_S if make_blocks(self.options.pod_ranges) else 0.0,
            address=self.server.config.advertised,
            # Fake containers read no files, and mounts would outlive the process.
            on_disk=self.options.runtime != "fake",
            # Fake containers do not outlive the process either, so there is nothing to recover after a crash.
            durable=self.options.runtime != "fake",
            api_server=self.server.url,
        )
        client = self.client(node_user(name), f"agent-{name}")
        options = self.options
        settings = RuntimeSettings(
            options.runtime,
            options.image_fallback,
            options.network,
            options.runtime_endpoint,
            options.runtime_endpoints,
            options.cgroup_root,
            options.insecure_registries,
        )
        runtime = make_runtime(settings, folder, self.clock, config.address)
        agent = Agent(client, runtime, config, self.clock)
        await self._serve_node(agent, client)
        await agent.start()
        self.agents.append(agent)

    async def _serve_node(self, agent: Agent, client: Client) -> None:
        """Starts the node's server before the Node reports its address."""
        from podfit.agent.server.access import Gate, serving_tls
        from podfit.agent.server.server import NodeServer

        if self._node_tls is None:
            # All nodes of the process share one certificate, so that a thousand of them start quickly.
            names = self.options.node_names()
            pair = self.server.pki.node_serving(names[0], (self.server.config.advertised, *names[1:100]))
            self._node_tls = serving_tls(pair.cert, pair.key, self.server.pki.ca)
        gate = Gate(client, agent.config.node_name, self.clock)
        machine = self.options.runtime != "fake"
        port = self.options.node_port + len(self.node_servers) if self.options.node_port else 0
        node = NodeServer(agent, self._node_tls, self.options.host, port, gate, machine)
        await node.start()
        self.node_servers.append(node)

    async def _start_meter(self) -> None:
        """Serves metrics.k8s.io from this process. Nodes of this process are read without a socket."""
        from podfit.meter import api as metrics
        from podfit.meter.meter import Meter, MeterConfig
        from podfit.meter.registration import register

        client = self.client(account_user("podfit-meter"), "meter")
        meter = self.meter = Meter(client, MeterConfig(self.options.meter_resolution_s), self.clock)
        meter.sources.update({node.agent.config.node_name: node.resource_use for node in self.node_servers})
        group = metrics.MetricsApi(meter, client)

        async def answer(request: Request) -> Response:
            shares = request.shares
            given = await group.answer(request.method, request.path, request.query, request.headers, here=shares)
            if shares and given.status == 200:
                return Response(given.status, shared=freeze(given.value))
            return Response(given.status, given.body, given.content_type)

        self.server.register_local_group(f"{metrics.GROUP}/{metrics.VERSION}", answer)
        await register(local_client(self.server, ADMIN, "installer"))
        self.tasks.start(meter.run(), "meter")

    async def _start_autoscaler(self) -> None:
        from podfit.vpa.combined import Autoscaler
        from podfit.vpa.recommender.serving.queries import API_VERSION, Queries, register

        host, folder, flags = self.server.config.advertised, self.options.data_dir, self.options.vpa_flags
        autoscaler = self.autoscaler = Autoscaler(
            lambda name: self.client(account_user(name), name), folder, host, flags, self.clock
        )
        self.server.webhooks.serve_here(autoscaler.hook_at)
        self.server.show_metrics(autoscaler.pages())
        queries = Queries(autoscaler.recommender)

        async def answer(request: Request) -> Response:
            code, value = await queries.answer(request.method, request.path, request.body)
            return Response(code, msgspec.json.encode(value))

        self.server.register_local_group(API_VERSION, answer)
        await register(local_client(self.server, ADMIN, "installer"))
        self.tasks.start(autoscaler.run(), "autoscaler")

    async def stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self.node_servers))
        for agent in self.agents:
            await agent.stop(stop_pods=self.options.stop_pods)
        if self.vms is not None:
            await self.vms.stop()
        await self.tasks.stop()
        await self.server.stop()
