"""Rules for the status endpoint of pods: the spec is kept, and some transitions of the status are rejected."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import is_sidecar
from podfit.api.status import INTERNAL, FieldError, duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.addresses import strict_ip
from podfit.apiserver.strategy.checks import IMMUTABLE, Errors, names_valid, parse_ip, same_family_twice
from podfit.apiserver.strategy.pod.update import fixed_annotations

_SYSTEM_CONDITIONS = frozenset(("PodScheduled", "Ready", "Initialized"))
_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_ID_RANGE = "must be between 0 and 2147483647, inclusive"
_BACK_TO_LIFE = "may not be transitioned to non-terminated state"


def prepare(new: Object, old: Object) -> None:
    meta.keep(new, old, "spec")
    meta.keep(new.setdefault("metadata", {}), old["metadata"], "ownerReferences")
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass") and before.get("qosClass"):
        status["qosClass"] = before["qosClass"]
    if not status.get("observedGeneration"):
        meta.keep(status, before, "observedGeneration")
    _sync_addresses(status)
    conditions, stored = status.get("conditions") or [], before.get("conditions") or []
    if conditions is not stored and not all(each.get("observedGeneration") for each in conditions):
        known = {condition.get("type"): condition for condition in stored}
        status["conditions"] = [_observed(each, known.get(each.get("type")) or {}) for each in conditions]


def _observed(condition: Object, before: Object) -> Object:
    """Restores observedGeneration, which clients that do not know the field omit. The condition may be a stored one."""
    if condition.get("observedGeneration"):
        return condition
    made = dict(condition)
    meta.keep(made, before, "observedGeneration")
    return made


def _sync_addresses(status: Object) -> None:
    """Makes podIP and the first of podIPs equal; if they differ, an old agent wrote podIP alone."""
    one, several = status.get("podIP"), status.get("podIPs")
    if one and (not several or several[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif several and not one:
        status["podIP"] = several[0].get("ip", "")


def validate(new: Object, old: Object, errors: Errors) -> None:
    fixed_annotations(new, old, errors)
    status, before, spec = new.get("status") or {}, old.get("status") or {}, old["spec"]
    _conditions(status.get("conditions") or (), errors)
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        names_valid(nominated, "status.nominatedNodeName", names.dns_subdomain(nominated), errors)
        if spec.get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            errors.append(forbidden("status.nominatedNodeName", detail))
    if (status.get("observedGeneration") or 0) < 0:
        value = status["observedGeneration"]
        errors.append(invalid("status.observedGeneration", value, "must be a non-negative integer"))
    if status.get("qosClass", "") != before.get("qosClass", ""):
        errors.append(invalid("status.qosClass", status.get("qosClass", ""), IMMUTABLE))
    for field, key in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        _transitions(status, before, field, spec, key, errors)
    _transitions(status, before, "ephemeralContainerStatuses", {"restartPolicy": "Never"}, "", errors)
    _claims(status, spec, errors)
    if status.get("extendedResourceClaimStatus") is not None:
        _extended(status["extendedResourceClaimStatus"], spec, "status.extendedResourceClaimStatus", errors)
    for field, single in (("podIPs", "podIP"), ("hostIPs", "hostIP")):
        # Unchanged values were valid when they were written.
        if status.get(field) is not before.get(field) or status.get(single) != before.get(single):
            _addresses(status, before, field, single, errors)
    for field in _LISTS:
        _users(status, spec, field, errors)
    for field, key in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
        _devices(status, spec, field, key, errors)
    for at, container_status in enumerate(status.get("ephemeralContainerStatuses") or ()):
        if container_status.get("allocatedResourcesStatus"):
            where = f"status.ephemeralContainerStatuses[{at}].allocatedResourcesStatus"
            errors.append(forbidden(where, "must not be specified in container status"))


def _conditions(conditions: Any, errors: Errors) -> None:
    for at, condition in enumerate(conditions):
        kind = condition.get("type", "")
        if kind not in _SYSTEM_CONDITIONS:
            names_valid(kind, f"status.conditions[{at}].Type", names.qualified_name(kind), errors)
        if (condition.get("observedGeneration") or 0) < 0:
            where = f"status.conditions[{at}].observedGeneration"
            errors.append(invalid(where, condition["observedGeneration"], "must be a non-negative integer"))


def _transitions(new: Object, old: Object, field: str, spec: Object, key: str, errors: Errors) -> None:
    """Rejects transitions of a container that has terminated permanently."""
    policy = spec.get("restartPolicy", "Always")
    if policy == "Always" or not old.get(field):
        return
    specs = {container.get("name"): container for container in spec.get(key) or ()}
    current = {status.get("name"): status for status in new.get(field) or ()}
    for at, status in enumerate(old[field]):
        ended = (status.get("state") or {}).get("terminated")
        if ended is None:
            continue
        container = specs.get(status.get("name")) or {}
        own = container.get("restartPolicy") or policy
        failed = bool(ended.get("exitCode"))
        if is_sidecar(container) or own == "Always" or container.get("restartPolicyRules"):
            continue
        if failed and own == "OnFailure":
            continue
        now = current.get(status.get("name"))
        if now is not None and (now.get("state") or {}).get("terminated") is None:
            errors.append(forbidden(f"status.{field}[{at}].state", _BACK_TO_LIFE))


def _addresses(status: Object, before: Object, field: str, single: str, errors: Errors) -> None:
    listed = status.get(field)
    if not listed:
        return
    texts = [each.get("ip", "") for each in listed]
    if single == "hostIP" and status.get("hostIP", "") != texts[0]:
        errors.append(invalid(f"status.{field}[0].ip", texts[0], "must be equal to `hostIP`"))
    kept = {each.get("ip") for each in before.get(field) or ()}
    for at, text in enumerate(texts):
        strict_ip(text, f"status.{field}[{at}]", errors, kept)
    unreadable = next((at for at, text in enumerate(texts) if parse_ip(text) is None), None)
    if len(texts) > 1 and unreadable is not None:
        detail = f"failed to check for dual stack with error:invalid IP[{unreadable}]: {texts[unreadable]}"
        errors.append(FieldError(INTERNAL, f"status.{field}", detail))
    if len(texts) > 1 and (unreadable is not None or same_family_twice(texts)):
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid(f"status.{field}", [{"IP": text} for text in texts], detail))


def _claims(status: Object, spec: Object, errors: Errors) -> None:
    if not status.get("resourceClaimStatuses"):
        return
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    seen: set[str] = set()
    for at, claim in enumerate(status["resourceClaimStatuses"]):
        path, name, made = (
            f"status.resourceClaimStatuses[{at}].name",
            claim.get("name", ""),
            claim.get("resourceClaimName"),
        )
        if name not in known:
            errors.append(invalid(path, name, "must match the name of an entry in `spec.resourceClaims`"))
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
        if made is not None:
            names_valid(made, path, names.dns_subdomain(made), errors)


def _extended(claim: Object, spec: Object, path: str, errors: Errors) -> None:
    """Validates the claim that was made for the extended resources of the containers."""
    containers = {one.get("name"): one for key in ("initContainers", "containers") for one in spec.get(key) or ()}
    mappings = claim.get("requestMappings") or ()
    if not mappings:
        errors.append(required(f"{path}.requestMappings", "at least one request mapping is required"))
    seen: set[tuple[str, ...]] = set()
    for at, mapping in enumerate(mappings):
        where = f"{path}.requestMappings[{at}]"
        values = {field: mapping.get(field, "") for field in ("containerName", "resourceName", "requestName")}
        container = containers.get(values["containerName"])
        if container is None:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(f"{where}.containerName", values["containerName"], detail))
        elif values["resourceName"] not in ((container.get("resources") or {}).get("requests") or {}):
            entries = "spec.initContainers.resources.requests or spec.containers.resources.requests"
            detail = f"must match the extended resource name of an entry in {entries}"
            errors.append(invalid(f"{where}.resourceName", values["resourceName"], detail))
        request = values["requestName"]
        names_valid(request, f"{path}.requestName", names.dns_label(request), errors)
        if tuple(values.values()) in seen:
            errors += [duplicate(f"{where}.{field}", value) for field, value in values.items()]
        seen.add(tuple(values.values()))
    made = claim.get("resourceClaimName")
    if not made:
        errors.append(required(f"{path}.resourceClaimName"))
    else:
        names_valid(made, f"{path}.resourceClaimName", names.dns_subdomain(made), errors)


def _users(status: Object, spec: Object, field: str, errors: Errors) -> None:
    for at, container_status in enumerate(status.get(field) or ()):
        user = (container_status.get("user") or {}).get("linux")
        if user is None:
            continue
        path = f"status.{field}[{at}].user.linux"
        if (spec.get("os") or {}).get("name") == "windows":
            errors.append(forbidden(path, "cannot be set for a windows pod"))
            continue
        numbers = [(f"{path}.{word}", user.get(word, 0)) for word in ("uid", "gid")]
        numbers += [
            (f"{path}.supplementalGroups[{n}]", gid) for n, gid in enumerate(user.get("supplementalGroups") or ())
        ]
        errors.extend(invalid(where, number, _ID_RANGE) for where, number in numbers if not 0 <= number < 2**31)


def _devices(status: Object, spec: Object, field: str, key: str, errors: Errors) -> None:
    """Validates the health of devices: only resources that the container requests, and each device once."""
    reported = [
        (at, container_status)
        for at, container_status in enumerate(status.get(field) or ())
        if container_status.get("allocatedResourcesStatus")
    ]
    if not reported:
        return
    containers = {container.get("name"): container.get("resources") or {} for container in spec.get(key) or ()}
    for at, container_status in reported:
        for number, resource in enumerate(container_status["allocatedResourcesStatus"]):
            path = f"status.{field}[{at}].allocatedResourcesStatus[{number}]"
            if container_status.get("name") in containers:
                _asked_for(resource.get("name", ""), containers[container_status["name"]], f"{path}.name", errors)
            _health(resource.get("resources") or [], f"{path}.resources", errors)


def _asked_for(name: str, resources: Object, path: str, errors: Errors) -> None:
    if name.startswith("claim:"):
        claims = resources.get("claims") or ()
        requested = {"claim:" + "/".join(filter(None, (each.get("name"), each.get("request")))) for each in claims}
        detail = (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
        )
    else:
        requested, detail = set(resources.get("requests") or ()), "must match one of the container's resource requests"
    if name not in requested:
        errors.append(invalid(path, name, detail))


def _health(devices: list[Object], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, device in enumerate(devices):
        health, identity = device.get("health", ""), device.get("resourceID", "")
        if health not in _HEALTH:
            errors.append(not_supported(f"{path}[{at}].health", health, _HEALTH))
        if identity in seen:
            errors.append(duplicate(f"{path}[{at}].resourceID", identity))
        seen.add(identity)
