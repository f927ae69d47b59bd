"""Computes the OOM score adjustment of a container's processes. Pure."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import BEST_EFFORT, GUARANTEED, is_sidecar, pod_requests
from podfit.api.quantity import ZERO
from podfit.api.resize.states import MEMORY, amount

_LAST, _FIRST = -997, 1000
_NODE_CRITICAL = 2_000_001_000


def oom_score_adj(pod: Object, container: Object, qos: str, node_bytes: int) -> int:
    """The less memory a Burstable container requests, the higher its score; a sidecar's is at most that of the regular
    container with the smallest request."""
    if qos == GUARANTEED or int(pod["spec"].get("priority") or 0) >= _NODE_CRITICAL:
        return _LAST
    if qos == BEST_EFFORT:
        return _FIRST
    requested = _requested(container)
    if is_sidecar(container):
        requested = max(requested, min(_requested(sibling) for sibling in pod["spec"]["containers"]))
    share = 1000 * (requested + _unclaimed(pod)) // node_bytes if node_bytes else 0
    return min(max(_FIRST - share, _FIRST + _LAST), _FIRST - 1)


def _requested(container: Object) -> int:
    return amount(container.get("resources"), MEMORY).request or 0


def _unclaimed(pod: Object) -> int:
    """Each container's share of the pod-level request beyond the sum of its containers."""
    spec = pod["spec"]
    whole = amount(spec.get("resources"), MEMORY).request
    if not whole:
        return 0
    claimed = pod_requests(pod, pod_level=False, overhead=False).get(MEMORY, ZERO).value
    return (whole - claimed) // (len(spec["containers"]) + len(spec.get("initContainers") or ()))
