"""Builds every object: the only file that names a concrete store, and the one place where parts meet. Runtimes are made
by compose_runtimes.

`Up` is everything in one process. The components that run alone (`podfit scheduler`, `podfit agent` …) are built by
the small functions at the end, from a kubeconfig.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from podfit.api.objects import freeze
from podfit.api.resize.dialects import NATIVE
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN, Request, Response, User
from podfit.client import Client, EventRecorder
from podfit.client.transport import HttpTransport, SharedLines, load_pair
from podfit.compose_runtimes import CONTAINERD, RuntimeSettings, make_runtime
from podfit.kit.badsetting import BadSetting as BadSetting
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import reached_at

if TYPE_CHECKING:
    import ssl

    # A process loads the parts it runs, when it builds them: the API server alone starts in half the time and memory.
    from podfit.agent.agent import Agent
    from podfit.agent.config import AgentConfig
    from podfit.agent.server.server import NodeServer
    from podfit.apiserver.app import ApiServer
    from podfit.apiserver.config import Config
    from podfit.client.kubeconfig import Access
    from podfit.compose_vm import VmProcess
    from podfit.controllers.nodes.blocks import Blocks, PodRanges
    from podfit.controllers.world import World
    from podfit.meter.meter import Meter
    from podfit.meter.server import MeterServer
    from podfit.podnet.network import NetworkSettings
    from podfit.scheduler import SchedulerConfig
    from podfit.store.backend import Store
    from podfit.vpa.together import Autoscaler

log = logging.getLogger(__name__)

CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
Signer = Callable[[bytes, Sequence[str], int | None], bytes]
SCHEDULER = User("system:kube-scheduler", ("system:authenticated",))


# --- parts --------------------------------------------------------------------------------------------------------


def open_store(setting: str, data_dir: Path) -> Store:
    """`memory`, `sqlite` (a file in the data directory) or `etcd=URL[,URL…]`."""
    if setting == "memory":
        from podfit.store.memory import MemoryStore

        return MemoryStore()
    if setting == "sqlite":
        from podfit.store.disk.sqlite import SqliteStore

        return SqliteStore(data_dir / "podfit.db")
    if setting.startswith("etcd="):
        from podfit.store.etcd import EtcdStore

        if urls := [url for url in setting.removeprefix("etcd=").split(",") if url]:
            return EtcdStore(urls)
    raise BadSetting(f"--store {setting!r}: it is sqlite, memory or etcd=URL[,URL…]")


def make_world(
    client: Client, clock: Clock, cluster_ca: bytes = b"", client_of: Callable[[str], Client] | None = None
) -> World:
    """`client` reads for all controllers and records their Events; each writes by the client of its service account."""
    from podfit.controllers.world import Informers, World

    recorder = EventRecorder(client, "podfit-controllers", clock=clock)
    return World(client, Informers(client, clock), recorder, clock, cluster_ca, client_of=client_of)


def make_blocks(ranges: PodRanges | None) -> tuple[Blocks, ...]:
    from podfit.controllers.nodes.blocks import blocks_of

    return blocks_of(ranges) if ranges is not None else ()


def account_user(name: str) -> User:
    """A service account of kube-system, as a part of this process acts by it."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return User(f"system:serviceaccount:kube-system:{name}", groups)


def account_client(server: ApiServer, name: str, lines: SharedLines | None = None) -> Client:
    """For a controller of this process, in the name of a service account of kube-system."""
    return local_client(server, account_user(name), "controllers", lines)


def node_user(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes", "system:authenticated"))


RANGE_WAIT_S = 5.0
"""A node that gets no part of the cluster's range by then starts with one of its own choice."""

# --- everything in one process ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UpOptions:
    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    store: str = "sqlite"
    runtime: str = "process"
    nodes: int = 1
    node_name: str = ""
    node_capacity: Mapping[str, str] = field(default_factory=dict)
    enable_admission: tuple[str, ...] = ()
    disable_admission: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    stop_pods: bool = False
    extra_sans: tuple[str, ...] = ()
    token_file: Path | None = None
    in_flight: tuple[int, int] = (400, 200)
    resize_dialect: str = NATIVE
    controllers: bool = True
    scheduler: bool = True
    scheduling: SchedulerConfig | None = None
    context: str = "podfit"
    """What kubeconfigs call the cluster."""
    vpa: bool = True
    vpa_flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Command lines of the autoscaler's components: recommender, updater, admission."""
    node_port: int = 0
    insecure_registries: tuple[str, ...] = ()
    image_fallback: str = ""
    """What images that are absent run on: "host" for the node's own files, "" for nothing."""
    network: NetworkSettings | None = None
    """How pods are connected; None for the defaults."""
    pod_ranges: PodRanges | None = None
    """What nodes get their pod ranges from."""
    runtime_endpoint: str = CONTAINERD
    """Of --runtime cri."""
    runtime_endpoints: Mapping[str, str] = field(default_factory=dict)
    """Further runtimes, by the handler of the RuntimeClass that chooses them."""
    cgroup_root: str = ""
    vm: str = ""
    """"tcg" or "kvm": VMs run as pods of the RuntimeClass `vm`, in a VM runtime beside the agents."""
    meter_resolution_s: float = 15.0
    """How often what containers use is read."""

    node_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the nodes' AgentConfig."""

    def node_names(self) -> list[str]:
        first = self.node_name or socket.gethostname().lower()
        if self.nodes == 1:
            return [first]
        return [f"{first}-{number}" for number in range(1, self.nodes + 1)]


class Up:
    """API server, controllers, scheduler, agents, meter and autoscaler, all in this process."""

    def __init__(self, options: UpOptions, clock: Clock | None = None) -> None:
        from podfit.apiserver.app import ApiServer

        self.options = options
        self.clock: Clock = clock or RealClock()
        self.tasks = Tasks("up")
        self._lines = SharedLines()
        self.agents: list[Agent] = []
        self.node_servers: list[NodeServer] = []
        self._node_tls: ssl.SSLContext | None = None
        self.meter: Meter | None = None
        self.autoscaler: Autoscaler | None = None
        self.vms: VmProcess | None = None
        options.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.server = ApiServer(self._server_config())

    def client(self, user: User, name: str) -> Client:
        """For a part of this process: what it watches and writes comes as objects that all of them share."""
        return local_client(self.server, user, name, self._lines)

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

        client, writer = (
            self.client(CONTROLLERS, "controllers"),
            partial(account_client, self.server, lines=self._lines),
        )
        world = make_world(client, self.clock, self.server.pki.ca, writer)
        world.sign_request = self.server.pki.signer
        world.pod_blocks = make_blocks(self.options.pod_ranges)
        await run_controllers(world)

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
            # One that is there already may have been changed by its owner, and stays.
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
            # Fake containers read no files: mounts of theirs would only outlive the process.
            on_disk=self.options.runtime != "fake",
            # Nor do they outlive it, so there is nothing to find again after a crash.
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
        """The node's own server, up before the Node says where it is."""
        from podfit.agent.server.access import Gate, serving_tls
        from podfit.agent.server.server import NodeServer

        if self._node_tls is None:
            # One certificate for all nodes of the process: a thousand of them start quickly.
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
        """metrics.k8s.io from this process; nodes of this process are read without a socket."""
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
        from podfit.vpa.recommender.serving.queries import API_VERSION, Queries, register
        from podfit.vpa.together import Autoscaler

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


# --- one component alone ------------------------------------------------------------------------------------------


def identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}"


async def as_leader(client: Client, name: str, work: Callable[[], Awaitable[None]], elect: bool, clock: Clock) -> None:
    """Runs `work` for ever; with `elect` only while this process holds the Lease `name`. Closes the client after it."""
    from podfit.reconcile.lease import Leadership

    try:
        if not elect:
            await work()
            return
        leadership = Leadership(client, name, identity(), clock=clock)
        try:
            await leadership.lead(work)
        finally:
            await leadership.release()
    finally:
        await client.close()


async def controllers_alone(
    access: Access,
    elect: bool,
    signer: Signer | None = None,
    root_ca: bytes = b"",
    ranges: PodRanges | None = None,
    by_accounts: bool = True,
) -> None:
    """`root_ca`: published in every namespace as kube-root-ca.crt; that of `access` by default. `by_accounts`: each
    controller writes in the name of its service account."""
    from podfit.client.accounts import Accounts
    from podfit.controllers.all import run_controllers

    clock, client = RealClock(), Client(access.transport("podfit-controllers"))
    accounts = Accounts(access, client, "podfit-controllers", clock) if by_accounts else None

    async def work() -> None:
        client_of = accounts.client if accounts is not None else None
        world = make_world(client, clock, root_ca or access.ca or b"", client_of)
        world.sign_request = signer
        world.pod_blocks = make_blocks(ranges)
        await run_controllers(world)

    try:
        await as_leader(client, "kube-controller-manager", work, elect, clock)
    finally:
        if accounts is not None:
            await accounts.close()


async def scheduler_alone(access: Access, elect: bool, config: SchedulerConfig) -> None:
    from podfit.scheduler import Scheduler

    clock, client = RealClock(), Client(access.transport("podfit-scheduler"))
    await as_leader(client, "kube-scheduler", Scheduler(client, config, clock).run, elect, clock)


async def agent_alone(
    access: Access, runtime: RuntimeSettings, config: AgentConfig, identity: Path | None = None, serving: bool = False
) -> Agent:
    """A started agent; the caller stops it. `identity`: the file of a client certificate that is to be renewed;
    `serving`: whether the cluster's signer is asked for a certificate of the node's own server."""
    from podfit.agent.agent import Agent

    clock = RealClock()
    config = replace(config, api_server=config.api_server or access.server)
    transport = access.transport(f"podfit-agent-{config.node_name}")
    client = Client(transport)
    made = make_runtime(runtime, config.data_dir, clock, config.address)
    agent = Agent(client, made, config, clock)
    node = await _serve_alone(agent, access, client, runtime.kind != "fake")
    agent.at_stop.append(node.stop)
    await agent.start()
    _rotate(agent, access, transport, identity, node.tls if serving else None)
    return agent


def _rotate(
    agent: Agent, access: Access, transport: HttpTransport, identity: Path | None, serving: ssl.SSLContext | None
) -> None:
    from podfit.agent.node.join import keep_identity
    from podfit.agent.node.rotation import CLIENT, SERVING, Rotation

    tasks, name, client = Tasks("rotation"), agent.config.node_name, agent.client
    agent.at_stop.append(tasks.stop)

    def renew_identity(cert: bytes, key: bytes) -> None:
        assert identity is not None
        keep_identity(replace(access, cert=cert, key=key), name, identity)
        transport.show_certificate(cert, key)

    if identity is not None:
        rotation = Rotation(client, name, CLIENT, renew_identity, agent.clock)
        tasks.start(rotation.run(access.cert), "client certificate")
    if serving is not None:
        rotation = Rotation(client, name, SERVING, partial(load_pair, serving), agent.clock, (name, agent.node.address))
        tasks.start(rotation.run(None), "serving certificate")


async def _serve_alone(agent: Agent, access: Access, client: Client, machine: bool) -> NodeServer:
    """With a certificate of its own making, as kubelets have until somebody signs them one."""
    from podfit.agent.config import DEFAULT_PORT
    from podfit.agent.server.access import Gate, serving_tls
    from podfit.agent.server.server import NodeServer
    from podfit.apiserver.auth.certs.selfsigned import self_signed

    name, address = agent.config.node_name, agent.node.address
    pair = await self_signed(name, (name, address))
    tls = serving_tls(pair.cert, pair.key, access.ca)
    gate = Gate(client, name, agent.clock)
    node = NodeServer(agent, tls, agent.config.listen_address or address, agent.config.port, gate, machine)
    try:
        await node.start()
    except OSError as error:
        if agent.config.port != DEFAULT_PORT:
            raise
        # Two agents of one machine: the Node says where this one listens.
        log.warning("%s; another one is used", error.strerror)
        node.port = 0
        await node.start()
    return node


class MeterAlone:
    """The meter as a process of its own; the API server of `access` passes requests for metrics.k8s.io on to it."""

    def __init__(self, access: Access, host: str, port: int, url: str = "", resolution_s: float = 15.0) -> None:
        """`url`: where the API server reaches it, if not at `host` and `port`."""
        from podfit.meter.meter import Meter, MeterConfig

        self._client, self._host, self._port, self._url = Client(access.transport("podfit-meter")), host, port, url
        self.meter = Meter(self._client, MeterConfig(resolution_s))
        self._tasks = Tasks("meter")
        self._server: MeterServer | None = None

    async def start(self) -> str:
        """The URL it serves."""
        from podfit.agent.server.access import serving_tls
        from podfit.apiserver.auth.certs.certificates import Authority, new_authority
        from podfit.apiserver.auth.certs.pki import CERT_TTL
        from podfit.meter.api import MetricsApi
        from podfit.meter.registration import Remote, front_proxy, register
        from podfit.meter.server import MeterServer

        proxy = await front_proxy(self._client)
        authority = Authority.load(new_authority("podfit-meter-ca", CERT_TTL))
        pair = authority.server("podfit-meter", (self._host, "podfit-meter.kube-system.svc"), CERT_TTL)
        api = MetricsApi(self.meter, self._client)
        tls = serving_tls(pair.cert, pair.key, proxy.ca)
        server = self._server = MeterServer(api, tls, self._host, self._port, proxy.names)
        await server.start()
        url = self._url or server.url.replace(self._host, reached_at(self._host), 1)
        await register(self._client, Remote(url, authority.pem))
        self._tasks.start(self.meter.run(), "meter")
        return server.url

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._server is not None:
            await self._server.stop()
        await self._client.close()
