"""Whether a pod refers to other objects of the API. A node must not be able to create one that does: it could read
whatever it names there."""

from __future__ import annotations

from typing import Any

from podfit.api.pod_references import config_map_names, secret_names
from podfit.api.status import Object
from podfit.apiserver.admission.base import spec_of

_LOCAL = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    )
)
_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_SOURCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class UnknownVolume(Exception):
    """What it refers to cannot be said."""


def referenced(pod: Object) -> str:
    """What the pod refers to, in Kubernetes' words; "" where it stands alone. Raises UnknownVolume."""
    spec = spec_of(pod)
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if secret_names(pod):
        return "secrets"
    if config_map_names(pod):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        if found := _by_volume(volume):
            return found
    return ""


def _by_volume(volume: dict[str, Any]) -> str:
    for name, words in _VOLUMES.items():
        if volume.get(name) is not None:
            return words
    if (projected := volume.get("projected")) is not None:
        return next(filter(None, (_by_source(volume, source) for source in projected.get("sources") or ())), "")
    if not any(volume.get(name) is not None for name in _LOCAL):
        raise UnknownVolume(f'unknown volume type for volume  "{volume.get("name", "")}"')
    return ""


def _by_source(volume: dict[str, Any], source: dict[str, Any]) -> str:
    for name, words in _SOURCES.items():
        if source.get(name) is not None:
            return words
    if source.get("downwardAPI") is None:
        raise UnknownVolume(f'unknown source for projected volume "{volume.get("name", "")}"')
    return ""
