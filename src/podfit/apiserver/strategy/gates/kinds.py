"""Fields of kinds other than pods whose feature gates are off by default, unless the stored object has them."""

from __future__ import annotations

from podfit.api.objects import Object


def drop_max_unavailable(spec: Object, stored: Object) -> None:
    """Drops maxUnavailable from the spec of a StatefulSet. A part shared with the stored spec has no such field, and is
    not modified."""
    rolling, before = ((each.get("updateStrategy") or {}).get("rollingUpdate") or {} for each in (spec, stored))
    if "maxUnavailable" in rolling and before.get("maxUnavailable") is None:
        del rolling["maxUnavailable"]


def drop_foreign_source(spec: Object, stored: Object) -> None:
    """Drops a claim's source in another namespace."""
    if (spec.get("dataSourceRef") or {}).get("namespace") and stored.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
