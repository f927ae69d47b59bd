"""What a pod takes of a node, in the snapshot's units. Pods of one template take the same: it is worked out once."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from podfit.api.resources import CPU, MEMORY, is_resize_infeasible, pod_requests
from podfit.api.status import Object

MOST = 2**53
"""No pod asks for more and no node has as much: sums of a node's pods stay within 64 bits."""
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What a container without a request counts for when nodes are compared (never when they are filled)."""
_encode = msgspec.json.encode


@dataclass(slots=True)
class Needs:
    """Amounts in the snapshot's units: cpu in thousandths, everything else in whole units."""

    amounts: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    told: bytes = b""
    """The same for the same amounts."""


_REPORTED = ("containerStatuses", "initContainerStatuses", "resources")
"""Where a status tells amounts; one without any of them says no more than the spec does."""
_remembered: dict[bytes, Needs] = {}
_REMEMBER = 65536


def needs_of(pod: Object, use_status: bool) -> Needs:
    """Pods of one template ask for the same, so the answer is looked up by what it depends on."""
    spec, status = pod.get("spec") or {}, (pod.get("status") or {}) if use_status else {}
    reported = bool(status and any(status.get(field) is not None for field in _REPORTED))
    told = _encode(
        (
            [(one.get("name"), one.get("resources")) for one in spec.get("containers") or ()],
            [(one.get("name"), one.get("resources"), one.get("restartPolicy")) for one in spec["initContainers"]]
            if spec.get("initContainers")
            else None,
            spec.get("resources"),
            spec.get("overhead"),
            _reported(status) if reported else None,
        )
    )
    found = _remembered.get(told)
    if found is None:
        if len(_remembered) >= _REMEMBER:
            _remembered.clear()
        found = _remembered[told] = _measure(pod, reported)
    return found


def _reported(status: Object) -> tuple[object, ...]:
    return (
        [
            (one.get("name"), one.get("resources"), one.get("allocatedResources"))
            for kind in ("containerStatuses", "initContainerStatuses")
            for one in status.get(kind) or ()
        ],
        status.get("resources"),
        status.get("allocatedResources"),
        is_resize_infeasible({"status": status}),
    )


def _measure(pod: Object, use_status: bool) -> Needs:
    amounts = {}
    for name, amount in pod_requests(pod, use_status=use_status).items():
        units = amount.milli if name == CPU else amount.value
        if units > 0:
            amounts[name] = min(units, MOST)
    cpu, memory = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
    if not cpu or not memory:
        silent = len((pod.get("spec") or {}).get("containers") or ()) or 1
        cpu, memory = cpu or DEFAULT_CPU_MILLI * silent, memory or DEFAULT_MEMORY * silent
    return Needs(amounts, cpu, memory, _encode((sorted(amounts.items()), cpu, memory)))
