"""What a pod takes of a node, in the snapshot's units. Pods of one template take the same: it is worked out once."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from podfit.api.resources import CPU, MEMORY, pod_requests, requests_told
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


_remembered: dict[bytes, Needs] = {}
_REMEMBER = 65536


def needs_of(pod: Object, use_status: bool) -> Needs:
    """Pods of one template ask for the same, so the answer is looked up by what it depends on."""
    told = requests_told(pod, use_status)
    found = _remembered.get(told)
    if found is None:
        if len(_remembered) >= _REMEMBER:
            _remembered.clear()
        found = _remembered[told] = _measure(pod, use_status)
    return found


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
