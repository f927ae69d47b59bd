"""Builds the components of an agent. Each is built after those that it uses, and is complete once built."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.agent.actuation.actuator import Actuator
from podfit.agent.actuation.adoption import Adoption
from podfit.agent.actuation.confirmation import Confirmation
from podfit.agent.actuation.memory_waits import MemoryWaits
from podfit.agent.actuation.restarts import Restarts
from podfit.agent.allocation.admission import Admission
from podfit.agent.allocation.allocations import Allocations
from podfit.agent.allocation.allocator import Allocator
from podfit.agent.allocation.evictions import Evictions
from podfit.agent.backoff import StartBackoff
from podfit.agent.containers.hooks import Hooks
from podfit.agent.containers.port_conflicts import PortConflicts
from podfit.agent.containers.post_start import PostStart
from podfit.agent.containers.power import Power
from podfit.agent.containers.probing import Probing
from podfit.agent.containers.sandboxes import SandboxStarter
from podfit.agent.containers.starter import Starter
from podfit.agent.containers.stopper import Stopper
from podfit.agent.core import Core
from podfit.agent.cpus.build import cpu_policy
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.furnish.environment import Environment
from podfit.agent.furnish.machines import Machines
from podfit.agent.furnish.runtimeclasses import RuntimeClasses
from podfit.agent.furnish.services import Services
from podfit.agent.furnish.volumes.followed import Followed
from podfit.agent.furnish.volumes.objects import ReferencedObjects
from podfit.agent.furnish.volumes.volumes import Volumes
from podfit.agent.images.pull_records import PULLS, PullRecords
from podfit.agent.images.pull_secrets import PullSecrets
from podfit.agent.images.pulls import ImagePulls, PullSlots
from podfit.agent.migration.arrival import Arrivals
from podfit.agent.migration.departure import Departures
from podfit.agent.migration.expected import Expected
from podfit.agent.migration.logs import EarlierLogs
from podfit.agent.migration.steps import Steps
from podfit.agent.node.node import NodeKeeper
from podfit.agent.node.redirect import ApiRedirect
from podfit.agent.phases.context import ContainerParts, NodeParts, Resizing
from podfit.agent.phases.finalizer import Finalizer
from podfit.agent.pods.conditions import Conditions
from podfit.agent.pods.record import PodRecord
from podfit.agent.roster.roster import Roster
from podfit.agent.roster.static import StaticPods
from podfit.agent.roster.updates import PodUpdates
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import hidden_folder
from podfit.agent.status.reporter import Reporter
from podfit.agent.status.writer import StatusWriter
from podfit.api.pods.resources import CPU, MEMORY
from podfit.api.quantity import Quantity
from podfit.client.rest import Client


@dataclass(frozen=True, slots=True)
class Outside:
    """The dependencies of the agent: the API, the runtime, the Node, and the records of its pods."""

    client: Client
    runtime: Runtime
    """The runtime without the wrapper that counts calls."""
    commands: Runtime
    """Counts the commands of hooks and probes."""
    node: NodeKeeper
    records: dict[str, PodRecord]


@dataclass(frozen=True, slots=True)
class Furniture:
    """The inputs of containers: environment, volumes, credentials."""

    objects: ReferencedObjects
    volumes: Volumes
    maker: ContainerMaker
    services: Services
    redirect: ApiRedirect


@dataclass(frozen=True, slots=True)
class Allocation:
    cpus: CpuPolicy
    evictions: Evictions
    allocations: Allocations
    admission: Admission
    allocator: Allocator
    conditions: Conditions
    backoff: StartBackoff


@dataclass(frozen=True, slots=True)
class ImageParts:
    pulls: ImagePulls
    pull_records: PullRecords


@dataclass(frozen=True, slots=True)
class Tracking:
    roster: Roster
    static: StaticPods
    expected: Expected


@dataclass(frozen=True, slots=True)
class BuiltParts:
    furniture: Furniture
    allocation: Allocation
    images: ImageParts
    tracking: Tracking
    parts: NodeParts


def build(core: Core, outside: Outside) -> BuiltParts:
    furniture = build_furniture(core, outside)
    allocation = build_allocation(core, outside)
    images = build_images(core, furniture)
    resizing, adoption = build_resizing(core, allocation)
    updates = PodUpdates(core, outside.records, allocation.allocator, allocation.conditions)
    roster = Roster(
        core,
        outside.records,
        updates,
        allocation.allocator,
        allocation.admission,
        adoption,
        resizing.restarts,
        allocation.cpus,
    )
    static = StaticPods(core, outside.client, roster, updates, lambda: outside.node.uid)
    expected = Expected(core, outside.client, outside.runtime, roster)
    containers, classes = build_containers(core, outside, furniture, allocation, images, resizing)
    steps = Steps(outside.client, outside.runtime, core.config.node_name)
    arrivals = Arrivals(
        core,
        steps,
        containers.sandboxes,
        images.pulls,
        classes,
        allocation.cpus,
        adoption,
        EarlierLogs(outside.client, furniture.maker.log_file),
    )
    finalizer = Finalizer(
        core,
        outside.client,
        roster,
        allocation.cpus,
        furniture.volumes,
        furniture.maker,
        images.pulls,
        (static.on_removed, expected.on_removed),
    )
    parts = NodeParts(
        core,
        resizing,
        containers,
        furniture.volumes,
        arrivals,
        Departures(core, steps, containers.probing),
        Reporter(core, StatusWriter(core, outside.client, updates), outside.node.address),
        finalizer,
    )
    return BuiltParts(furniture, allocation, images, Tracking(roster, static, expected), parts)


def build_furniture(core: Core, outside: Outside) -> Furniture:
    config, clock, node, client = core.config, core.clock, outside.node, outside.client
    objects = ReferencedObjects(client, clock, Followed(client, clock, core.tasks, core.queue.enqueue))
    volumes = Volumes(config, objects, node.address, lambda: node.allocatable, clock)
    redirect = ApiRedirect(outside.runtime, core.tasks)
    services = Services(client, clock, config.api_server, redirect.begin)
    environment = Environment(
        objects,
        config.node_name,
        node.address,
        lambda: node.allocatable,
        services.variables if config.on_disk else None,
    )
    runtime, node_bytes = outside.runtime, Quantity.parse(node.capacity[MEMORY]).value
    maker = ContainerMaker(
        config, environment, volumes, core.ledger, runtime.image_status, node_bytes, runtime.local_profiles
    )
    return Furniture(objects, volumes, maker, services, redirect)


def build_allocation(core: Core, outside: Outside) -> Allocation:
    node, records = outside.node, outside.records
    cpus = cpu_policy(core.config, core.runtime, node.capacity[CPU], core.metrics.cpus, core.tasks, core.clock)
    evictions = Evictions(core, records)
    allocations = Allocations(core.ledger, records, node, core.clock)
    admission = Admission(core, records, node, allocations, evictions, cpus)
    conditions, backoff = Conditions(core.metrics, core.clock), StartBackoff(core.events, core.clock)
    allocator = Allocator(core, records, node, allocations, admission, cpus, conditions, backoff)
    return Allocation(cpus, evictions, allocations, admission, allocator, conditions, backoff)


def build_images(core: Core, furniture: Furniture) -> ImageParts:
    config = core.config
    records = PullRecords(hidden_folder(config.data_dir) / PULLS if config.on_disk else None, config.durable)
    slots = PullSlots(config.parallel_pulls, config.most_pulls)
    return ImageParts(ImagePulls(core, PullSecrets(furniture.objects, core.events), records, slots), records)


def build_resizing(core: Core, allocation: Allocation) -> tuple[Resizing, Adoption]:
    actuator, restarts = Actuator(core.runtime, core.ledger), Restarts(core.ledger)
    resizing = Resizing(
        allocation.allocator,
        allocation.conditions,
        actuator,
        Confirmation(core.runtime, core.ledger, actuator, core.clock),
        restarts,
        MemoryWaits(core.runtime, core.tasks, core.queue),
        allocation.cpus,
    )
    return resizing, Adoption(core.runtime, core.ledger, allocation.allocations, actuator, restarts)


def build_containers(
    core: Core, outside: Outside, furniture: Furniture, allocation: Allocation, images: ImageParts, resizing: Resizing
) -> tuple[ContainerParts, RuntimeClasses]:
    hooks = Hooks(outside.commands, core.clock)
    stopper = Stopper(core, hooks)
    classes = RuntimeClasses(outside.client, simulated=outside.runtime.in_memory)
    backoff = allocation.backoff
    machines = Machines(furniture.objects)
    sandboxes = SandboxStarter(core, furniture.maker, classes, machines, resizing.actuator, backoff)
    starter = Starter(
        core,
        sandboxes,
        images.pulls,
        allocation.cpus,
        resizing.actuator,
        resizing.restarts,
        backoff,
        PostStart(core, hooks, stopper),
    )
    containers = ContainerParts(
        sandboxes,
        starter,
        stopper,
        backoff,
        Probing(core, outside.commands, stopper),
        Power(core),
        PortConflicts(core.config, outside.node.address, core.events, core.clock),
    )
    return containers, classes
