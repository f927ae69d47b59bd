"""The strategy of VolumeAttachments: a volume that a driver attaches to a node. Its spec is immutable."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, names_valid
from podfit.apiserver.strategy.meta import reset_for_status
from podfit.apiserver.strategy.storage.csi import driver_name
from podfit.apiserver.strategy.storage.persistent import inline_volume

_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_LARGEST_METADATA, _LONGEST_MESSAGE = 256 * 1024, 1024


class VolumeAttachmentStrategy(Strategy):
    update_checks = "w"
    status_checks = "w"
    has_generation = False
    unconditional_update = False

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            reset_for_status(new, old)
        super().prepare_update(new, old, subresource)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        source = spec.get("source") or {}
        driver_name(spec.get("attacher", ""), "spec.attacher", errors)
        volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if volume is None and inline is None:
            errors.append(required("spec.source", _ONE_SOURCE))
        elif volume is not None and inline is not None:
            errors.append(forbidden("spec.source", _ONE_SOURCE))
        elif volume == "":
            detail = "must specify non empty persistentVolumeName"
            errors.append(required("spec.source.persistentVolumeName", detail))
        elif inline is not None:
            inline_volume(inline, "spec.source.inlineVolumeSpec", errors)
        node = spec.get("nodeName", "")
        names_valid(node, "spec.nodeName", names.dns_subdomain(node), errors)
        _status(obj.get("status") or {}, errors)
        if volume is not None:
            names_valid(volume, "spec.source.persistentVolumeName", names.dns_subdomain(volume), errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        if equal(new.get("spec"), old.get("spec")):
            return []
        struct = type_named("VolumeAttachmentSpec", "storage.k8s.io")
        return [invalid("spec", as_go(new.get("spec"), struct), IMMUTABLE)]

    def validate_status(self, new: Object, old: Object) -> Errors:
        return self.validate(new)


def _status(status: Object, errors: Errors) -> None:
    size = sum(
        len(key.encode()) + len(value.encode()) for key, value in (status.get("attachmentMetadata") or {}).items()
    )
    if size > _LARGEST_METADATA:
        errors.append(too_long("status.attachmentMetadata", _LARGEST_METADATA))
    for field in ("attachError", "detachError"):
        error = status.get(field) or {}
        if len((error.get("message") or "").encode()) > _LONGEST_MESSAGE:
            errors.append(too_long(f"status.{field}.message", _LARGEST_METADATA))
        code = error.get("errorCode")
        if code is not None and code < 0:
            detail = "must be between 0 and 2147483647, inclusive"
            errors.append(invalid(f"status.{field}.errorCode", code, detail))
