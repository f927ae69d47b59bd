"""Validates volumes of specific storage systems. Most have no effect any more, but pods may still use them, and errors
in them get Kubernetes' messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, local_descending_path, names_valid
from podfit.apiserver.strategy.podspec.storage.volume_files import secret_name

Check = Callable[[Object, str, Errors], None]

_INITIATORS = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9\-.]+)(:[^,;*&$|\s]+)$"),
    "eui": re.compile(r"^eui.[A-Za-z0-9]{16}$"),
    "naa": re.compile(r"^naa.[A-Za-z0-9]{32}$"),
}
_LUN = "must be between 0 and 255, inclusive"
_PAIRS = "must be a host:port pair or multiple pairs separated by commas"
_CACHING = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_MANAGED = ("/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",)
_BLOB = ("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",)
_LONGEST_DRIVER = 63


def requires(*fields: str) -> Check:
    def check(source: Object, path: str, errors: Errors) -> None:
        errors.extend(required(f"{path}.{field}") for field in fields if not source.get(field))

    return check


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


def _initiator(text: str, path: str, errors: Errors, persistent: bool) -> None:
    for prefix, pattern in _INITIATORS.items():
        if text.startswith(prefix):
            if not pattern.search(text):
                errors.append(invalid(path, text, "must be valid format"))
            return
    known = "" if persistent else " starting with iqn, eui, or naa"
    errors.append(invalid(path, text, f"must be valid format{known}"))


def iscsi(source: Object, path: str, errors: Errors, *, persistent: bool = False) -> None:
    """Validates an iSCSI source. `persistent`: that of a PersistentVolume, whose secret must have a name."""
    requires("targetPortal", "iqn")(source, path, errors)
    if source.get("iqn"):
        _initiator(source["iqn"], f"{path}.iqn", errors, persistent)
    if not 0 <= (source.get("lun") or 0) <= 255:
        errors.append(invalid(f"{path}.lun", source["lun"], _LUN))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if persistent:
        _secret_ref(source, path, errors)
    if source.get("initiatorName") is not None:
        _initiator(source["initiatorName"], f"{path}.initiatorname", errors, persistent)


def _flocker(source: Object, path: str, errors: Errors) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(path, "resource", detail))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _secret_ref(source: Object, path: str, errors: Errors) -> None:
    reference = source.get("secretRef")
    if reference is not None and not reference.get("name"):
        errors.append(required(f"{path}.secretRef.name"))


def _cinder(source: Object, path: str, errors: Errors) -> None:
    requires("volumeID")(source, path, errors)
    _secret_ref(source, path, errors)


def _quobyte(source: Object, path: str, errors: Errors) -> None:
    registry = source.get("registry", "")
    if not registry:
        errors.append(required(f"{path}.registry", _PAIRS))
    elif len(source.get("tenant") or "") >= 65:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{path}.tenant", detail))
    else:
        bad = [pair for pair in registry.split(",") if not re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*):[^:\[\]]*", pair)]
        errors.extend(invalid(f"{path}.registry", registry, _PAIRS) for _ in bad)
    requires("volume")(source, path, errors)


def _fc(source: Object, path: str, errors: Errors) -> None:
    targets, identifiers = source.get("targetWWNs") or [], source.get("wwids") or []
    if not targets and not identifiers:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if targets and identifiers:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", targets, detail))
    if targets:
        lun = source.get("lun")
        if lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            errors.append(invalid(f"{path}.lun", lun, _LUN))


def _flex(source: Object, path: str, errors: Errors) -> None:
    requires("driver")(source, path, errors)
    for key in source.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, detail))


def _azure_disk(source: Object, path: str, errors: Errors) -> None:
    requires("diskName", "diskURI")(source, path, errors)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    if caching is not None and caching not in _CACHING:
        errors.append(not_supported(f"{path}.cachingMode", caching, _CACHING))
    if kind is not None and kind not in _DISK_KINDS:
        errors.append(not_supported(f"{path}.kind", kind, _DISK_KINDS))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, _MANAGED))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, _BLOB))


def _storage_os(source: Object, path: str, errors: Errors) -> None:
    name, namespace = source.get("volumeName", ""), source.get("volumeNamespace", "")
    if not name:
        errors.append(required(f"{path}.volumeName"))
    else:
        names_valid(name, f"{path}.volumeName", names.dns_label(name), errors)
    if namespace:
        names_valid(namespace, f"{path}.volumeNamespace", names.dns_label(namespace), errors)
    _secret_ref(source, path, errors)


def _csi(source: Object, path: str, errors: Errors) -> None:
    driver = source.get("driver", "")
    if not driver:
        errors.append(required(f"{path}.driver"))
    else:
        if len(driver) > _LONGEST_DRIVER:
            errors.append(too_long(f"{path}.driver", _LONGEST_DRIVER))
        names_valid(driver, f"{path}.driver", names.dns_subdomain(driver.lower()), errors)
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        if not secret.get("name"):
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            secret_name(secret["name"], f"{path}.name", errors)


def portal_fits(volume: Object, path: str, errors: Errors) -> None:
    """Validates the length of the session's name, which is composed of the names of volume and portal."""
    source, name = volume["iscsi"], volume.get("name", "")
    if source.get("initiatorName") is not None and len(f"{name}:{source.get('targetPortal', '')}") > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
            "specified."
        )
        errors.append(invalid(f"{path}.name", name, detail))


def nothing_else(metadata: Object, path: str, errors: Errors) -> None:
    """Validates that the metadata of a template inside a pod has only labels and annotations."""
    for field in sorted(metadata):
        if field not in ("labels", "annotations") and metadata[field] not in (None, "", [], {}, 0):
            shown = "uID" if field == "uid" else field
            errors.append(forbidden(f"{path}.{shown}", "cannot be set"))


PLUGINS: dict[str, Check] = {
    "gitRepo": _git_repo,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "iscsi": iscsi,
    "glusterfs": requires("endpoints", "path"),
    "flocker": _flocker,
    "rbd": requires("monitors", "image"),
    "cinder": _cinder,
    "cephfs": requires("monitors"),
    "quobyte": _quobyte,
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": requires("secretName", "shareName"),
    "vsphereVolume": requires("volumePath"),
    "photonPersistentDisk": requires("pdID"),
    "portworxVolume": requires("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": requires("gateway", "system", "volumeName"),
    "csi": _csi,
}
