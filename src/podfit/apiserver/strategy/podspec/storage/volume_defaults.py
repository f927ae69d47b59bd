"""Defaults of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import canonical
from podfit.apiserver.strategy.resourcelists import normalise

_MODE = 0o644
_TOKEN_LIFETIME_S = 3600
_MODES = ("secret", "configMap", "downwardAPI", "projected")
_FIXED: dict[str, dict[str, Any]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
_EMPTY_IS_UNSET = ("iscsi", "rbd", "scaleIO")


def default_volume(volume: Object, pull_policy: Callable[[str], str]) -> None:
    sources = [name for name, source in volume.items() if name != "name" and source is not None]
    if not sources:
        volume["emptyDir"] = {}
        return
    for name in sources:
        source = volume[name]
        if name in _MODES:
            if source.get("defaultMode") is None:
                source["defaultMode"] = _MODE
            _items(source)
            for part in source.get("sources") or ():
                _projection(part)
        elif name in _FIXED:
            default_source(name, source)
        elif name == "emptyDir" and source.get("sizeLimit") is not None:
            source["sizeLimit"] = canonical(source["sizeLimit"])
        elif name == "image" and not source.get("pullPolicy"):
            source["pullPolicy"] = pull_policy(source.get("reference") or "")
        elif name == "ephemeral" and source.get("volumeClaimTemplate"):
            default_claim_spec(source["volumeClaimTemplate"].setdefault("spec", {}))


def default_source(name: str, source: Object) -> None:
    """Sets the fixed default values of a volume source."""
    unset = (None, "") if name in _EMPTY_IS_UNSET else (None,)
    for field, value in _FIXED.get(name, {}).items():
        if source.get(field) in unset:
            source[field] = value


def default_claim_spec(spec: Object) -> None:
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    normalise(resources.get("limits"))
    normalise(resources.get("requests"))


def _items(source: Object) -> None:
    for item in source.get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"
        resource = item.get("resourceFieldRef")
        if resource is not None:
            resource["divisor"] = canonical(resource.get("divisor") or "0")


def _projection(part: Object) -> None:
    if part.get("downwardAPI"):
        _items(part["downwardAPI"])
    token = part.get("serviceAccountToken")
    if token is not None and not token.get("expirationSeconds"):
        token["expirationSeconds"] = _TOKEN_LIFETIME_S
