"""The objects that a pod refers to: secrets, config maps, claims. Its node may read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podfit.api.objects import Object

# Volume sources that refer to a secret, and the path to its name below the source.
_SECRET_SOURCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("azureFile", ("secretName",)),
    ("cephfs", ("secretRef", "name")),
    ("cinder", ("secretRef", "name")),
    ("flexVolume", ("secretRef", "name")),
    ("rbd", ("secretRef", "name")),
    ("secret", ("secretName",)),
    ("scaleIO", ("secretRef", "name")),
    ("iscsi", ("secretRef", "name")),
    ("storageos", ("secretRef", "name")),
    ("csi", ("nodePublishSecretRef", "name")),
)


def secret_names(pod: Object) -> set[str]:
    spec = pod.get("spec") or {}
    names = {ref.get("name") for ref in spec.get("imagePullSecrets") or ()}
    names.add((spec.get("virtualMachine") or {}).get("keyPairName"))
    for container in containers(spec):
        names.update(_env_names(container, "secretRef", "secretKeyRef"))
    for volume in spec.get("volumes") or ():
        for source, path in _SECRET_SOURCES:
            value: Any = volume.get(source)
            for step in path:
                value = (value or {}).get(step)
            names.add(value)
        names.update((source.get("secret") or {}).get("name") for source in _projected(volume))
    return {name for name in names if name}


def config_map_names(pod: Object) -> set[str]:
    spec = pod.get("spec") or {}
    names: set[Any] = set()
    for container in containers(spec):
        names.update(_env_names(container, "configMapRef", "configMapKeyRef"))
    for volume in spec.get("volumes") or ():
        names.add((volume.get("configMap") or {}).get("name"))
        names.update((source.get("configMap") or {}).get("name") for source in _projected(volume))
    return {name for name in names if name}


def claim_names(pod: Object) -> set[str]:
    """Claims that a pod mounts; an ephemeral volume's claim is named after pod and volume."""
    names = set()
    pod_name = (pod.get("metadata") or {}).get("name", "")
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim:
            names.add(claim.get("claimName"))
        elif volume.get("ephemeral"):
            names.add(f"{pod_name}-{volume.get('name')}")
    return {name for name in names if name}


def referenced(pod: Object) -> str:
    """The first kind of API object that a pod refers to, as named in Kubernetes' errors; "" for a pod without any.

    Raises ValueError for a projected volume with an unknown source.
    """
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        return "serviceaccounts"
    if secret_names(pod):
        return "secrets"
    if config_map_names(pod):
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    found = (_volume_reference(volume) for volume in spec.get("volumes") or ())
    return next((words for words in found if words), "")


_VOLUME_REFERENCES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_SOURCE_REFERENCES = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def _volume_reference(volume: dict[str, Any]) -> str:
    for kind, words in _VOLUME_REFERENCES.items():
        if volume.get(kind) is not None:
            return words
    for source in _projected(volume):
        for kind, words in _SOURCE_REFERENCES.items():
            if source.get(kind) is not None:
                return words
        if source.get("downwardAPI") is None:
            raise ValueError(f'unknown source for projected volume "{volume.get("name")}"')
    return ""


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def _projected(volume: dict[str, Any]) -> list[dict[str, Any]]:
    return (volume.get("projected") or {}).get("sources") or []


def _env_names(container: dict[str, Any], whole: str, single: str) -> Iterator[Any]:
    for source in container.get("envFrom") or ():
        yield (source.get(whole) or {}).get("name")
    for variable in container.get("env") or ():
        yield ((variable.get("valueFrom") or {}).get(single) or {}).get("name")
