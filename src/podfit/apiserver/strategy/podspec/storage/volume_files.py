"""Validates volumes with files from API objects: secrets, config maps, the downward API, and projections of several."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import (
    Errors,
    file_mode,
    label_selector,
    local_non_reserved_path,
    names_valid,
)
from podfit.apiserver.strategy.podspec.environment import VOLUME_FIELDS, field_selector, resource_selector

Check = Callable[[Object, str, Errors], None]

_SHORTEST_TOKEN_S = 600
_CONFLICT = "conflicting duplicate paths"


def files(name_field: str) -> Check:
    """Validates a volume from a secret or a config map."""

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


def downward(source: Object, path: str, errors: Errors) -> None:
    file_mode(source, "defaultMode", path, errors)
    for item in source.get("items") or ():
        # Errors name the volume, not the item: Kubernetes does not pass an index.
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


def projected(source: Object, path: str, errors: Errors) -> None:
    file_mode(source, "defaultMode", path, errors)
    taken: set[str] = set()
    for at, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{at}]"
        for kind in ("secret", "configMap"):
            if part.get(kind) is not None:
                _projected_files(part[kind], f"{here}.{kind}", path, taken, errors)
        if part.get("downwardAPI") is not None:
            for item in part["downwardAPI"].get("items") or ():
                _downward_file(item, f"{here}.downwardAPI", errors)
                _claim(item.get("path"), item.get("path"), path, taken, errors)
        if part.get("serviceAccountToken") is not None:
            _token(part["serviceAccountToken"], f"{here}.serviceAccountToken", path, errors)
        if part.get("clusterTrustBundle") is not None:
            bundle = part["clusterTrustBundle"]
            _trust_bundle(bundle, f"{here}.clusterTrustBundle", errors)
            _claim(bundle.get("path", ""), bundle.get("path", ""), path, taken, errors)
        if sum(value is not None for value in part.values()) > 1:
            errors.append(forbidden(here, "may not specify more than 1 volume type per source"))


def _projected_files(part: Object, path: str, volume: str, taken: set[str], errors: Errors) -> None:
    name = part.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    for at, item in enumerate(part.get("items") or ()):
        _key_to_path(item, f"{path}.items[{at}]", errors)
        if item.get("path"):
            _claim(item["path"], name, volume, taken, errors)


def _claim(file: str | None, shown: str | None, volume: str, taken: set[str], errors: Errors) -> None:
    """Validates that each path in a projection is used only once."""
    if file is None:
        return
    if file in taken:
        errors.append(invalid(volume, shown or "", _CONFLICT))
    taken.add(file)


def _token(part: Object, path: str, volume: str, errors: Errors) -> None:
    lifetime = part.get("expirationSeconds", 0)
    if lifetime < _SHORTEST_TOKEN_S:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", lifetime, detail))
    if lifetime > 2**32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", lifetime, detail))
    if not part.get("path"):
        errors.append(required(f"{volume}.path"))
    else:
        local_non_reserved_path(part["path"], f"{volume}.path", errors)


def _trust_bundle(part: Object, path: str, errors: Errors) -> None:
    name, signer = part.get("name"), part.get("signerName")
    if name is not None and signer is not None:
        errors.append(invalid(path, part, "only one of name and signerName may be used"))
    elif name is not None:
        if not name:
            errors.append(required(f"{path}.name", "must be a valid object name"))
        for text in names.dns_subdomain(name.rpartition(":")[2]):
            errors.append(invalid(f"{path}.name", name, f"not a valid clustertrustbundlename: {text}"))
        if part.get("labelSelector") is not None:
            detail = "labelSelector must be unset if name is specified"
            errors.append(invalid(f"{path}.labelSelector", part["labelSelector"], detail))
    elif signer is not None:
        if not signer:
            errors.append(required(f"{path}.signerName", "must be a valid signer name"))
        label_selector(part.get("labelSelector"), f"{path}.labelSelector", errors)
    else:
        errors.append(required(path, "either name or signerName must be specified"))
    if not part.get("path"):
        errors.append(required(f"{path}.path"))
    local_non_reserved_path(part.get("path") or "", f"{path}.path", errors)


def secret_name(name: str, path: str, errors: Errors) -> None:
    names_valid(name, path, names.dns_subdomain(name), errors)
