"""Simulated pods and nodes as API objects, for decisions that read objects. Pods of one size share their spec."""

from __future__ import annotations

from podfit.agent.decide.resize.allocate import NodePolicy
from podfit.api.objects import Object
from podfit.api.pods.resources import BURSTABLE, GUARANTEED
from podfit.api.resize.states import Resources
from podfit.scheduler.decide.pod.terms import HOSTNAME
from podfit.sim.scenario.model import NodeGroup, Workload

NAMESPACE, CONTAINER = "default", "main"
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
NODE_POLICY = NodePolicy()
_MOST_SPECS = 65536


def node_name(group: NodeGroup, number: int) -> str:
    return f"{group.name}-{number}"


def node_object(group: NodeGroup, number: int, down: bool = False) -> Object:
    name = node_name(group, number)
    allocatable = {"cpu": f"{group.cpu}m", "memory": str(group.memory), "pods": str(group.pods)}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **group.labels}},
        "spec": {"taints": [UNREACHABLE]} if down else {},
        "status": {"allocatable": allocatable},
    }


def replica_set(workload: Workload) -> Object:
    return {
        "kind": "ReplicaSet",
        "metadata": {"name": workload.name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": workload.name}}},
    }


class Template:
    """Builds the pod objects of one workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._labels = {"app": workload.name}
        self._owners = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload.name, "uid": "", "controller": True}
        ]
        self._specs: dict[tuple[int, int], Object] = {}
        both = (workload.limits.cpu, workload.limits.memory) == (workload.cpu, workload.memory)
        self.qos = GUARANTEED if both else BURSTABLE

    def resources(self, cpu: int, memory: int) -> Resources:
        """The requests, and limits in the workload's proportion to them."""
        own = self._workload
        limits = {}
        if own.limits.cpu is not None:
            limits["cpu"] = f"{round(cpu * own.limits.cpu / own.cpu)}m"
        if own.limits.memory is not None:
            limits["memory"] = str(round(memory * own.limits.memory / own.memory))
        requests = {"cpu": f"{cpu}m", "memory": str(memory)}
        return {"requests": requests, "limits": limits} if limits else {"requests": requests}

    def pod(self, number: int, cpu: int, memory: int) -> Object:
        name = f"{self._workload.name}-{number}"
        meta = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": name,
            "labels": self._labels,
            "ownerReferences": self._owners,
        }
        return {"metadata": meta, "spec": self._spec(cpu, memory), "status": {}}

    def _spec(self, cpu: int, memory: int) -> Object:
        found = self._specs.get((cpu, memory))
        if found is None:
            if len(self._specs) >= _MOST_SPECS:
                self._specs.clear()
            containers = [{"name": CONTAINER, "resources": self.resources(cpu, memory)}]
            found = {"containers": containers, "priority": self._workload.priority}
            if self._workload.node_selector:
                found["nodeSelector"] = dict(self._workload.node_selector)
            self._specs[cpu, memory] = found
        return found
