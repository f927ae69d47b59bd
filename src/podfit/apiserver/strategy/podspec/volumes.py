"""Validation of the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.quantity import Quantity
from podfit.api.status import duplicate, go_quote, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.apiserver.strategy import names
from podfit.apiserver.strategy.checks import (
    Errors,
    file_mode,
    local_descending_path,
    local_non_reserved_path,
    names_valid,
    no_backsteps,
)
from podfit.apiserver.strategy.podspec.environment import VOLUME_FIELDS, field_selector, resource_selector

Object = dict[str, Any]
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
_MANY = "may not specify more than 1 volume type"


def volumes(listed: list[Object], pod_name: str, path: str, errors: Errors) -> dict[str, Object]:
    """Checks volumes and answers with the valid ones by name: what mounts may refer to."""
    valid: dict[str, Object] = {}
    created = {f"{pod_name}-{each.get('name', '')}" for each in listed if pod_name and each.get("ephemeral")}
    for at, volume in enumerate(listed):
        here, name = f"{path}[{at}]", volume.get("name", "")
        found: Errors = []
        _source(volume, name, pod_name, here, found)
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
            errors.append(forbidden(f"{path}.{kind}", _MANY))
            continue
        found = True
        check(source, f"{path}.{_SPELLED.get(kind, kind)}", errors)
        if kind == "ephemeral" and pod_name and name:
            claim = f"{pod_name}-{name}"
            for text in names.dns_subdomain(claim):
                errors.append(invalid(f"{path}.name", name, f"PVC name {go_quote(claim)}: {text}"))
    if not found:
        errors.append(required(path, "must specify a volume type"))


def _requires(*fields: str) -> Check:
    def check(source: Object, path: str, errors: Errors) -> None:
        errors.extend(required(f"{path}.{field}") for field in fields if not source.get(field))

    return check


def _empty_dir(source: Object, path: str, errors: Errors) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(limit).nanos < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _host_path(source: Object, path: str, errors: Errors) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
        return
    no_backsteps(source["path"], f"{path}.path", errors)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def _git_repo(source: Object, path: str, errors: Errors) -> None:
    if not source.get("repository"):
        errors.append(required(f"{path}.repository"))
    local_descending_path(source.get("directory") or "", f"{path}.directory", errors)


def _disk(field: str) -> Check:
    def check(source: Object, path: str, errors: Errors) -> None:
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
        if not 0 <= (source.get("partition") or 0) <= 255:
            errors.append(invalid(f"{path}.partition", source["partition"], "must be between 1 and 255, inclusive"))

    return check


def _files(name_field: str) -> Check:
    def check(source: Object, path: str, errors: Errors) -> None:
        if not source.get(name_field):
            errors.append(required(f"{path}.{name_field}"))
        file_mode(source, "defaultMode", path, errors)
        for at, item in enumerate(source.get("items") or ()):
            _key_to_path(item, f"{path}.items[{at}]", errors)

    return check


def _key_to_path(item: Object, path: str, errors: Errors) -> None:
    for field in ("key", "path"):
        if not item.get(field):
            errors.append(required(f"{path}.{field}"))
    local_non_reserved_path(item.get("path") or "", f"{path}.path", errors)
    file_mode(item, "mode", path, errors)


def _nfs(source: Object, path: str, errors: Errors) -> None:
    _requires("server", "path")(source, path, errors)
    if not (source.get("path") or "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))


def _iscsi(source: Object, path: str, errors: Errors) -> None:
    _requires("targetPortal", "iqn")(source, path, errors)
    name = source.get("iqn")
    if name and not name.startswith(("iqn", "eui", "naa")):
        errors.append(invalid(f"{path}.iqn", name, "must be valid format starting with iqn, eui, or naa"))
    if not 0 <= (source.get("lun") or 0) <= 255:
        errors.append(invalid(f"{path}.lun", source["lun"], "must be between 0 and 255, inclusive"))


def _downward(source: Object, path: str, errors: Errors) -> None:
    file_mode(source, "defaultMode", path, errors)
    for item in source.get("items") or ():
        _downward_file(item, path, errors)


def _downward_file(item: Object, path: str, errors: Errors) -> None:
    if not item.get("path"):
        errors.append(required(f"{path}.path"))
    local_non_reserved_path(item.get("path") or "", f"{path}.path", errors)
    if item.get("fieldRef") is not None:
        field_selector(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef", errors)
        if item.get("resourceFieldRef") is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif item.get("resourceFieldRef") is not None:
        resource_selector(item["resourceFieldRef"], f"{path}.resourceFieldRef", errors, volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    file_mode(item, "mode", path, errors)


def _projected(source: Object, path: str, errors: Errors) -> None:
    file_mode(source, "defaultMode", path, errors)
    taken: set[str] = set()
    for at, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{at}]"
        found = [name for name in _PROJECTIONS if part.get(name) is not None]
        for name in found:
            _PROJECTIONS[name](part[name], f"{here}.{name}", errors)
            for file in _paths(name, part[name]):
                if file in taken:
                    shown = part[name].get("name", "")
                    errors.append(invalid(path, shown, "conflicting duplicate paths"))
                taken.add(file)
        if len(found) > 1:
            errors.append(forbidden(here, _MANY))
        elif not found:
            errors.append(required(here, "must specify a volume type"))


def _paths(kind: str, part: Object) -> list[str]:
    items = part.get("items") or ()
    if kind in ("secret", "configMap", "downwardAPI"):
        return [item["path"] for item in items if item.get("path")]
    file = part.get("path")
    return [file] if file else []


def _projected_downward(part: Object, path: str, errors: Errors) -> None:
    for at, item in enumerate(part.get("items") or ()):
        _downward_file(item, f"{path}.items[{at}]", errors)


def _token(part: Object, path: str, errors: Errors) -> None:
    lifetime = part.get("expirationSeconds", 0)
    if lifetime < 600:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", lifetime, detail))
    if lifetime > 2**32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", lifetime, detail))
    if not part.get("path"):
        errors.append(required(f"{path}.path"))
    else:
        local_non_reserved_path(part["path"], f"{path}.path", errors)


def _csi(source: Object, path: str, errors: Errors) -> None:
    driver = source.get("driver", "")
    if not driver:
        errors.append(required(f"{path}.driver"))
    else:
        names_valid(driver, f"{path}.driver", names.dns_subdomain(driver.lower()), errors)
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))


def _ephemeral(source: Object, path: str, errors: Errors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(required(f"{path}.volumeClaimTemplate"))
        return
    here = f"{path}.volumeClaimTemplate.spec"
    spec = template.get("spec") or {}
    if not spec.get("accessModes"):
        errors.append(required(f"{here}.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        errors.append(required(f"{here}.resources[storage]"))


def _image(source: Object, path: str, errors: Errors) -> None:
    if not source.get("reference"):
        errors.append(required(f"{path}.reference"))
    policy = source.get("pullPolicy")
    if policy and policy not in ("Always", "IfNotPresent", "Never"):
        errors.append(not_supported(f"{path}.pullPolicy", policy, ("Always", "IfNotPresent", "Never")))


_PROJECTIONS: dict[str, Check] = {
    "secret": _files("name"),
    "configMap": _files("name"),
    "downwardAPI": _projected_downward,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _requires("path"),
    "podCertificate": _requires("signerName", "keyType"),
}
_SPELLED = {"gcePersistentDisk": "persistentDisk"}
_CHECKS: dict[str, Check] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git_repo,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": _files("secretName"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _requires(),
    "persistentVolumeClaim": _requires("claimName"),
    "rbd": _requires("monitors", "image"),
    "cinder": _requires("volumeID"),
    "cephfs": _requires("monitors"),
    "quobyte": _requires("registry", "volume"),
    "downwardAPI": _downward,
    "fc": _requires(),
    "flexVolume": _requires("driver"),
    "configMap": _files("name"),
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _requires("diskName", "diskURI"),
    "storageos": _requires(),
    "projected": _projected,
    "scaleIO": _requires("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
