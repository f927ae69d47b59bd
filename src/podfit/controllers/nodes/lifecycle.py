"""Detects nodes that stopped reporting, and taints nodes by their conditions.

A node reports by renewing its Lease or by a heartbeat in its status. Silence is measured on our own clock, from the
last change we saw: the node's clock does not matter. A server outage does not count: while our own watch is
disconnected, no node is judged.
"""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.registry.kinds import LEASE, NODE, POD
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.controllers.context import ControllerContext
from podfit.controllers.nodes import zones
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

GRACE_S = 50.0
STARTUP_GRACE_S = 60.0
NODE_LEASES = "kube-node-lease"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_CONDITION_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
TTL = "node.alpha.kubernetes.io/ttl"
_CACHE_TTL_S = ((100, 0), (500, 15), (1000, 30), (2000, 60))
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = {*_CONDITION_TAINTS.values(), UNSCHEDULABLE}
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(slots=True)
class Heartbeat:
    """The last heartbeat of a node: its content, and when it arrived on our monotonic clock."""

    seen: tuple[str, str]
    at: float
    reported: bool


class NodeLifecycleController:
    name = "node-lifecycle-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._nodes, self._leases, self._pods = context.cache(NODE), context.cache(LEASE), context.cache(POD)
        self._signs: dict[str, Heartbeat] = {}
        self._zones = zones.Zones()
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._nodes.subscribe(self._node_changed)
        self._leases.subscribe(self._lease_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                self._zones.put(before["metadata"]["name"], None)
                self._signs.pop(before["metadata"]["name"], None)
                self._emit_event(before, "RemovingNode", "Removing Node {} from Controller")
            return
        self._zones.put(after["metadata"]["name"], after)
        if before is None:
            self._emit_event(after, "RegisteredNode", "Registered Node {} in Controller")
        elif zones.is_ready(before) != zones.is_ready(after):
            # Whether pods of lost nodes are evicted depends on the number of lost nodes.
            for name in self._zones.changed_nodes():
                self._engine.add(name)
        self._note(after["metadata"]["name"])
        self._engine.add(after["metadata"]["name"])

    def _emit_event(self, node: Object, reason: str, words: str) -> None:
        name = node["metadata"]["name"]
        self._context.recorder.record(node, "Normal", reason, f"Node {name} event: {words.format(name)}")

    def _lease_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and after["metadata"]["namespace"] == NODE_LEASES:
            name = after["metadata"]["name"]
            self._note(name)
            node = self._nodes.get("", name)
            # A renewal of a healthy node's lease is the common case: nothing to reconcile.
            if node is not None and _status(node, "Ready") == "Unknown":
                self._engine.add(name)

    def _note(self, name: str) -> None:
        node, lease = self._nodes.get("", name), self._leases.get(NODE_LEASES, name)
        if node is None:
            return
        renewed = str(((lease or {}).get("spec") or {}).get("renewTime", ""))
        ready = _condition(node, "Ready")
        heartbeat = str((ready or {}).get("lastHeartbeatTime", "")) if (ready or {}).get("status") != "Unknown" else ""
        now, sign = self._context.clock.monotonic(), self._signs.get(name)
        if sign is None:
            self._signs[name] = Heartbeat((renewed, heartbeat), now, ready is not None)
        elif (renewed and renewed != sign.seen[0]) or (heartbeat and heartbeat != sign.seen[1]):
            self._signs[name] = Heartbeat((renewed, heartbeat or sign.seen[1]), now, ready is not None)

    async def _reconcile(self, name: str) -> Result:
        node = self._nodes.get("", name)
        sign = self._signs.get(name)
        if node is None or sign is None:
            return DONE
        grace = GRACE_S if sign.reported else STARTUP_GRACE_S
        left = sign.at + grace - self._context.clock.monotonic()
        if left <= 0 and self._nodes.connected and _status(node, "Ready") != "Unknown":
            await self._mark_unknown(node)
            return Requeue(grace, "the node may report again")
        await self._taint(node)
        await self._annotate_ttl(node)
        return Requeue(max(left, 1.0) if left > 0 else grace, "the node's next sign of life is due by then")

    async def _mark_unknown(self, node: Object) -> None:
        now = rfc3339(self._context.clock.now())
        conditions = []
        for type in _CONDITIONS:
            before = _condition(node, type) or {}
            never = not before
            conditions.append(
                {
                    "type": type,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
                    "message": "Kubelet never posted node status." if never else "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": before.get("lastHeartbeatTime") or node["metadata"]["creationTimestamp"],
                    "lastTransitionTime": now if before.get("status") != "Unknown" else before["lastTransitionTime"],
                }
            )
        name = node["metadata"]["name"]
        change = {"status": {"conditions": conditions}}
        await self._context.client.patch(NODE, "", name, change, subresource="status", content_type=STRATEGIC)
        if _status(node, "Ready") == "True":
            # Pods of a node that was not ready before are left as they are.
            self._context.recorder.record(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            await self._mark_pods_not_ready(name)

    async def _mark_pods_not_ready(self, node: str) -> None:
        now = rfc3339(self._context.clock.now())
        for pod in self._pods.by("node", node):
            ready = next(
                (
                    condition
                    for condition in (pod.get("status") or {}).get("conditions") or []
                    if condition["type"] == "Ready"
                ),
                None,
            )
            if ready is None or ready["status"] != "True":
                continue
            change = {"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}}
            meta = pod["metadata"]
            try:
                await self._context.client.patch(
                    POD, meta["namespace"], meta["name"], change, subresource="status", content_type=STRATEGIC
                )
            except ApiError as error:
                if error.code not in (404, 409):
                    raise
            self._context.recorder.record(pod, "Warning", "NodeNotReady", "Node is not ready")

    async def _annotate_ttl(self, node: Object) -> None:
        """Annotates a node with the time for which its agent may cache secrets and config maps; it grows with the
        cluster."""
        wanted = next((ttl for size, ttl in _CACHE_TTL_S if len(self._nodes) <= size), 300)
        if (node["metadata"].get("annotations") or {}).get(TTL) != str(wanted):
            change = {"metadata": {"annotations": {TTL: str(wanted)}}}
            await self._context.client.patch(NODE, "", node["metadata"]["name"], change)

    async def _taint(self, node: Object) -> None:
        policy = zones.EVICT if zones.is_ready(node) else self._zones.decide(zones.zone_of(node))
        taints = wanted_taints(node, rfc3339(self._context.clock.now()), policy)
        if taints != ((node.get("spec") or {}).get("taints") or []):
            meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
            change = {"metadata": meta, "spec": {"taints": taints or None}}
            await self._context.client.patch(NODE, "", node["metadata"]["name"], change)


def wanted_taints(node: Object, now: str, policy: str = zones.EVICT) -> list[Object]:
    """The node's taints according to its conditions; those of others are kept. Pure.

    `policy` decides whether a lost node's pods are evicted (see `zones`).
    """
    spec = node.get("spec") or {}
    evicts = {taint["key"] for taint in spec.get("taints") or [] if taint.get("effect") == "NoExecute"}
    wanted: dict[tuple[str, str], Object] = {}
    for condition in (node.get("status") or {}).get("conditions") or []:
        key = _CONDITION_TAINTS.get((condition["type"], condition["status"]))
        if key:
            wanted[key, "NoSchedule"] = {"key": key, "effect": "NoSchedule", "timeAdded": now}
            lost = key in (NOT_READY, UNREACHABLE)
            if lost and (policy == zones.EVICT or (policy == zones.HOLD and key in evicts)):
                wanted[key, "NoExecute"] = {"key": key, "effect": "NoExecute", "timeAdded": now}
    if spec.get("unschedulable"):
        wanted[UNSCHEDULABLE, "NoSchedule"] = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": now}
    kept = []
    for taint in spec.get("taints") or []:
        id = (taint["key"], taint.get("effect", ""))
        if taint["key"] not in _OURS or wanted.pop(id, None) is not None:
            kept.append(taint)
    return kept + list(wanted.values())


def _condition(node: Object, type: str) -> Object | None:
    return next(
        (condition for condition in (node.get("status") or {}).get("conditions") or [] if condition["type"] == type),
        None,
    )


def _status(node: Object, type: str) -> str:
    return str((_condition(node, type) or {}).get("status", ""))
