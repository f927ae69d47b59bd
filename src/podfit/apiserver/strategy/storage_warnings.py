"""Warnings about volumes and claims that are accepted: deprecated fields, and requests for fractional bytes."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.strategy.pod.volume_warnings import OLD_VOLUMES, SPELLED, claim_warnings
from podfit.apiserver.strategy.pod.warnings import deprecated_node_label

_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."

_OLD_SOURCES = ("photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd", "cephfs")


def _old_class(obj: Object) -> list[str]:
    if _OLD_CLASS not in ((obj.get("metadata") or {}).get("annotations") or {}):
        return []
    return [f'metadata.annotations[{_OLD_CLASS}]: deprecated since v1.8; use "storageClassName" attribute instead']


def persistent_claim_warnings(claim: Object) -> list[str]:
    found = _old_class(claim)
    claim_warnings(claim.get("spec") or {}, "spec", found)
    return found


def persistent_volume_warnings(volume: Object) -> list[str]:
    spec, found = volume.get("spec") or {}, _old_class(volume)
    if MOUNT_OPTIONS in ((volume.get("metadata") or {}).get("annotations") or {}):
        found.append(
            f'metadata.annotations[{MOUNT_OPTIONS}]: deprecated since v1.31; use "mountOptions" attribute instead'
        )
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}")
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for at, term in enumerate(required.get("nodeSelectorTerms") or ()):
        for number, row in enumerate(term.get("matchExpressions") or ()):
            if text := deprecated_node_label(row.get("key", "")):
                where = f"spec.nodeAffinity.required.nodeSelectorTerms[{at}].matchExpressions[{number}].key"
                found.append(f"{where}: {row['key']} is {text}")
    old = (kind for kind in _OLD_SOURCES if spec.get(kind) is not None)
    return found + [f"spec.{SPELLED.get(kind, kind)}: {OLD_VOLUMES[kind]}" for kind in old]
