"""Validation of a container's volume mounts and block devices."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import field_not_found, invalid, not_supported, required
from podfit.apiserver.strategy.checks import Errors, local_descending_path

_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_DISKS = ("BlockDevice", "File")
"""Types of a hostPath that is a disk of a virtual machine."""
_READ_ONLY = ("Disabled", "Enabled", "IfPossible")


def volume_mounts(container: Object, volumes: Mapping[str, Object], path: str, errors: Errors) -> None:
    devices = {each.get("name"): each.get("devicePath") for each in container.get("volumeDevices") or ()}
    seen: set[str] = set()
    for at, mount in enumerate(container["volumeMounts"]):
        here, name, where = f"{path}[{at}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{here}.name"))
        if name not in volumes:
            errors.append(field_not_found(f"{here}.name", name))
        if not where:
            errors.append(required(f"{here}.mountPath"))
        if where in seen:
            errors.append(invalid(f"{here}.mountPath", where, "must be unique"))
        seen.add(where)
        if devices:
            if name in devices:
                errors.append(invalid(f"{here}.name", name, "must not already exist in volumeDevices"))
            if where in devices.values():
                detail = "must not already exist as a path in volumeDevices"
                errors.append(invalid(f"{here}.mountPath", where, detail))
        if (volumes.get(name) or {}).get("image") is not None and mount.get("subPathExpr"):
            detail = "not allowed in image volume sources"
            errors.append(invalid(f"{here}.subPathExpr", mount["subPathExpr"], detail))
        _sub_paths(mount, path, here, errors)
        if mount.get("mountPropagation") is not None:
            _propagation(mount["mountPropagation"], container, f"{path}.mountPropagation", errors)
        if mount.get("recursiveReadOnly") is not None:
            _recursive(mount, f"{path}.recursiveReadOnly", errors)


def _sub_paths(mount: Object, path: str, here: str, errors: Errors) -> None:
    plain, expression = mount.get("subPath"), mount.get("subPathExpr")
    if plain:
        local_descending_path(plain, f"{path}.subPath", errors)
    if expression:
        if plain:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{here}.subPathExpr", expression, detail))
        local_descending_path(expression, f"{path}.subPathExpr", errors)


def _propagation(mode: str, container: Object, path: str, errors: Errors) -> None:
    if mode not in _PROPAGATION:
        errors.append(not_supported(path, mode, _PROPAGATION))
    privileged = bool((container.get("securityContext") or {}).get("privileged"))
    if mode == "Bidirectional" and not privileged:
        errors.append(forbidden(path, "Bidirectional mount propagation is available only to privileged containers"))


def _recursive(mount: Object, path: str, errors: Errors) -> None:
    mode = mount["recursiveReadOnly"]
    if mode not in _READ_ONLY:
        errors.append(not_supported(path, mode, _READ_ONLY))
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            errors.append(forbidden(path, "may only be specified when mountPropagation is None or not specified"))


def volume_devices(
    container: Object, volumes: Mapping[str, Object], path: str, errors: Errors, *, machine: bool = False
) -> None:
    """Validates block devices. `machine`: those of a virtual machine are disks, and may be a device or a file of the
    node."""
    mounts = {each.get("name"): each.get("mountPath") for each in container.get("volumeMounts") or ()}
    paths: set[str] = set()
    found: set[str] = set()
    for at, device in enumerate(container["volumeDevices"]):
        here, name, where = f"{path}[{at}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{here}.name"))
        if name in found:
            errors.append(invalid(f"{here}.name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is None:
            errors.append(field_not_found(f"{here}.name", name))
        elif not _is_block(volume, machine):
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{here}.name", name, detail))
        if not where:
            errors.append(required(f"{here}.devicePath"))
        if where in paths:
            errors.append(invalid(f"{here}.devicePath", where, "must be unique"))
        if ".." in where.split("/"):
            errors.append(invalid(f"{here}.devicePath", where, "can not contain backsteps ('..')"))
        else:
            paths.add(where)
        if name in mounts:
            errors.append(invalid(f"{here}.name", name, "must not already exist in volumeMounts"))
        if where in mounts.values():
            errors.append(invalid(f"{here}.devicePath", where, "must not already exist as a path in volumeMounts"))
        if name:
            found.add(name)


def _is_block(volume: Object, machine: bool) -> bool:
    if machine and (volume.get("hostPath") or {}).get("type") in _DISKS:
        return True
    return volume.get("persistentVolumeClaim") is not None or volume.get("ephemeral") is not None
