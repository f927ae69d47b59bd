"""What nodes and quotas have left, kept current event by event: nobody sums up the cluster for one pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.placement import node_matches, untolerated
from podfit.api.quantity import Quantity
from podfit.api.resources import pod_requests, requests_told, same_requests
from podfit.api.status import Object
from podfit.client import Cache
from podfit.client.cache import Key, key_of
from podfit.vpa.model.policy import RESOURCES
from podfit.vpa.updater.decide.amend import Room

Amounts = dict[str, int]
_QUOTA_NAMES = {
    "requests.cpu": "requests.cpu",
    "cpu": "requests.cpu",
    "requests.memory": "requests.memory",
    "memory": "requests.memory",
    "limits.cpu": "limits.cpu",
    "limits.memory": "limits.memory",
}


class Headroom:
    def __init__(self, nodes: Cache, pods: Cache, quotas: Cache) -> None:
        self._nodes, self._pods, self._quotas = nodes, pods, quotas
        self._counted: dict[Key, tuple[str, Amounts, Object]] = {}
        """Its node, what it takes, and the pod that says so."""
        self._used: dict[str, Amounts] = {}

    def start(self) -> None:
        """Call when the caches have their first picture."""
        self._pods.subscribe(self._on_pod)

    def _on_pod(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.count(after)
        elif before is not None:
            self._uncount(key_of(before))

    def count(self, pod: Object) -> None:
        """Also for what the API server just answered, before the watch brings it."""
        key = key_of(pod)
        known = self._counted.get(key)
        if known is not None and _same_place(known[2], pod) and same_requests(known[2], pod):
            self._counted[key] = known[0], known[1], pod
            return
        self._uncount(key)
        node = (pod.get("spec") or {}).get("nodeName") or ""
        asked = _asked(pod)
        self._counted[key] = node, asked, pod
        used = self._used.setdefault(node, dict.fromkeys(RESOURCES, 0))
        for resource in RESOURCES:
            used[resource] += asked[resource]

    def _uncount(self, key: Key) -> None:
        known = self._counted.pop(key, None)
        if known is not None:
            used, asked = self._used[known[0]], known[1]
            for resource in RESOURCES:
                used[resource] -= asked[resource]

    def room(self, pod: Any) -> Room:
        node = (pod.get("spec") or {}).get("nodeName") or ""
        found = self._nodes.get("", node)
        left = self._left(found) if found is not None else {}
        return Room(left, self._quota_left(pod["metadata"].get("namespace", "")), node)

    def _left(self, node: Object) -> Amounts:
        name = node["metadata"]["name"]
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        used = self._used.get(name, {})
        return {
            resource: _amount(resource, Quantity.parse(allocatable[resource])) - used.get(resource, 0)
            for resource in RESOURCES
            if resource in allocatable
        }

    def _quota_left(self, namespace: str) -> Amounts:
        left: Amounts = {}
        for quota in self._quotas.by("namespace", namespace):
            spec, status = quota.get("spec") or {}, quota.get("status") or {}
            if spec.get("scopes") or spec.get("scopeSelector"):
                # Whether a scoped quota counts this pod is the server's to say; it refuses what does not fit.
                continue
            for name, amount in (status.get("hard") or {}).items():
                known = _QUOTA_NAMES.get(name)
                if known is not None:
                    resource = known.partition(".")[2]
                    used = Quantity.parse((status.get("used") or {}).get(name) or "0")
                    rest = _amount(resource, Quantity.parse(amount)) - _amount(resource, used)
                    left[known] = min(rest, left.get(known, rest))
        return left

    def somewhere_fits(self, pod: Any, needed: Mapping[str, int]) -> bool:
        """Whether a node could take the pod at that size; on its own node it gives back what it has."""
        if not len(self._nodes):
            return True
        spec = pod.get("spec") or {}
        counted = self._counted.get(key_of(pod))
        home, own = counted[:2] if counted is not None else ("", {})
        for node in self._nodes:
            if (node.get("spec") or {}).get("unschedulable") or not node_matches(spec, node):
                continue
            taints = (node.get("spec") or {}).get("taints") or []
            if untolerated(taints, spec.get("tolerations") or [], ("NoSchedule", "NoExecute")):
                continue
            left = self._left(node)
            back = own if node["metadata"]["name"] == home else {}
            if all(left.get(name, amount) + back.get(name, 0) >= amount for name, amount in needed.items()):
                return True
        return False

    def asked_by(self, pod: Any) -> Amounts:
        counted = self._counted.get(key_of(pod))
        return dict(counted[1]) if counted is not None else dict.fromkeys(RESOURCES, 0)


def _same_place(one: Object, other: Object) -> bool:
    return bool((one.get("spec") or {}).get("nodeName") == (other.get("spec") or {}).get("nodeName"))


_remembered: dict[bytes, Amounts] = {}
_REMEMBER = 4096


def _asked(pod: Object) -> Amounts:
    """What the pod takes, looked up by all it depends on: most changes of a pod, and most pods, ask for the same.

    Not to be written to.
    """
    told = requests_told(pod, use_status=True)
    found = _remembered.get(told)
    if found is None:
        if len(_remembered) >= _REMEMBER:
            _remembered.clear()
        found = _remembered[told] = amounts_of(pod_requests(pod, use_status=True))
    return found


def amounts_of(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: _amount(name, quantities[name]) if name in quantities else 0 for name in RESOURCES}


def _amount(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == "cpu" else quantity.value
