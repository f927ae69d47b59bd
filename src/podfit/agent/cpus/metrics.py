"""Metrics of the CPU manager, under the kubelet's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus
from podfit.agent.cpus.decide.topology import Topology
from podfit.kit.series import Counter, Gauge


class CpuMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "kubelet_cpu_manager_pinning_requests_total",
            "The number of cpu core allocations which required pinning.",
            registry=registry,
        )
        self.errors = Counter(
            "kubelet_cpu_manager_pinning_errors_total",
            "The number of cpu core allocations which required pinning failed.",
            registry=registry,
        )
        self.shared_pool = Gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores",
            "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
            registry=registry,
        )
        self.exclusive = Gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count",
            "The total number of CPUs exclusively allocated to containers running on this node",
            registry=registry,
        )
        self.per_numa = Gauge(
            "kubelet_cpu_manager_allocation_per_numa",
            "Number of CPUs allocated per NUMA node",
            ["numa_node"],
            registry=registry,
        )

    def requested(self, containers: int) -> None:
        self.requests.inc(containers)

    def failed(self) -> None:
        self.errors.inc()

    def started(self, topology: Topology, reserved: Cpus, assigned: Cpus) -> None:
        """The size of the pool excludes reserved CPUs, as in the kubelet."""
        self.shared_pool.inc(1000 * len(topology.all - reserved))
        self.changed(topology, NO_CPUS, assigned)

    def changed(self, topology: Topology, before: Cpus, after: Cpus) -> None:
        self.shared_pool.inc(1000 * (len(before) - len(after)))
        self.exclusive.inc(len(after) - len(before))
        for node, cpus in topology.numa_nodes.members.items():
            self.per_numa.labels(str(node)).inc(len(cpus & after) - len(cpus & before))
