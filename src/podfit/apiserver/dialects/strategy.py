"""The strategy of pods in a namespace with an older dialect: native pods, changed by that dialect's rules."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.dialects import LABEL
from podfit.api.resize.words import by_name
from podfit.api.status import FieldError
from podfit.api.status import field_forbidden as forbidden
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.pod import update as pod_update
from podfit.apiserver.strategy.pod.pods import PodStrategy
from podfit.apiserver.strategy.podspec.spec import validate_pod

_LEVEL = "pods with pod-level resources cannot be resized"


class DialectStrategy(PodStrategy):
    shared_subresources = frozenset()

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(POD)
        self._dialect = dialect

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        written, annotations = new.get("status") or {}, (new.get("metadata") or {}).get("annotations") or {}
        mark = annotations.get(LABEL)
        if subresource == "resize":
            _only_known(new, old)
        super().prepare_update(new, old, subresource)
        if subresource == "resize" and mark is not None:
            new["metadata"]["annotations"] = {**(new["metadata"].get("annotations") or {}), LABEL: mark}
        if not subresource and self._dialect.allocated_in_spec:
            _keep_allocations(new, written, old)

    def validate_create(self, obj: Object) -> Errors:
        return self._worded(super().validate_create(obj), obj)

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource in ("status", "ephemeralcontainers"):
            return self._worded(super().validate_update(new, old, subresource), new)
        if subresource == "resize":
            if _has_pod_level(new) or _has_pod_level(old):
                return [forbidden("[]", _LEVEL)]
            # Policies may be changed along with resources: they do not count as a difference.
            return self._worded(super().validate_update(new, _with_policies_of(new, old), subresource), new)
        errors = self.validate_update_meta(new, old)
        validate_pod(new, errors, old)
        errors = self._worded(errors, new)
        pod_update.validate(self._in_dialect(new), self._in_dialect(old), errors, resizable=self._dialect.on_pod)
        return errors

    def _in_dialect(self, pod: Object) -> Object:
        """The pod with default policies, which are immutable in the dialects of releases."""
        if self._dialect.words.renames:
            return pod
        words = self._dialect.words
        listed = [
            {**container, "resizePolicy": policies.shown(container, words, True)}
            for container in pod["spec"].get("containers") or ()
        ]
        return {**pod, "spec": {**pod["spec"], "containers": listed}}

    def _worded(self, errors: list[FieldError], pod: Object) -> Errors:
        """The errors in the wording of the dialect."""
        return self._dialect.worded(POD, errors, pod)


def _has_pod_level(pod: Object) -> bool:
    resources = (pod.get("spec") or {}).get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _with_policies_of(new: Object, old: Object) -> Object:
    submitted = by_name(new["spec"].get("containers"))
    listed = [
        _put_policy(container, submitted.get(container["name"], container)) for container in old["spec"]["containers"]
    ]
    return {**old, "spec": {**old["spec"], "containers": listed}}


def _put_policy(container: Object, other: Object) -> Object:
    rest = {key: value for key, value in container.items() if key != "resizePolicy"}
    return {**rest, "resizePolicy": other["resizePolicy"]} if "resizePolicy" in other else rest


def _only_known(new: Object, old: Object) -> None:
    """Drops containers that the stored pod does not have: a resize ignores them."""
    submitted = by_name((new.get("spec") or {}).get("containers"))
    spec = dict(old["spec"])
    spec["containers"] = [
        _resized(container, submitted.get(container["name"])) for container in old["spec"]["containers"]
    ]
    new["spec"] = spec


def _resized(stored: Object, submitted: Object | None) -> Object:
    if submitted is None:
        return stored
    made = dict(stored)
    for key in ("resources", "resizePolicy"):
        if key in submitted:
            made[key] = submitted[key]
        else:
            made.pop(key, None)
    return made


def _keep_allocations(new: Object, written: Object, old: Object) -> None:
    """Keeps the stored status, except for a node's allocation, which this dialect has in the spec."""
    before = (old.get("status") or {}).get("containerStatuses") or []
    given = by_name(written.get("containerStatuses"))
    listed = [
        {**container_status, "allocatedResources": given[container_status["name"]]["allocatedResources"]}
        if (given.get(container_status["name"]) or {}).get("allocatedResources")
        else container_status
        for container_status in before
    ]
    if listed == before:
        return
    status = {**(new.get("status") or {}), "containerStatuses": listed}
    for key in ("observedGeneration", "conditions"):
        if key in written:
            status[key] = written[key]
    new["status"] = status


def resizes(new: Object, old: Object) -> bool:
    """Whether two native pods differ in the resources of a container."""
    before = by_name(old["spec"].get("containers"))
    for container in (new.get("spec") or {}).get("containers") or ():
        stored = before.get(container.get("name", ""))
        if stored is None or (container.get("resources") or {}) != (stored.get("resources") or {}):
            return True
    return False
