"""Validation of environment variables and of their sources."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import field_not_found, invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid, no_backsteps

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_CONVERTIBLE = frozenset((*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"))
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def env(variables: list[Object], volumes: Mapping[str, Object], path: str, errors: Errors) -> None:
    for at, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(required(f"{path}[{at}].name"))
        else:
            names_valid(name, f"{path}[{at}].name", names.env_var_name(name), errors)
        if variable.get("valueFrom") is not None:
            _value_from(variable, volumes, f"{path}[{at}].valueFrom", errors)


def _value_from(variable: Object, volumes: Mapping[str, Object], path: str, errors: Errors) -> None:
    source = variable["valueFrom"]
    found = [name for name in _SOURCES if source.get(name) is not None]
    for name in found:
        here = f"{path}.{name}"
        if name == "fieldRef":
            field_selector(source[name], ENV_FIELDS, here, errors)
        elif name == "resourceFieldRef":
            resource_selector(source[name], here, errors, volume=False)
        elif name == "fileKeyRef":
            _file_key(source[name], volumes, here, errors)
        else:
            _key_selector(source[name], here, errors)
    if not found:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(path, "", detail))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(found) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def field_selector(selector: Object, allowed: tuple[str, ...], path: str, errors: Errors) -> None:
    field = selector.get("fieldPath", "")
    if not selector.get("apiVersion"):
        errors.append(required(f"{path}.apiVersion"))
        return
    if not field:
        errors.append(required(f"{path}.fieldPath"))
        return
    base, subscript = _subscript(field)
    if selector["apiVersion"] != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {selector['apiVersion']}"
        errors.append(invalid(f"{path}.fieldPath", field, detail))
    elif subscript is not None:
        if base not in ("metadata.annotations", "metadata.labels"):
            detail = f"error converting fieldPath: field label does not support subscript: {field}"
            errors.append(invalid(f"{path}.fieldPath", field, detail))
        else:
            key = subscript.lower() if base == "metadata.annotations" else subscript
            names_valid(key, path, names.qualified_name(key), errors)
    elif field == "spec.host" and "spec.nodeName" in allowed:
        pass  # The name of spec.nodeName before v1.
    elif field not in _CONVERTIBLE:
        detail = f"error converting fieldPath: field label not supported: {field}"
        errors.append(invalid(f"{path}.fieldPath", field, detail))
    elif field not in allowed:
        errors.append(not_supported(f"{path}.fieldPath", field, allowed))


def _subscript(field: str) -> tuple[str, str | None]:
    if field.endswith("']") and "['" in field:
        base, _, rest = field.partition("['")
        return base, rest[:-2]
    return field, None


def resource_selector(selector: Object, path: str, errors: Errors, *, volume: bool) -> None:
    resource = selector.get("resource", "")
    if volume and not selector.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = Quantity.parse(selector.get("divisor") or "0")
    if divisor:
        _divisor(resource, str(divisor), f"{path}.divisor", errors)


def _divisor(resource: str, divisor: str, path: str, errors: Errors) -> None:
    what = resource.partition(".")[2]
    if what == "cpu":
        if divisor not in ("1m", "1"):
            errors.append(invalid(path, resource, "only divisor's values 1m and 1 are supported with the cpu resource"))
        return
    shown = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(what)
    if shown is None:
        shown = "hugepages" if resource.startswith(_HUGE_PAGES) else None
    if shown is not None and divisor not in _BYTES:
        detail = f"only divisor's values {', '.join(_BYTES)} are supported with the {shown} resource"
        errors.append(invalid(path, resource, detail))


def _key_selector(selector: Object, path: str, errors: Errors) -> None:
    name, key = selector.get("name", ""), selector.get("key", "")
    names_valid(name, f"{path}.name", names.dns_subdomain(name), errors)
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        names_valid(key, f"{path}.key", names.config_map_key(key), errors)


def _file_key(selector: Object, volumes: Mapping[str, Object], path: str, errors: Errors) -> None:
    volume, key, file = (selector.get(field, "") for field in ("volumeName", "key", "path"))
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        names_valid(key, f"{path}.key", names.env_var_name(key), errors)
    if not volume:
        errors.append(required(f"{path}.volumeName"))
    else:
        names_valid(volume, f"{path}.volumeName", names.dns_label(volume), errors)
    if not file:
        errors.append(required(f"{path}.path"))
    else:
        no_backsteps(file, f"{path}.path", errors)
    if volume not in volumes:
        errors.append(field_not_found(f"{path}.volumeName", volume))
    elif volumes[volume].get("emptyDir") is None:
        errors.append(invalid(f"{path}.volumeName", volume, "referenced volume must be of type emptyDir"))


def env_from(sources: list[Object], path: str, errors: Errors) -> None:
    for at, source in enumerate(sources):
        here = f"{path}[{at}]"
        prefix = source.get("prefix")
        if prefix:
            names_valid(prefix, f"{here}.prefix", names.env_var_name(prefix), errors)
        found = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for reference in found:
            name = source[reference].get("name", "")
            if not name:
                errors.append(required(f"{here}.{reference}.name"))
            else:
                names_valid(name, f"{here}.{reference}.name", names.dns_subdomain(name, True), errors)
        if not found:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(found) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
