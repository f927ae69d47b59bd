"""Builds the CPU policy from an agent's configuration."""

from __future__ import annotations

from podfit.agent.config import AgentConfig
from podfit.agent.cpus.checkpoint import FILE
from podfit.agent.cpus.decide.state import STATIC
from podfit.agent.cpus.decide.topology import Topology, flat
from podfit.agent.cpus.exclusive import ExclusiveCpus
from podfit.agent.cpus.machine import read
from podfit.agent.cpus.metrics import CpuMetrics
from podfit.agent.cpus.placement import StaticPolicy
from podfit.agent.cpus.policy import CpuPolicy, NoPolicy
from podfit.agent.cpus.reservation import reserved_milli, reserved_set
from podfit.agent.runtimes.base import Runtime
from podfit.api.quantity import Quantity
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks


def cpu_policy(
    config: AgentConfig, runtime: Runtime, cpus: str, metrics: CpuMetrics, tasks: Tasks, clock: Clock
) -> CpuPolicy:
    """`cpus`: the node's capacity. An in-memory runtime has this many CPUs, whatever the machine has."""
    path = config.data_dir / FILE

    def topology() -> Topology:
        if config.cpu_topology is not None:
            return config.cpu_topology
        return flat(max(1, Quantity.parse(cpus).value)) if runtime.in_memory else read()

    if config.policy.cpu_manager != STATIC:
        return NoPolicy(path if config.on_disk else None, runtime, topology, config.durable)
    found = topology()
    reserved = reserved_set(found, reserved_milli(config.reserved, config.kube_reserved), config.reserved_cpus)
    return StaticPolicy(ExclusiveCpus(path, found, reserved, metrics, config.durable), runtime, tasks, clock)
