"""Small scenarios for tests."""

from __future__ import annotations

from typing import Any

from podfit.sim.scenario.model import CONSTANT, Curve, Fault, NodeGroup, Scenario, Size, Workload

MIB = 2**20
GIB = 2**30
HOUR = 3600.0


def level(amount: float, noise: float = 0.0) -> Curve:
    return Curve(CONSTANT, amount, noise=noise)


def a_workload(name: str = "web", **fields: Any) -> Workload:
    """One replica of 500m and 512Mi that uses less than that."""
    given: dict[str, Any] = {
        "replicas": 1,
        "cpu": 500,
        "memory": 512 * MIB,
        "limits": Size(),
        "cpu_curve": level(0.2),
        "memory_curve": level(200.0 * MIB),
    }
    return Workload(name, **{**given, **fields})


def a_scenario(*workloads: Workload, nodes: int = 2, cpu: int = 4000, memory: int = 8 * GIB, **fields: Any) -> Scenario:
    given: dict[str, Any] = {"duration_s": 4 * HOUR}
    return Scenario((NodeGroup("node", nodes, cpu, memory),), workloads, **{**given, **fields})


def node_down(at_s: float, for_s: float, count: int = 1) -> Fault:
    return Fault("node-down", at_s, for_s, count=count)
