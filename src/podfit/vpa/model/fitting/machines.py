"""Sizes of pods that are virtual machines: their CPU limit is a whole number of vCPUs.

The limit keeps its ratio to the request as far as whole numbers allow: it is rounded down, but never below the request.
If it were rounded up, it would grow with every resize, because the next one starts from the rounded ratio.
"""

from __future__ import annotations

from podfit.api.objects import ObjectView
from podfit.api.pods.machines import CLASS
from podfit.api.quantity import NANO, Quantity


def is_machine(pod: ObjectView) -> bool:
    spec = pod.get("spec") or {}
    return bool(spec.get("virtualMachine")) or spec.get("runtimeClassName") == CLASS


def whole_vcpus(request: Quantity, limit: Quantity, same: bool) -> tuple[Quantity, Quantity]:
    """The whole numbers of vCPUs nearest to the request and the limit of a VM. `same`: its request equals its limit,
    and must stay equal."""
    needed = -(-request.nanos // NANO)
    vcpus = max(needed if same else limit.nanos // NANO, needed, 1)
    whole = limit if limit.nanos == vcpus * NANO else Quantity(vcpus * NANO, limit.format)
    return (whole if same else request), whole
