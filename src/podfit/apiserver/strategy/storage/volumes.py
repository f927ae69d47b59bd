"""Strategies of PersistentVolumes and PersistentVolumeClaims, which a controller binds to each other."""

from __future__ import annotations

from datetime import UTC, datetime

from podfit.api.objects import Object
from podfit.api.schema.golang.embedded import VOLUME_FIELDS
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal
from podfit.apiserver.strategy.gates.kinds import drop_foreign_source
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.meta import keep
from podfit.apiserver.strategy.pod.update import difference
from podfit.apiserver.strategy.podspec.storage.claims import claim_spec, claim_status
from podfit.apiserver.strategy.podspec.storage.volume_defaults import default_claim_spec, default_source
from podfit.apiserver.strategy.storage.claim_changes import claim_changes
from podfit.apiserver.strategy.storage.persistent import volume_spec
from podfit.apiserver.strategy.storage_warnings import (
    MOUNT_OPTIONS,
    persistent_claim_warnings,
    persistent_volume_warnings,
)

_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""Kinds allowed in `dataSource`; all others need `dataSourceRef`."""
_ATTRIBUTES, _LATE_SECRET = "volumeAttributesClassName", "controllerExpandSecretRef"
"""The second may be added to a volume of a CSI driver that has none."""
_SINCE = "lastPhaseTransitionTime"
_MOUNTED = (
    *("gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder", "cephfs"),
    *("azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk"),
)
"""Volumes that accept mount options in an annotation."""


class PersistentVolumeClaimStrategy(Strategy):
    has_generation = False

    def default(self, obj: Object) -> None:
        default_claim_spec(obj.setdefault("spec", {}))
        if not (obj.setdefault("status", {})).get("phase"):
            obj["status"]["phase"] = "Pending"

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _prepare_source(obj["spec"], {})

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource != "status":
            _prepare_source(new.setdefault("spec", {}), old.get("spec") or {})
        super().prepare_update(new, old, subresource)

    def warnings_create(self, obj: Object) -> list[str]:
        return persistent_claim_warnings(obj)

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return [] if subresource else persistent_claim_warnings(new)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        claim_spec(obj.get("spec") or {}, "spec", errors)
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource:
            return super().validate_update(new, old, subresource)
        errors = self.validate_update_meta(new, old)
        claim_spec(new.get("spec") or {}, "spec", errors, old.get("spec"))
        return errors + self.validate_change(new, old)

    def validate_change(self, new: Object, old: Object) -> Errors:
        return claim_changes(new, old)

    def validate_status(self, new: Object, old: Object) -> Errors:
        return claim_status(new)


def _drop_unknown_source(spec: Object, stored: Object) -> None:
    """Drops a source of an unknown kind in the field of old clients, unless the stored claim has a source."""
    source = spec.get("dataSource")
    others = (spec.get("dataSourceRef"), stored.get("dataSource"), stored.get("dataSourceRef"))
    if source is None or any(each is not None for each in others):
        return
    if (source.get("apiGroup") or "", source.get("kind")) not in _SOURCES:
        del spec["dataSource"]


def _prepare_source(spec: Object, stored: Object) -> None:
    """Makes the two fields of the source equal if a client sets only one."""
    drop_foreign_source(spec, stored)
    _drop_unknown_source(spec, stored)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = _reference(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = _reference(reference)


def _reference(given: Object) -> Object:
    return {"apiGroup": given.get("apiGroup"), **{field: given.get(field, "") for field in ("kind", "name")}}


_LABELS_NOW = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}


class PersistentVolumeStrategy(Strategy):
    update_checks = "ww"
    has_generation = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        resourcelists.normalise(spec.get("capacity"))
        set_default(spec, "persistentVolumeReclaimPolicy", "Retain")
        set_default(spec, "volumeMode", "Filesystem")
        if not (obj.setdefault("status", {})).get("phase"):
            obj["status"]["phase"] = "Pending"
        for kind, source in spec.items():
            if isinstance(source, dict):
                default_source(kind, source)

    def reset_status(self, obj: Object) -> None:
        made = (obj.get("metadata") or {}).get("creationTimestamp")
        obj["status"] = {"phase": "Pending", **({_SINCE: made} if made else {})}

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            return
        status, before = {**(new.get("status") or {})}, old.get("status") or {}
        same = status.get("phase") == before.get("phase")
        if same and not status.get(_SINCE):
            keep(status, before, _SINCE)
        elif not same and status.get(_SINCE) in (None, before.get(_SINCE)):
            # A client that changes the phase may set the time; most do not.
            status[_SINCE] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        new["status"] = status

    def warnings_create(self, obj: Object) -> list[str]:
        return persistent_volume_warnings(obj)

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return [] if subresource else persistent_volume_warnings(new)

    def validate(self, obj: Object) -> Errors:
        return _volume(obj) + _mount_options(obj)

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors = _volume(new)  # Kubernetes validates volumes twice, and reports errors twice.
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        mine, before = (
            {key: value for key, value in each.items() if key not in VOLUME_FIELDS} for each in (spec, stored)
        )
        if (before.get("csi") or {}).get(_LATE_SECRET) is None and (mine.get("csi") or {}).get(
            _LATE_SECRET
        ) is not None:
            mine = {**mine, "csi": {key: value for key, value in mine["csi"].items() if key != _LATE_SECRET}}
        if not equal(mine, before):
            detail = f"spec.persistentvolumesource is immutable after creation\n{difference(before, mine)}"
            errors.append(forbidden("spec.persistentvolumesource", detail))
        if spec.get("volumeMode") != stored.get("volumeMode"):
            errors.append(invalid("volumeMode", spec.get("volumeMode"), IMMUTABLE))
        fixed, given = stored.get("nodeAffinity"), spec.get("nodeAffinity")
        if fixed is not None and not equal(given, fixed) and not equal(given, _relabelled(fixed, given or {})):
            detail = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", _affinity_as_go(given), detail))
        if stored.get(_ATTRIBUTES) is not None and spec.get(_ATTRIBUTES) is None:
            errors.append(forbidden(f"spec.{_ATTRIBUTES}", "update from non-nil value to nil is forbidden"))
        return errors


def _volume(obj: Object) -> Errors:
    errors: Errors = []
    volume_spec(obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", ""), "spec", errors)
    return errors


def _terms(affinity: Object) -> list[Object]:
    return (affinity.get("required") or {}).get("nodeSelectorTerms") or []


def _relabelled(fixed: Object, given: Object) -> Object:
    """The stored affinity, with those labels replaced by their newer names that the new affinity has."""
    names_given = {row.get("key") for term in _terms(given) for row in term.get("matchExpressions") or ()}

    def row_now(row: Object) -> Object:
        now = _LABELS_NOW.get(row.get("key", ""))
        return {**row, "key": now} if now in names_given else row

    terms = [
        {**term, "matchExpressions": [row_now(row) for row in term["matchExpressions"]]}
        if term.get("matchExpressions")
        else term
        for term in _terms(fixed)
    ]
    return {**fixed, "required": {**(fixed.get("required") or {}), "nodeSelectorTerms": terms}}


def _affinity_as_go(affinity: Object | None) -> Object | None:
    if affinity is None:
        return None

    def rows(term: Object, field: str) -> list[Object] | None:
        given = term.get(field)
        return given and [
            {"Key": row.get("key", ""), "Operator": row.get("operator", ""), "Values": row.get("values")}
            for row in given
        ]

    terms = [
        {"MatchExpressions": rows(term, "matchExpressions"), "MatchFields": rows(term, "matchFields")}
        for term in _terms(affinity)
    ]
    return {"Required": {"NodeSelectorTerms": terms}} if affinity.get("required") is not None else {"Required": None}


def _mount_options(volume: Object) -> Errors:
    """Validates the annotation that preceded the field mountOptions: only some volumes accept it."""
    annotations = (volume.get("metadata") or {}).get("annotations") or {}
    if MOUNT_OPTIONS not in annotations or any((volume.get("spec") or {}).get(kind) is not None for kind in _MOUNTED):
        return []
    return [forbidden(f"metadata.annotations.{MOUNT_OPTIONS}", "may not specify mount options for this volume type")]
