"""Usage of a ResourceQuota by objects: pure functions, shared by admission and the quota controller.

`usage` is the usage of one object, `matches` whether a quota applies to it, `missing` the fields that the quota
requires and the pod lacks. Amounts are quantities by quota resource name ("pods", "requests.cpu", "count/configmaps",
…).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts, amounts, has_pod_level, pod_limits, pod_requests, qos_class
from podfit.api.quantity import Quantity

ONE = Quantity.of_units(1)

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {"pods", "count/pods", *_COMPUTE, *(f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE)}
)
_DEMANDED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_ALIASES = frozenset(
    {"configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"}
)
"""Core resources that quotas count under their plain name as well as under `count/…`."""
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"


def count_name(group: str, plural: str) -> str:
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def usage(group: str, plural: str, obj: Object, now: datetime | None = None) -> Amounts:
    """The usage of the object. With `now`, pods whose grace period has passed no longer count."""
    used: Amounts = {count_name(group, plural): ONE}
    if group:
        return used
    if plural == "pods":
        if _counts(obj, now):
            used["pods"] = ONE
            used.update(_compute(pod_requests(obj, use_status=True), pod_limits(obj, use_status=True)))
        return used
    if plural in _ALIASES:
        used[plural] = ONE
    if plural == "services":
        _service(obj, used)
    elif plural == "persistentvolumeclaims":
        _claim(obj, used)
    return used


def relevant(group: str, plural: str, names: Iterable[str]) -> set[str]:
    """The resource names of a quota that objects of this kind may use."""
    if (group, plural) == ("", "pods"):
        return {name for name in names if name in _POD_NAMES or _is_prefixed(name)}
    own = {count_name(group, plural)}
    if not group and plural in _ALIASES:
        own.add(plural)
    if (group, plural) == ("", "services"):
        own |= {"services.nodeports", "services.loadbalancers"}
    if (group, plural) == ("", "persistentvolumeclaims"):
        own.add("requests.storage")
        return {name for name in names if name in own or _STORAGE_CLASS in name}
    return own.intersection(names)


def matches(quota: Object, group: str, plural: str, obj: Object) -> bool:
    """Whether the quota applies to the object: a resource of its kind, and all of its scopes."""
    hard = (quota.get("status") or {}).get("hard") or {}
    if not relevant(group, plural, hard):
        return False
    demands = scope_demands(quota)
    if not demands:
        return True
    return (group, plural) == ("", "pods") and all(_in_scope(demand, obj) for demand in demands)


def scope_demands(quota: Object) -> list[Object]:
    spec = quota.get("spec") or {}
    demands: list[Object] = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    demands.extend((spec.get("scopeSelector") or {}).get("matchExpressions") or ())
    return demands


def missing(pod: Object, names: Iterable[str]) -> str:
    """`must specify …` if containers lack fields that a quota on compute resources requires, otherwise ""."""
    demanded = _DEMANDED.intersection(names)
    spec = pod.get("spec") or {}
    if not demanded or has_pod_level(spec):
        return ""
    lacking: dict[str, list[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        given = _compute(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in demanded - given.keys():
            lacking.setdefault(name, []).append(str(container.get("name", "")))
    if not lacking:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def growth(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Amounts:
    """The increase in usage from `old` to `new`, per resource; decreases count as zero."""
    grown: Amounts = {}
    for name, amount in new.items():
        more = amount - old[name] if name in old else amount
        grown[name] = more if more.nanos > 0 else Quantity(0, amount.format)
    return grown


def _counts(pod: Object, now: datetime | None) -> bool:
    """Whether a pod uses quota: not if it has finished, or should have terminated by now."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    meta = pod.get("metadata") or {}
    deleted, grace = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    if now is None or not deleted or grace is None:
        return True
    return (now - datetime.fromisoformat(deleted)).total_seconds() <= int(grace)


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    used: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = amount
            used[f"requests.{name}"] = amount
        elif _is_extended(name):
            used[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in _COMPUTE:
            used[f"limits.{name}"] = amount
    return used


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _is_prefixed(name: str) -> bool:
    if name.startswith("hugepages-"):
        return True
    inner = name.removeprefix("requests.")
    return inner != name and (inner.startswith("hugepages-") or _is_extended(inner))


def _service(service: Object, used: Amounts) -> None:
    spec = service.get("spec") or {}
    ports = Quantity.of_units(len(spec.get("ports") or ()))
    if spec.get("type") == "NodePort":
        used["services.nodeports"] = ports
    elif spec.get("type") == "LoadBalancer":
        used["services.loadbalancers"] = ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = Quantity.of_units(sum(1 for port in spec.get("ports") or () if port.get("nodePort")))
        used["services.nodeports"] = ports


def _claim(claim: Object, used: Amounts) -> None:
    spec = claim.get("spec") or {}
    requested = amounts((spec.get("resources") or {}).get("requests")).get("storage")
    storage_class = spec.get("storageClassName")
    if storage_class:
        used[f"{storage_class}{_STORAGE_CLASS}persistentvolumeclaims"] = ONE
    if requested is not None:
        allocated = amounts((claim.get("status") or {}).get("allocatedResources")).get("storage")
        # While an expansion is in progress the larger size counts, in whole bytes.
        larger = requested if allocated is None else max(requested, allocated)
        requested = Quantity.of_units(larger.value, larger.format)
        used["requests.storage"] = requested
        if storage_class:
            used[f"{storage_class}{_STORAGE_CLASS}requests.storage"] = requested


def _in_scope(demand: Object, pod: Object) -> bool:
    spec = pod.get("spec") or {}
    match demand.get("scopeName"):
        case "Terminating":
            return has_deadline(spec)
        case "NotTerminating":
            return not has_deadline(spec)
        case "BestEffort":
            return qos_class(pod) == "BestEffort"
        case "NotBestEffort":
            return qos_class(pod) != "BestEffort"
        case "PriorityClass":
            return _priority_matches(demand, str(spec.get("priorityClassName") or ""))
        case "CrossNamespacePodAffinity":
            return _reaches_other_namespaces(spec)
    return False


def has_deadline(spec: Mapping[str, Any]) -> bool:
    """Whether a pod is in the scope Terminating: those with an activeDeadlineSeconds are."""
    deadline = spec.get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _priority_matches(demand: Object, name: str) -> bool:
    values = demand.get("values") or ()
    match demand.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)


def _reaches_other_namespaces(spec: Mapping[str, Any]) -> bool:
    affinity = spec.get("affinity") or {}
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        required = terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        preferred = terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(weighted.get("podAffinityTerm") or {} for weighted in preferred)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False
