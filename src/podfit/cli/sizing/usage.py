"""Joins pods with metrics.k8s.io, to compare usage with requests and limits. Numbers are millicores and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import pod_requests
from podfit.api.registry.kinds import NODE_METRICS, POD_METRICS, Kind
from podfit.api.resize.progress import pending
from podfit.api.status import ApiError
from podfit.cli.containers import oom_ended
from podfit.cli.printing.amounts import RESOURCES, amount_text, number
from podfit.client import Client

Amounts = dict[str, int]


@dataclass(frozen=True)
class ContainerUse:
    namespace: str
    pod: str
    container: str
    used: Mapping[str, int] | None
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    restarts: int = 0
    oom_killed: bool = False

    def waste(self, resource: str) -> int | None:
        """The unused part of the request."""
        if self.used is None or resource not in self.requests:
            return None
        return max(0, self.requests[resource] - self.used.get(resource, 0))

    @property
    def risk(self) -> str:
        """A risk in a word or two; "" for none."""
        if self.oom_killed:
            return "OOM-killed"
        if self.used is None:
            return ""
        found = []
        memory, cpu = self.used.get("memory", 0), self.used.get("cpu", 0)
        if "memory" in self.limits and memory >= 0.9 * self.limits["memory"]:
            found.append("near OOM")
        elif "memory" in self.requests and memory > self.requests["memory"]:
            found.append("over memory request")
        if "cpu" in self.limits and cpu >= 0.9 * self.limits["cpu"]:
            found.append("throttled")
        return ", ".join(found)


@dataclass(frozen=True)
class NodeUse:
    name: str
    used: Mapping[str, int] | None
    requested: Amounts = field(default_factory=dict)
    allocatable: Amounts = field(default_factory=dict)
    pods: int = 0
    waiting: int = 0
    """Pods whose resize is deferred or infeasible."""


def amounts_of(resources: Mapping[str, Any] | None) -> Amounts:
    return {name: number(name, value) for name, value in (resources or {}).items() if name in RESOURCES}


Report = Callable[[str], object]


def _ignore(why: str) -> None:
    pass


async def pod_metrics(
    client: Client, namespace: str, selector: str = "", report: Report = _ignore
) -> dict[tuple[str, str], Object] | None:
    """Usage by (namespace, pod); None if there are no metrics: then `report` is called with the reason."""
    query = {"labelSelector": selector} if selector else {}
    listed = await _listed(client, POD_METRICS, namespace, query, report)
    if listed is None:
        return None
    return {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listed}


async def node_metrics(client: Client, report: Report = _ignore) -> dict[str, Object] | None:
    """Usage of nodes by name, otherwise like `pod_metrics`."""
    listed = await _listed(client, NODE_METRICS, "", {}, report)
    return None if listed is None else {item["metadata"]["name"]: item for item in listed}


async def _listed(
    client: Client, kind: Kind, namespace: str, query: dict[str, str], report: Report
) -> list[Object] | None:
    try:
        return list((await client.list(kind, namespace, **query))["items"])
    except ApiError as error:
        if error.code not in (404, 503):
            raise
        report("metrics.k8s.io is not served" if error.code == 404 else f"metrics.k8s.io does not answer: {error}")
        return None


def container_uses(pods: list[Object], metrics: Mapping[tuple[str, str], Object] | None) -> list[ContainerUse]:
    found = []
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        measured = {
            usage["name"]: amounts_of(usage["usage"])
            for usage in ((metrics or {}).get(key) or {}).get("containers", ())
        }
        for container in _running(pod):
            found.append(_use(pod, key, container, measured.get(container["name"])))
    return found


def _running(pod: Object) -> list[Object]:
    sidecars = [
        container for container in pod["spec"].get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    return [*sidecars, *pod["spec"]["containers"]]


def _use(pod: Object, key: tuple[str, str], container: Object, used: Amounts | None) -> ContainerUse:
    status = pod.get("status") or {}
    seen: Object = next(
        (
            item
            for field_name in ("containerStatuses", "initContainerStatuses")
            for item in status.get(field_name) or ()
            if item["name"] == container["name"]
        ),
        {},
    )
    resources = seen.get("resources") or container.get("resources") or {}
    return ContainerUse(
        *key,
        container["name"],
        used,
        amounts_of(resources.get("requests")),
        amounts_of(resources.get("limits")),
        int(seen.get("restartCount") or 0),
        oom_ended(seen) is not None,
    )


def node_uses(nodes: list[Object], pods: list[Object], metrics: Mapping[str, Object] | None) -> list[NodeUse]:
    held: dict[str, Amounts] = {}
    count: dict[str, int] = {}
    waiting: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        status = pod.get("status") or {}
        if not node or status.get("phase") in ("Succeeded", "Failed"):
            continue
        count[node] = count.get(node, 0) + 1
        waiting[node] = waiting.get(node, 0) + (pending(pod) is not None)
        total = held.setdefault(node, dict.fromkeys(RESOURCES, 0))
        for name, amount in pod_requests(pod, use_status=True).items():
            if name in total:
                total[name] += amount.milli if name == "cpu" else amount.value
    return [
        NodeUse(
            name := node["metadata"]["name"],
            amounts_of(metrics[name]["usage"]) if metrics and name in metrics else None,
            held.get(name, dict.fromkeys(RESOURCES, 0)),
            amounts_of((node.get("status") or {}).get("allocatable")),
            count.get(name, 0),
            waiting.get(name, 0),
        )
        for node in nodes
    ]


def text_of(resource: str, amounts: Mapping[str, int] | None) -> str:
    return "-" if amounts is None or resource not in amounts else amount_text(resource, amounts[resource])
