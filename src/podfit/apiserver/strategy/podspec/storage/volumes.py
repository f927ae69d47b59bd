"""Validates the volumes of a pod by their sources, in the order in which Kubernetes checks sources."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import duplicate, go_quote, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, chosen, labels, names_valid, no_backsteps
from podfit.apiserver.strategy.meta import validate_annotations
from podfit.apiserver.strategy.podspec.storage.claims import claim_spec
from podfit.apiserver.strategy.podspec.storage.volume_files import downward, files, projected
from podfit.apiserver.strategy.podspec.storage.volume_plugins import PLUGINS, nothing_else, portal_fits, requires

Check = Callable[[Object, str, Errors], None]

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MANY = "may not specify more than 1 volume type"


def volumes(listed: list[Object], pod_name: str, path: str, errors: Errors, *, is_pod: bool) -> dict[str, Object]:
    """Validates volumes. Returns the valid ones by name, to which mounts may refer."""
    valid: dict[str, Object] = {}
    created = {f"{pod_name}-{each.get('name', '')}" for each in listed if pod_name and each.get("ephemeral")}
    for at, volume in enumerate(listed):
        here, name = f"{path}[{at}]", volume.get("name", "")
        found: Errors = []
        _source(volume, name, pod_name, here, found)
        alone = sum(volume.get(kind) is not None for kind in _ORDER) == 1
        if is_pod and alone and volume.get("image") is not None and not volume["image"].get("reference"):
            found.append(required(f"{here}.image.reference"))
        if not name:
            found.append(required(f"{here}.name"))
        else:
            names_valid(name, f"{here}.name", names.dns_label(name), found)
        if name in valid:
            found.append(duplicate(f"{here}.name", name))
        if found:
            errors.extend(found)
        else:
            valid[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and claim in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail))
    return valid


def _source(volume: Object, name: str, pod_name: str, path: str, errors: Errors) -> None:
    found = False
    for kind, check in _CHECKS.items():
        source = volume.get(kind)
        if source is None:
            continue
        if found:
            errors.append(forbidden(f"{path}.{_SPELLED_TWICE.get(kind, kind)}", _MANY))
        else:
            found = True
            check(source, f"{path}.{_SPELLED.get(kind, kind)}", errors)
            if kind == "ephemeral" and pod_name and name:
                claim = f"{pod_name}-{name}"
                for text in names.dns_subdomain(claim):
                    errors.append(invalid(f"{path}.name", name, f"PVC name {go_quote(claim)}: {text}"))
        if kind == "iscsi":
            portal_fits(volume, path, errors)
    if not found:
        errors.append(required(path, "must specify a volume type"))


def _empty_dir(source: Object, path: str, errors: Errors) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit).nanos < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def host_path(source: Object, path: str, errors: Errors) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
        return
    no_backsteps(source["path"], f"{path}.path", errors)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def nfs(source: Object, path: str, errors: Errors) -> None:
    requires("server", "path")(source, path, errors)
    if not (source.get("path") or "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))


def _ephemeral(source: Object, path: str, errors: Errors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(required(f"{path}.volumeClaimTemplate"))
        return
    here, metadata = f"{path}.volumeClaimTemplate", template.get("metadata") or {}
    validate_annotations(metadata.get("annotations") or {}, f"{here}.metadata.annotations", errors)
    labels(metadata.get("labels"), f"{here}.metadata.labels", errors)
    nothing_else(metadata, f"{here}.metadata", errors)
    claim_spec(template.get("spec") or {}, f"{here}.spec", errors)


def _image(source: Object, path: str, errors: Errors) -> None:
    chosen(source.get("pullPolicy"), f"{path}.pullPolicy", _PULL_POLICIES, errors)


_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_SPELLED_TWICE = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Paths of errors in Kubernetes' spelling, including its mistakes."""
_OWN: dict[str, Check] = {
    "emptyDir": _empty_dir,
    "hostPath": host_path,
    "secret": files("secretName"),
    "nfs": nfs,
    "persistentVolumeClaim": requires("claimName"),
    "downwardAPI": downward,
    "configMap": files("name"),
    "projected": projected,
    "ephemeral": _ephemeral,
    "image": _image,
}
_ORDER = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
]
_CHECKS: dict[str, Check] = {kind: _OWN.get(kind) or PLUGINS[kind] for kind in _ORDER}
