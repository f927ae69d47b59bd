"""Plans a manual resize: the patch for one pod, and every error that can be detected before it is sent. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import qos_class
from podfit.cli.printing.amounts import RESOURCES, amount_text, number

MIRROR = "kubernetes.io/config.mirror"


class CannotResize(ValueError):
    """The resize cannot work; the message says why and what would."""


@dataclass(frozen=True)
class RequestedSizes:
    """The given amounts: requests by --cpu and --memory, limits by --limits."""

    container: str = ""
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One number that changes: `kind` is requests or limits."""

    kind: str
    resource: str
    before: str | None
    after: str

    def __str__(self) -> str:
        word = "request" if self.kind == "requests" else "limit"
        before, after = (
            amount_text(self.resource, number(self.resource, amount)) if amount is not None else "unset"
            for amount in (self.before, self.after)
        )
        return f"{self.resource} {word} {before} → {after}"


@dataclass(frozen=True)
class PlannedResize:
    pod: Object
    container: str
    field_name: str
    """containers or initContainers."""
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        meta = self.pod["metadata"]
        return meta["namespace"], meta["name"]

    @property
    def patch(self) -> Object:
        """The strategic merge patch for the resize subresource."""
        resources: dict[str, dict[str, str]] = {}
        for change in self.changes:
            resources.setdefault(change.kind, {})[change.resource] = change.after
        return {"spec": {self.field_name: [{"name": self.container, "resources": resources}]}}

    @property
    def resized(self) -> Object:
        """The pod as it would be after the resize."""
        return _with(self.pod, self.field_name, self.container, self.changes)


def plan(pod: Object, request: RequestedSizes) -> PlannedResize:
    """Plans the resize of a pod. Raises CannotResize, with a message for the user, before anything is sent."""
    _resizable(pod)
    field_name, container = _container(pod, request.container)
    changes = _changes(container.get("resources") or {}, request)
    resized = _with(pod, field_name, container["name"], changes)
    _within_limits(resized, field_name, container["name"], request)
    _same_class(pod, resized, container["name"], changes)
    return PlannedResize(pod, container["name"], field_name, changes, _warnings(pod, container, changes))


def _resizable(pod: Object) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if MIRROR in (pod["metadata"].get("annotations") or {}):
        raise CannotResize(f"pod/{name} is a static pod: change its file on the node instead")
    if (pod["spec"].get("os") or {}).get("name") == "windows":
        raise CannotResize(f"pod/{name} runs Windows: such pods cannot be resized")
    if status.get("phase") in ("Succeeded", "Failed"):
        raise CannotResize(f"pod/{name} has ended ({status['phase']}): there is nothing to resize")


def _container(pod: Object, wanted: str) -> tuple[str, Object]:
    name, known = pod["metadata"]["name"], _all_containers(pod)
    if not wanted:
        regular = [pair for pair in known if pair[0] == "containers"]
        if len(regular) == 1:
            return regular[0]
        choice = ", ".join(listed["name"] for _, listed in known)
        raise CannotResize(f"pod/{name} has several containers: choose one with -c ({choice})")
    for field_name, container in known:
        if container["name"] == wanted:
            return field_name, container
    names = [listed["name"] for _, listed in known]
    near = difflib.get_close_matches(wanted, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise CannotResize(f"pod/{name} has no container {wanted!r}: it has {', '.join(names)}{hint}")


def _all_containers(pod: Object) -> list[tuple[str, Object]]:
    spec = pod["spec"]
    return [
        (field_name, container)
        for field_name in ("containers", "initContainers")
        for container in spec.get(field_name) or ()
    ]


def _changes(resources: Mapping[str, Any], request: RequestedSizes) -> tuple[Change, ...]:
    """The changes of a container. A limit that equals its request is changed with it, so that a container that cannot
    burst stays so."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found = []
    for resource in RESOURCES:
        requested, most = request.requests.get(resource), request.limits.get(resource)
        if (
            requested is not None
            and most is None
            and resource in limits
            and _equal(requests.get(resource), limits[resource])
        ):
            most = requested
        if requested is not None and not _equal(requests.get(resource), requested):
            found.append(Change("requests", resource, requests.get(resource), requested))
        if most is not None and not _equal(limits.get(resource), most):
            found.append(Change("limits", resource, limits.get(resource), most))
    return tuple(found)


def _equal(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is other
    return number("memory", one) == number("memory", other) and number("cpu", one) == number("cpu", other)


def _with(pod: Object, field_name: str, name: str, changes: tuple[Change, ...]) -> Object:
    spec = dict(pod["spec"])
    spec[field_name] = [
        _sized(container, changes) if container["name"] == name else container for container in spec[field_name]
    ]
    return {**pod, "spec": spec}


def _sized(container: Object, changes: tuple[Change, ...]) -> Object:
    resources = {
        key: dict(value) for key, value in (container.get("resources") or {}).items() if isinstance(value, dict)
    }
    for change in changes:
        resources.setdefault(change.kind, {})[change.resource] = change.after
    kept = {key: value for key, value in (container.get("resources") or {}).items() if key not in resources}
    return {**container, "resources": {**kept, **resources}}


def _within_limits(pod: Object, field_name: str, name: str, request: RequestedSizes) -> None:
    container = next(candidate for candidate in pod["spec"][field_name] if candidate["name"] == name)
    resources = container["resources"] if container.get("resources") else {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for resource in RESOURCES:
        requested, most = requests.get(resource), limits.get(resource)
        if requested is None or most is None or number(resource, requested) <= number(resource, most):
            continue
        help_by = f"--limits {resource}={requested}" if resource in request.requests else f"--{resource} {most}"
        raise CannotResize(
            f"pod/{pod['metadata']['name']}: a {resource} request of {requested} must be less than or equal to "
            f"{resource} limit of {most}; add {help_by}"
        )


def _same_class(before: Object, after: Object, container: str, changes: tuple[Change, ...]) -> None:
    old = (before.get("status") or {}).get("qosClass") or qos_class(before)
    new = qos_class(after)
    if old == new:
        return
    why = {
        "Guaranteed": "its requests must stay equal to its limits: change both by the same amount (--limits …)",
        "Burstable": "its requests must not become equal to its limits everywhere: leave one request below its limit",
        "BestEffort": "it has no requests and no limits, and only a new pod can have some",
    }[old]
    raise CannotResize(
        f"pod/{before['metadata']['name']} is {old} and would become {new}, and the QoS class of a running pod "
        f"cannot change: {why}"
    )


def _warnings(pod: Object, container: Object, changes: tuple[Change, ...]) -> tuple[str, ...]:
    found = ["the pod is terminating: it is resized only as far as there is time"] if _terminating(pod) else []
    policies = {policy["resourceName"]: policy["restartPolicy"] for policy in container.get("resizePolicy") or ()}
    touched = {change.resource for change in changes}
    restarting = [
        resource for resource in RESOURCES if resource in touched and policies.get(resource) == "RestartContainer"
    ]
    if restarting:
        which = " and ".join(restarting)
        found.append(f"container {container['name']} will restart: its resizePolicy for {which} is RestartContainer")
    return tuple(found)


def _terminating(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))
