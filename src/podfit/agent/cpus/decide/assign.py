"""The static policy: decides which containers get exclusive CPUs, and which ones.

A container has exclusive CPUs if its pod is Guaranteed, without pod-level resources, and it requests whole CPUs. All
others share the remaining CPUs. Init containers run before the pod's other containers and use the same CPUs; a sidecar
runs concurrently with everything that starts after it and shares its CPUs with none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from podfit.agent.cpus.decide.fit import fit, grow
from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus
from podfit.agent.cpus.decide.topology import Topology
from podfit.api.pods.resources import GUARANTEED, is_sidecar
from podfit.api.resize.states import CPU, Allocated, Desired, amount

INIT, SIDECAR, MAIN = "init", "sidecar", "main"


class CpuClaim(Struct, frozen=True):
    """The number of exclusive CPUs of a container; 0 if it runs in the shared pool."""

    name: str
    count: int
    kind: str = MAIN


class Short(Struct, frozen=True):
    requested: int
    available: int

    @property
    def message(self) -> str:
        return f"not enough cpus available to satisfy request: requested={self.requested}, available={self.available}"


Assignment = Mapping[str, Cpus]
"""The exclusive CPUs of a pod's containers, by name."""


def claims(pod: Mapping[str, Any], sizes: Desired | Allocated, qos: str) -> list[CpuClaim]:
    """The claims of the pod's containers, in the order in which they start."""
    spec = pod["spec"]
    exclusive = qos == GUARANTEED and not spec.get("resources")
    inits, mains = spec.get("initContainers") or (), spec.get("containers") or ()
    kinds = [(container, SIDECAR if is_sidecar(container) else INIT) for container in inits] + [
        (container, MAIN) for container in mains
    ]
    return [
        CpuClaim(container["name"], whole_cpus(sizes.containers.get(container["name"])) if exclusive else 0, kind)
        for container, kind in kinds
    ]


def whole_cpus(resources: Mapping[str, Any] | None) -> int:
    """The number of CPUs requested; 0 unless the request is for whole CPUs."""
    milli = amount(resources, CPU).request or 0
    return milli // 1000 if milli % 1000 == 0 else 0


def assign(
    topology: Topology, free: Cpus, held: Assignment, applied: Assignment, wanted: Sequence[CpuClaim]
) -> dict[str, Cpus] | Short:
    """The pod's new assignment. A container whose number does not change keeps its CPUs.

    `free` are the CPUs that no other pod has; `held` is the pod's current assignment, `applied` the kernel's cpusets of
    its containers with exclusive CPUs. A container that has to release CPUs keeps a subset of those it runs on.
    """
    lasting = [claim for claim in wanted if claim.kind != INIT]
    inits = _union(held.get(claim.name, NO_CPUS) for claim in wanted if claim.kind == INIT)
    chosen: dict[str, Cpus] = {}
    left = free | _union(held.values()) | _union(applied.values())
    undecided = {claim.name: held.get(claim.name, NO_CPUS) for claim in lasting}
    # Containers that release CPUs come first: another container of the pod may need them.
    for claim in sorted(lasting, key=lambda claim: claim.count > len(held.get(claim.name, NO_CPUS))):
        mine = undecided.pop(claim.name)
        usable = left - _union(undecided.values())
        if claim.kind == SIDECAR and claim.count <= len(usable - (inits - mine)):
            # An init container may still run on its CPUs, and would have to move.
            usable -= inits - mine
        if claim.count > len(usable):
            return Short(claim.count, len(usable))
        if claim.count:
            chosen[claim.name] = _choose(topology, claim.count, mine & usable, applied.get(claim.name, NO_CPUS), usable)
            left -= chosen[claim.name]
    return _with_inits(topology, left, held, wanted, chosen)


def _choose(topology: Topology, count: int, mine: Cpus, applied: Cpus, usable: Cpus) -> Cpus:
    if count == len(mine):
        return mine
    if count < len(mine):
        return fit(topology, applied & mine, count, mine)
    return fit(topology, mine | (applied & usable), count, usable)


def _with_inits(
    topology: Topology, left: Cpus, held: Assignment, wanted: Sequence[CpuClaim], chosen: dict[str, Cpus]
) -> dict[str, Cpus] | Short:
    """Init containers use the CPUs of containers that start later, and others only if those are too few."""
    own = _union(chosen.values())
    for claim in wanted:
        if claim.kind == SIDECAR:
            own -= chosen.get(claim.name, NO_CPUS)
        elif claim.kind == INIT and claim.count:
            if claim.count > len(own | left):
                return Short(claim.count, len(own | left))
            before = held.get(claim.name, NO_CPUS)
            if claim.count <= len(own):
                cpus = fit(topology, before & own, claim.count, own)
            else:
                cpus = grow(topology, grow(topology, own, claim.count, before & left), claim.count, left)
            chosen[claim.name] = cpus
            own, left = own | cpus, left - cpus
    return chosen


def _union(sets: Iterable[Cpus]) -> Cpus:
    return NO_CPUS.union(*sets)
