"""Who set which field: metadata.managedFields, kept by every write."""

from __future__ import annotations

from functools import lru_cache

from podfit.api.kinds import Kind
from podfit.api.patches.apply import ResetFields, manager_name, track_update
from podfit.api.schema import type_of
from podfit.api.status import Object
from podfit.apiserver.calls import Call
from podfit.apiserver.options import WriteOptions
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.writes import Track
from podfit.kit.clock import rfc3339

_RESIZABLE = tuple(
    ("spec", *group, field)
    for group in (("containers", "*"), ("initContainers", "*"), ("virtualMachine",))
    for field in ("resources", "resizePolicy")
)

_STATUS_KEEPS: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "pods"): (("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")),
    ("apps", "deployments"): (("metadata", "labels"),),
    ("apiextensions.k8s.io", "customresourcedefinitions"): (("metadata",),),
}
"""What a write to the status leaves alone besides the spec."""


@lru_cache(maxsize=1024)
def reset_fields(kind: Kind, subresource: str) -> ResetFields:
    """What an endpoint does not write, so that nobody comes to own it there."""
    if subresource == "resize":
        return ResetFields(_RESIZABLE, keep_only=True)
    if subresource == "status":
        kept = (("metadata",),) if kind.custom else _STATUS_KEEPS.get((kind.group, kind.plural), ())
        return ResetFields((("spec",), *kept))
    if not subresource and strategy_for(kind).has_status:
        return ResetFields((("status",),))
    return ResetFields()


def manager_of(call: Call, options: WriteOptions) -> str:
    return manager_name(options.manager, call.request.headers.get("user-agent", ""))


def updates(call: Call, options: WriteOptions) -> Track | None:
    struct = type_of(call.kind)
    if struct is None:
        return None
    manager, subresource = manager_of(call, options), call.route.subresource
    reset = reset_fields(call.kind, subresource)
    clock = call.objects.clock

    def track(new: Object, old: Object | None) -> None:
        track_update(old, new, struct, manager, "Update", rfc3339(clock.now()), subresource, reset)

    return track
