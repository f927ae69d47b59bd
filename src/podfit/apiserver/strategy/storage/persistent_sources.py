"""The volume sources of a PersistentVolume, and the required fields of each.

Sources that pods may also have are validated by the same functions, where Kubernetes has the same rules for both.
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid, no_backsteps
from podfit.apiserver.strategy.podspec.storage.volume_plugins import PLUGINS, Check, iscsi, requires
from podfit.apiserver.strategy.podspec.storage.volumes import host_path, nfs
from podfit.apiserver.strategy.storage.csi import driver_name

_MANY = "may not specify more than 1 volume type"
_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_LONGEST_SESSION = 64


def volume_source(spec: Object, name: str, path: str, errors: Errors) -> None:
    """Validates the source. `name` is that of the volume, which is part of an iSCSI session's name."""
    found = False
    for kind, check in _CHECKS.items():
        source = spec.get(kind)
        if source is None:
            continue
        # Kubernetes accepts a flexVolume in addition to an earlier source.
        if found and kind != "flexVolume":
            errors.append(forbidden(f"{path}.{_SPELLED_TWICE.get(kind, kind)}", _MANY))
            continue
        found = True
        if kind == "iscsi":
            _session(source, name, f"{path}.iscsi", errors)
        check(source, f"{path}.{_SPELLED.get(kind, kind)}", errors)
        if kind == "local" and spec.get("nodeAffinity") is None:
            errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    if not found:
        errors.append(required(path, "must specify a volume type"))


def _glusterfs(source: Object, path: str, errors: Errors) -> None:
    requires("endpoints", "path")(source, path, errors)
    space = source.get("endpointsNamespace")
    if space == "":
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(f"{path}.endpointsNamespace", space, detail))
    elif space is not None:
        names_valid(space, f"{path}.endpointsNamespace", names.dns_label(space), errors)


def _session(source: Object, name: str, path: str, errors: Errors) -> None:
    portal = source.get("targetPortal") or ""
    if source.get("initiatorName") is not None and portal and len(f"{name}:{portal}".encode()) > _LONGEST_SESSION:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(invalid(f"{path}.targetportal", portal, detail))


def _iscsi(source: Object, path: str, errors: Errors) -> None:
    iscsi(source, path, errors, persistent=True)


def _secret_of_a_namespace(source: Object, path: str, errors: Errors) -> None:
    secret = source.get("secretRef")
    if secret is not None:
        requires("name", "namespace")(secret, f"{path}.secretRef", errors)


def _cinder(source: Object, path: str, errors: Errors) -> None:
    requires("volumeID")(source, path, errors)
    _secret_of_a_namespace(source, path, errors)


def _azure_file(source: Object, path: str, errors: Errors) -> None:
    requires("secretName", "shareName")(source, path, errors)
    if source.get("secretNamespace") == "":
        errors.append(required(f"{path}.secretNamespace"))


def _local(source: Object, path: str, errors: Errors) -> None:
    requires("path")(source, path, errors)
    if source.get("path"):
        no_backsteps(source["path"], f"{path}.path", errors)


def _storage_os(source: Object, path: str, errors: Errors) -> None:
    PLUGINS["storageos"]({**source, "secretRef": None}, path, errors)
    _secret_of_a_namespace(source, path, errors)


def _csi(source: Object, path: str, errors: Errors) -> None:
    driver_name(source.get("driver") or "", f"{path}.driver", errors)
    requires("volumeHandle")(source, path, errors)
    for field in _SECRETS:
        if source.get(field) is not None:
            _reference(source[field], f"{path}.{field}", errors)


def _reference(secret: Object, path: str, errors: Errors) -> None:
    requires("name")(secret, path, errors)
    if name := secret.get("name"):
        names_valid(name, f"{path}.name", names.dns_subdomain(name), errors)
    requires("namespace")(secret, path, errors)
    if space := secret.get("namespace"):
        names_valid(space, f"{path}.namespace", names.dns_label(space), errors)


_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_SPELLED_TWICE = {"cephfs": "cephFS"}
"""Paths of errors in Kubernetes' spelling, including its mistakes."""
_OWN: Mapping[str, Check] = {
    "hostPath": host_path,
    "glusterfs": _glusterfs,
    "nfs": nfs,
    "iscsi": _iscsi,
    "cinder": _cinder,
    "azureFile": _azure_file,
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}
_ORDER = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_CHECKS: Mapping[str, Check] = {kind: _OWN.get(kind) or PLUGINS[kind] for kind in _ORDER}
