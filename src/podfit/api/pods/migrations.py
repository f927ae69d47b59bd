"""The migration of a VM pod to another node, as recorded in the pod itself.

The state is one annotation, written only by the API server, through `pods/migrate`:

    Requested ──source──► Offered ──target──► Prepared ──target──► Moved
        └──────────────────┴───────────────────┴──────► Failed

A user requests the migration. The source node describes the VM, the target node reserves resources and reports its
address, and reports the VM as moved once it runs there: the same write binds the pod to the target. Until then the
pod belongs to the source, and `status.nominatedNodeName` names the target. After Failed, the VM stays at the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

ANNOTATION = "podfit.dev/migration"
REQUESTED, OFFERED, PREPARED, MOVED, FAILED = "Requested", "Offered", "Prepared", "Moved", "Failed"
PHASES = (REQUESTED, OFFERED, PREPARED, MOVED, FAILED)
CONDITION = "podfit.dev/Migrating"
SUBRESOURCE = "migrate"


class Migration(msgspec.Struct, frozen=True, omit_defaults=True):
    phase: str
    source: str
    target: str
    requested: str = ""
    """When, as RFC 3339."""
    message: str = ""
    offer: dict[str, Any] = {}
    """The source runtime's description of the VM."""
    place: dict[str, Any] = {}
    """Where the target runtime expects it."""

    @property
    def under_way(self) -> bool:
        return self.phase in (REQUESTED, OFFERED, PREPARED)

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


def migration_of(pod: Mapping[str, Any]) -> Migration | None:
    """The migration recorded in a pod; None if there is none, or if the annotation cannot be parsed."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=Migration)
    except msgspec.DecodeError:
        return None


def moving(pod: Mapping[str, Any]) -> Migration | None:
    """The migration of a pod, if one is in progress."""
    found = migration_of(pod)
    return found if found is not None and found.under_way else None


class MigrationStep(msgspec.Struct, frozen=True):
    """The report of a node in the annotation of the Binding that it posts."""

    phase: str
    message: str = ""
    offer: dict[str, Any] = {}
    place: dict[str, Any] = {}


_WRITERS = {
    OFFERED: ((REQUESTED,), ("source",)),
    PREPARED: ((OFFERED,), ("target",)),
    MOVED: ((PREPARED,), ("target",)),
}
_FAILS = {"source": (REQUESTED, OFFERED, PREPARED), "target": (REQUESTED, OFFERED)}
"""Once a place is prepared, only the source node can cancel the migration."""


def advanced(now: Migration, step: MigrationStep, node: str) -> Migration | str:
    """The migration after a step of a node, or why that node cannot take that step now."""
    roles = [role for role in ("source", "target") if getattr(now, role) == node]
    if not roles:
        return f'node "{node}" has no part in it'
    if step.phase == FAILED:
        allowed = any(now.phase in _FAILS[role] for role in roles)
    else:
        before, writers = _WRITERS.get(step.phase, ((), ()))
        allowed = now.phase in before and any(role in writers for role in roles)
    if not allowed:
        return f'node "{node}" cannot report {step.phase or "nothing"} of a migration that is {now.phase}'
    offer, place = step.offer or now.offer, step.place or now.place
    if step.phase in (MOVED, FAILED):
        offer, place = {}, {}
    return Migration(step.phase, now.source, now.target, now.requested, step.message, offer, place)
