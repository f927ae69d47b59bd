"""Maintains field ownership (metadata.managedFields), which every write updates."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from podfit.api.objects import Object
from podfit.api.patches.apply import ResetFields, manager_name, track_update
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.types import Struct
from podfit.apiserver.calls import Call
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.writing.options import WriteOptions
from podfit.apiserver.writing.write import Track
from podfit.kit.clock import Clock, rfc3339

_RESIZABLE = tuple(
    ("spec", *group, field)
    for group in (("containers", "*"), ("initContainers", "*"), ("virtualMachine",))
    for field in ("resources", "resizePolicy")
)

_STATUS_KEEPS: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "pods"): (("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    ("apps", "deployments"): (("metadata", "labels"),),
}
"""Fields that a write to the status does not change, in addition to the spec."""
_STATUS_KEEPS_METADATA = frozenset(
    (
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "apiservices"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "resourceclaims"),
        ("storage.k8s.io", "volumeattachments"),
    )
)
_REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
_OF_REQUESTS = {
    "": (("spec",), ("status",)),
    "status": (("spec",), ("status", "conditions")),
    "approval": (("spec",), ("status", "certificate")),
}
"""The fields of CertificateSigningRequests to reset, by subresource."""


@lru_cache(maxsize=1024)
def reset_fields(kind: Kind, subresource: str) -> ResetFields:
    """Fields that an endpoint does not write, so that no manager owns them through it."""
    place = (kind.group, kind.plural)
    if place == _REQUESTS:
        return ResetFields(_OF_REQUESTS[subresource])
    if subresource == "resize":
        return ResetFields(_RESIZABLE, keep_only=True)
    if subresource == "status":
        whole = kind.custom or place in _STATUS_KEEPS_METADATA
        return ResetFields((("spec",), *((("metadata",),) if whole else _STATUS_KEEPS.get(place, ()))))
    if not subresource and strategy_for(kind).has_status:
        return ResetFields((("status",),))
    return ResetFields()


def reset_by_apply(kind: Kind, subresource: str) -> ResetFields:
    """Like `reset_fields`, for an apply. Kubernetes lets the applier own all fields that it sends to the resize
    endpoint, written or not."""
    return ResetFields() if subresource == "resize" else reset_fields(kind, subresource)


def manager_of(call: Call, options: WriteOptions) -> str:
    return manager_name(options.manager, call.request.headers.get("user-agent", ""))


class FieldManager(NamedTuple):
    """The field manager of an update, which owns the fields that it changes."""

    name: str
    struct: Struct
    subresource: str
    reset: ResetFields
    clock: Clock

    def track(self, new: Object, old: Object | None) -> None:
        now = rfc3339(self.clock.now())
        track_update(old, new, self.struct, self.name, "Update", now, self.subresource, self.reset)


def field_manager(call: Call, options: WriteOptions) -> FieldManager | None:
    """The manager for a kind; None for kinds whose fields are not known."""
    struct = type_of(call.kind)
    if struct is None:
        return None
    subresource = call.route.subresource
    return FieldManager(
        manager_of(call, options), struct, subresource, reset_fields(call.kind, subresource), call.objects.clock
    )


def updates(call: Call, options: WriteOptions) -> Track | None:
    manager = field_manager(call, options)
    return None if manager is None else manager.track
