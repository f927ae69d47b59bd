"""Distributes endpoints over slices: few slices are written, none has more than a hundred endpoints. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object

MOST = 100
"""Endpoints per slice."""


@dataclass
class SliceChanges:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


@dataclass
class EndpointGroup:
    """The endpoints of one family with the same ports."""

    family: str
    ports: list[Object]
    endpoints: list[Object] = field(default_factory=list)


def pack(wanted: list[EndpointGroup], slices: list[Object], meta: Object, most: int = MOST) -> SliceChanges:
    """The writes that turn the existing slices into the wanted ones. `meta`: the metadata of a new slice; labels of
    existing ones are updated to it."""
    plan = SliceChanges()
    left = list(slices)
    for group in wanted:
        mine = [row for row in left if _is_for(row, group)]
        left = [row for row in left if row not in mine]
        _fill(group, mine, meta, most, plan)
    plan.delete += left
    _reuse(plan)
    return plan


def _reuse(plan: SliceChanges) -> None:
    """A slice that would be deleted gets the content of a new one of its family."""
    created, plan.create = plan.create, []
    for made in created:
        spare = next((row for row in plan.delete if row.get("addressType") == made["addressType"]), None)
        if spare is None:
            plan.create.append(made)
            continue
        plan.delete.remove(spare)
        meta = {**spare["metadata"], "labels": made["metadata"]["labels"]}
        plan.update.append({**spare, "metadata": meta, "endpoints": made["endpoints"], "ports": made["ports"]})


def _is_for(row: Object, group: EndpointGroup) -> bool:
    return row.get("addressType") == group.family and ports_key(row.get("ports")) == ports_key(group.ports)


def ports_key(ports: list[Object] | None) -> Any:
    rows = ((row.get("name", ""), row.get("protocol"), row.get("port"), row.get("appProtocol")) for row in ports or ())
    return sorted(rows, key=repr)


def identity(endpoint: Object) -> str:
    target = endpoint.get("targetRef") or {}
    return str(target.get("uid") or ",".join(endpoint.get("addresses") or ()))


def _fill(group: EndpointGroup, slices: list[Object], meta: Object, most: int, plan: SliceChanges) -> None:
    pending = {identity(endpoint): endpoint for endpoint in group.endpoints}
    kept: list[tuple[Object, list[Object]]] = []
    for row in slices:
        found = [pending.pop(identity(known)) for known in row.get("endpoints") or () if identity(known) in pending]
        kept.append((row, found))
    rest = list(pending.values())
    # Slices that are written anyway are filled first, then the fullest of the others.
    kept.sort(key=lambda pair: (_same(pair[0], pair[1], meta), -len(pair[1])))
    for at, (row, found) in enumerate(kept):
        room = most - len(found)
        if rest and room > 0:
            found += rest[:room]
            rest = rest[room:]
        if not found and (at > 0 or group.endpoints):
            plan.delete.append(row)
        elif not _same(row, found, meta):
            labels = {**row, "metadata": {**row["metadata"], "labels": meta["labels"]}}
            plan.update.append({**labels, "endpoints": found, "ports": group.ports})
    for at in range(0, len(rest), most):
        plan.create.append(new_slice(group, rest[at : at + most], meta))
    if not group.endpoints and not kept:
        plan.create.append(new_slice(group, [], meta))


def _same(row: Object, endpoints: list[Object], meta: Object) -> bool:
    return (row.get("endpoints") or []) == endpoints and row["metadata"].get("labels") == meta["labels"]


def new_slice(group: EndpointGroup, endpoints: list[Object], meta: Object) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": dict(meta),
        "addressType": group.family,
        "endpoints": endpoints,
        "ports": group.ports,
    }
