"""The resources that a pod uses on a node, in the snapshot's units. Cached, because pods of one template use the
same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from podfit.api.objects import Object
from podfit.api.pods.resources import CPU, MEMORY, pod_requests, requests_key
from podfit.api.quantity import Quantity
from podfit.kit.memo import Memo

MOST = 2**53
"""No pod requests more and no node has as much: sums of a node's pods stay within 64 bits."""
_LEAST = {CPU: "100m", MEMORY: "200Mi"}
"""The default request of a container when nodes are scored (never when they are filtered)."""
_LEAST_AMOUNTS = {name: Quantity.parse(text) for name, text in _LEAST.items()}
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Needs:
    """Amounts in the snapshot's units: cpu in thousandths, everything else in whole units."""

    amounts: Mapping[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    key: bytes = b""
    """Equal for equal amounts."""


_memo = Memo[bytes, Needs](65536)
"""By `requests_key`, which contains everything that a pod's needs depend on."""


def needs_of(pod: Object, use_status: bool) -> Needs:
    """Pods of one template request the same, so the result is cached by what it depends on."""
    key = requests_key(pod, use_status)
    found = _memo.get(key)
    return found if found is not None else _memo.keep(key, _measure(pod, use_status))


def _measure(pod: Object, use_status: bool) -> Needs:
    amounts = {}
    for name, amount in pod_requests(pod, use_status=use_status).items():
        units = amount.milli if name == CPU else amount.value
        if units > 0:
            amounts[name] = min(units, MOST)
    # While a resize is infeasible the spec does not count: without a status the minimum applies.
    counted = {**_LEAST_AMOUNTS, **pod_requests(_with_default_requests(pod), use_status=use_status)}
    cpu, memory = min(counted[CPU].milli, MOST), min(counted[MEMORY].value, MOST)
    return Needs(amounts, cpu, memory, _encode((sorted(amounts.items()), cpu, memory)))


def _with_default_requests(pod: Object) -> Object:
    """The pod with a default request for every container that has none; an explicit 0 is a request too."""
    spec = pod.get("spec") or {}
    fields = {
        field: [_with_default_request(container) for container in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    }
    return {**pod, "spec": {**spec, **fields}}


def _with_default_request(container: Object) -> Object:
    resources = container.get("resources") or {}
    return {**container, "resources": {**resources, "requests": {**_LEAST, **(resources.get("requests") or {})}}}
