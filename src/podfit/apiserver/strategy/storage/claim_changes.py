"""Validates what an update of a PersistentVolumeClaim changes: a bound claim may grow and take other attributes."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import IMMUTABLE, equal
from podfit.apiserver.strategy.meta import keep
from podfit.apiserver.strategy.pod.update import difference

_ATTRIBUTES = "volumeAttributesClassName"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def claim_changes(new: Object, old: Object) -> Errors:
    spec, stored, status = new.get("spec") or {}, old.get("spec") or {}, old.get("status") or {}
    mine, before = dict(spec), dict(stored)
    if not stored.get("volumeName"):
        keep(before, spec, "volumeName")
    errors = _class_changes(mine, new, old)
    if status.get("phase") == "Bound":
        _keep_size(mine, stored)
        keep(mine, stored, _ATTRIBUTES)
    if not equal(mine, before):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
            f"claims\n{difference(before, mine)}"
        )
        errors.append(forbidden("spec", detail))
    size = _size(spec)
    if size < _size(stored) and size <= Quantity.parse((status.get("capacity") or {}).get("storage", "0")):
        detail = "field can not be less than status.capacity"
        errors.append(forbidden("spec.resources.requests.storage", detail))
    if spec.get("volumeMode") != stored.get("volumeMode"):
        errors.append(invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE))
    attributes = spec.get(_ATTRIBUTES)
    applied = status.get("currentVolumeAttributesClassName") is not None
    if applied and not attributes and attributes != stored.get(_ATTRIBUTES):
        what = "nil" if attributes is None else "empty string"
        detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden(f"spec.{_ATTRIBUTES}", detail))
    return errors


def _class_changes(mine: Object, new: Object, old: Object) -> Errors:
    """Masks a storage class that an update may add; the annotation that preceded the field is immutable, except that
    the field may replace it."""
    now, before = (((each.get("metadata") or {}).get("annotations") or {}).get(_BETA_CLASS) for each in (new, old))
    name, stored = mine.get("storageClassName"), (old.get("spec") or {}).get("storageClassName")
    added = stored is None and name is not None and before in (None, name)
    if added:
        mine.pop("storageClassName")
    if (now or "") == (before or "") or (added and before is not None and now is None):
        return []
    return [invalid(f"metadata.annotations.{_BETA_CLASS}", now or "", IMMUTABLE)]


def _size(spec: Object) -> Quantity:
    return Quantity.parse(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))


def _keep_size(mine: Object, stored: Object) -> None:
    """Masks the size, which may grow once the claim is bound."""
    resources = mine.get("resources") or {}
    size = ((stored.get("resources") or {}).get("requests") or {}).get("storage")
    if resources.get("requests") is not None and size is not None:
        mine["resources"] = {**resources, "requests": {**resources["requests"], "storage": size}}
