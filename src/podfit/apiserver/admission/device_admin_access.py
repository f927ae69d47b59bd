"""Allows resource claims with admin access to devices only in namespaces that have the label for it.

It cannot be disabled: in Kubernetes this check is part of the registry.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE
from podfit.api.status import field_forbidden, unprocessable
from podfit.apiserver.admission.base import CREATE, Attributes, Cluster, Plugin, meta_of, spec_of

LABEL = "resource.kubernetes.io/admin-access"
_WHY = f"admin access to devices requires the `{LABEL}: true` label on the containing namespace"


class DeviceAdminAccess(Plugin):
    name = "DeviceAdminAccess"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        group, plural = attrs.resource
        return (
            group == "resource.k8s.io"
            and plural in ("resourceclaims", "resourceclaimtemplates")
            and not attrs.subresource
            and attrs.operation == CREATE
        )

    async def validate(self, attrs: Attributes) -> None:
        spec = spec_of(attrs.object)
        if attrs.kind.plural == "resourceclaimtemplates":
            spec = spec.get("spec") or {}
        at = _first_for_admins(spec)
        if at is None or self._is_open(attrs.namespace):
            return
        error = field_forbidden(f"spec.devices.requests[{at}].adminAccess", _WHY)
        raise unprocessable(attrs.kind.kind, attrs.display_name, [error], attrs.kind.group)

    def _is_open(self, namespace: str) -> bool:
        labels = meta_of(self._cluster.get(NAMESPACE, "", namespace)).get("labels") or {}
        return bool(labels.get(LABEL) == "true")


def _first_for_admins(claim: Object) -> int | None:
    """The path of the first request for admin access."""
    for at, request in enumerate((claim.get("devices") or {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return at
    return None
