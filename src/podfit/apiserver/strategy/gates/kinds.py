"""Fields of kinds other than pods whose feature gates are off by default, unless the stored object has them."""

from __future__ import annotations

from podfit.api.objects import Object


def drop_max_unavailable(spec: Object, stored: Object) -> None:
    """Drops maxUnavailable from the spec of a StatefulSet."""
    rolling, before = ((each.get("updateStrategy") or {}).get("rollingUpdate") for each in (spec, stored))
    if rolling and (before or {}).get("maxUnavailable") is None:
        rolling.pop("maxUnavailable", None)


def drop_foreign_source(spec: Object, stored: Object) -> None:
    """Drops a claim's source in another namespace."""
    if (spec.get("dataSourceRef") or {}).get("namespace") and stored.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
