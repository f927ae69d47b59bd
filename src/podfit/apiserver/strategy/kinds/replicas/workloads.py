"""Strategies of workloads that keep pods running: Deployment, ReplicaSet, ReplicationController, and their
templates.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text.formats import fits
from podfit.api.text.names import dns_label, regex_complaint
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import (
    IMMUTABLE,
    NOT_NEGATIVE,
    equal,
    label_selector,
    non_negative,
    selector_matches,
    selector_usable,
)
from podfit.apiserver.strategy.gates.pods import drop_from_template
from podfit.apiserver.strategy.meta import keep
from podfit.apiserver.strategy.pod.warnings import template_warnings
from podfit.apiserver.strategy.podspec.defaults import default_template
from podfit.apiserver.strategy.podspec.spec import validate_template

_percent = re.compile("[0-9]+%")
_PERCENT_TEXT = regex_complaint(
    "a valid percent string must be a numeric string followed by an ending '%'", "[0-9]+%", "1%", "93%"
)


def default_rolling(strategy: Object, unavailable: int | str, surge: int | str) -> None:
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            rolling = strategy["rollingUpdate"] = {}
        set_default(rolling, "maxUnavailable", unavailable)
        set_default(rolling, "maxSurge", surge)


def set_default(holder: Object, field: str, value: Any) -> None:
    if holder.get(field) is None:
        holder[field] = value


def int_or_percent(value: int | str, path: str, errors: Errors) -> None:
    """Validates a count or a percentage, which must not be negative."""
    if isinstance(value, str):
        if not _percent.fullmatch(value):
            errors.append(invalid(path, value, _PERCENT_TEXT))
    elif value < 0:
        errors.append(invalid(path, value, NOT_NEGATIVE))


def at_most_all(value: int | str, path: str, errors: Errors) -> None:
    if isinstance(value, str) and _percent.fullmatch(value) and not fits(value[:-1], 100):
        errors.append(invalid(path, value, "must not be greater than 100%"))


def is_nothing(value: int | str | None) -> bool:
    """Whether a count or a percentage is zero; an invalid value counts as zero, as in Kubernetes."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return not re.fullmatch("[+-]?[0-9]+", digits) or not digits.lstrip("+-0")
    return not value


def selected_template(spec: Object, owner: str, noun: str, errors: Errors) -> None:
    """Validates the selector, and the template, which the selector must match and whose restart policy must be
    Always."""
    if selector_checked(spec.get("selector"), noun, "invalid label selector", errors):
        template_selected(spec.get("selector"), spec.get("template") or {}, errors)
        running_template(spec.get("template") or {}, owner, errors)


def selector_checked(selector: Object | None, noun: str, complaint: str, errors: Errors) -> bool:
    """Validates the selector. Returns whether it is valid: only then the template is compared with it."""
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        label_selector(selector, "spec.selector", errors)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {noun}"))
    if selector_usable(selector):
        return True
    errors.append(invalid("spec.selector", selector, complaint))
    return False


def template_selected(selector: Object | None, template: Object, errors: Errors) -> None:
    labels = (template.get("metadata") or {}).get("labels")
    if not selector_matches(selector, labels):
        shown = None if labels is None else dict(sorted(labels.items()))
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", shown, detail))


def running_template(template: Object, owner: str, errors: Errors) -> None:
    validate_template(template, "spec.template", errors)
    runs_for_ever(template, owner, errors)


def runs_for_ever(template: Object, owner: str, errors: Errors) -> None:
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy", "")
    if policy != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        where = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden(where, f"activeDeadlineSeconds in {owner} is not Supported"))


def name_warnings(obj: Object) -> list[str]:
    """Warns of a name that is not a DNS label: the host names of pods are derived from it."""
    complaints = dns_label((obj.get("metadata") or {}).get("name", ""))
    if not complaints:
        return []
    text = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label "
        "is recommended: "
    )
    return [f"{text}[{' '.join(complaints)}]"]


class WorkloadStrategy(Strategy):
    update_checks = "c"
    names_hosts: ClassVar[bool] = True
    """Whether a name that is not a DNS label gets a warning."""
    status_counts: ClassVar[tuple[str, ...]] = ()
    """Numbers in the status that must not be negative, in the order in which they are checked."""
    status_parts: ClassVar[tuple[str, ...]] = ()
    """The status fields that count a subset of the replicas."""
    ready_name: ClassVar[str] = "readyReplicas"

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        self.default_spec(spec)

    def default_spec(self, spec: Object) -> None:
        set_default(spec, "replicas", 1)

    def prepare_create(self, obj: Object) -> None:
        drop_from_template(obj["spec"].get("template"))
        super().prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource != "status":
            drop_from_template((new.get("spec") or {}).get("template"), (old.get("spec") or {}).get("template"))
        super().prepare_update(new, old, subresource)

    def warnings_create(self, obj: Object) -> list[str]:
        named = name_warnings(obj) if self.names_hosts else []
        return named + template_warnings((obj.get("spec") or {}).get("template") or {}, "spec.template")

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        if subresource or equal((new.get("spec") or {}).get("template"), (old.get("spec") or {}).get("template")):
            return []
        return template_warnings((new.get("spec") or {}).get("template") or {}, "spec.template")

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        status = new.get("status") or {}
        for field in self.status_counts:
            non_negative(status, field, "status", errors)
        total, ready = status.get("replicas") or 0, status.get("readyReplicas") or 0
        for field in self.status_parts:
            count = status.get(field) or 0
            if count > total:
                errors.append(invalid(f"status.{field}", count, "cannot be greater than status.replicas"))
        available = status.get("availableReplicas") or 0
        if self.status_parts and available > ready:
            errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {self.ready_name}"))
        collisions = status.get("collisionCount")
        before = (old.get("status") or {}).get("collisionCount")
        fewer = before is not None and (collisions is None or collisions < before)
        if fewer and "collisionCount" in self.status_counts:
            errors.append(invalid("status.collisionCount", collisions or 0, "cannot be decremented"))
        return errors

    def selector_fixed(self, new: Object, old: Object) -> Errors:
        selector = (new.get("spec") or {}).get("selector")
        if equal(selector, (old.get("spec") or {}).get("selector")):
            return []
        return [invalid("spec.selector", selector, IMMUTABLE)]


class DeploymentStrategy(WorkloadStrategy):
    status_counts = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    )
    status_parts = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def default_spec(self, spec: Object) -> None:
        super().default_spec(spec)
        default_rolling(spec.setdefault("strategy", {}), "25%", "25%")
        set_default(spec, "revisionHistoryLimit", 10)
        set_default(spec, "progressDeadlineSeconds", 600)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        mine, stored = new["metadata"], old.get("metadata") or {}
        if not subresource and (mine.get("annotations") or {}) != (stored.get("annotations") or {}):
            # Annotations count as well, because the controller copies them to the ReplicaSets.
            mine["generation"] = stored.get("generation", 0) + 1

    def keep_all_but_status(self, new: Object, old: Object) -> None:
        keep(new, old, "spec")
        keep(new.setdefault("metadata", {}), old.get("metadata") or {}, "labels")

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        non_negative(spec, "replicas", "spec", errors)
        selected_template(spec, "ReplicaSet", "deployment", errors)
        self._strategy(spec.get("strategy") or {}, errors)
        for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
            non_negative(spec, field, "spec", errors)
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
            detail = "must be greater than minReadySeconds"
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, detail))
        return errors

    def _strategy(self, strategy: Object, errors: Errors) -> None:
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind == "Recreate":
            if rolling is not None:
                detail = "may not be specified when strategy `type` is 'Recreate'"
                errors.append(forbidden("spec.strategy.rollingUpdate", detail))
        elif kind == "RollingUpdate":
            if rolling is None:
                errors.append(required("spec.strategy.rollingUpdate", "this should be defaulted and never be nil"))
            else:
                rolling_update(rolling, "spec.strategy.rollingUpdate", errors)
        else:
            errors.append(not_supported("spec.strategy", strategy_as_go(strategy), ("Recreate", "RollingUpdate")))

    def validate_change(self, new: Object, old: Object) -> Errors:
        return self.selector_fixed(new, old)


def strategy_as_go(strategy: Object) -> Object:
    """Formats a strategy with Go's field names, as in Kubernetes' errors: its internal types have no JSON names."""
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        rolling = {"MaxUnavailable": rolling.get("maxUnavailable", 0), "MaxSurge": rolling.get("maxSurge", 0)}
    return {"Type": strategy.get("type", ""), "RollingUpdate": rolling}


def rolling_update(rolling: Object, path: str, errors: Errors) -> None:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for field, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if value is not None:
            int_or_percent(value, f"{path}.{field}", errors)
    if is_nothing(unavailable) and is_nothing(surge):
        detail = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, detail))
    if unavailable is not None:
        at_most_all(unavailable, f"{path}.maxUnavailable", errors)


_REPLICA_COUNTS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "terminatingReplicas",
    "observedGeneration",
)
_REPLICA_PARTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


class ReplicaSetStrategy(WorkloadStrategy):
    counters = ("replicas",)
    status_counts = _REPLICA_COUNTS
    status_parts = _REPLICA_PARTS

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        non_negative(spec, "replicas", "spec", errors)
        non_negative(spec, "minReadySeconds", "spec", errors)
        selected_template(spec, "ReplicaSet", "deployment", errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        return self.selector_fixed(new, old)


class ReplicationControllerStrategy(WorkloadStrategy):
    counters = ("replicas",)
    status_counts = _REPLICA_COUNTS
    status_parts = _REPLICA_PARTS

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.get("template")
        if template is not None:
            default_template(template)
            labels = template["metadata"].get("labels")
            if labels:
                if not spec.get("selector"):
                    spec["selector"] = dict(labels)
                if not (obj.setdefault("metadata", {})).get("labels"):
                    obj["metadata"]["labels"] = dict(labels)
        set_default(spec, "replicas", 1)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        selector, template = spec.get("selector") or {}, spec.get("template")
        non_negative(spec, "minReadySeconds", "spec", errors)
        if not selector:
            errors.append(required("spec.selector"))
        non_negative(spec, "replicas", "spec", errors)
        if template is None:
            errors.append(required("spec.template"))
            return errors
        labels = (template.get("metadata") or {}).get("labels")
        if any((labels or {}).get(key) != value for key, value in selector.items()):
            detail = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels, detail))
        running_template(template, "ReplicationController", errors)
        return errors


class ControllerRevisionStrategy(Strategy):
    has_generation = False
    has_status = False

    def validate(self, obj: Object) -> Errors:
        revision = obj.get("revision", 0)
        return [invalid("revision", revision, NOT_NEGATIVE)] if revision < 0 else []

    def validate_create(self, obj: Object) -> Errors:
        errors, data = super().validate_create(obj), obj.get("data")
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        return [] if equal(new.get("data"), old.get("data")) else [invalid("data", new.get("data"), IMMUTABLE)]


class PodTemplateStrategy(Strategy):
    update_checks = "c"
    has_status = False

    def default(self, obj: Object) -> None:
        default_template(obj.setdefault("template", {}))

    def prepare_create(self, obj: Object) -> None:
        drop_from_template(obj["template"])
        super().prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        drop_from_template(new.get("template"), old.get("template"))
        super().prepare_update(new, old, subresource)

    def warnings_create(self, obj: Object) -> list[str]:
        return template_warnings(obj.get("template") or {}, "template")

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new) if self.spec_changed(new, old) else []

    def spec_changed(self, new: Object, old: Object) -> bool:
        return not equal(new.get("template"), old.get("template"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        validate_template(obj.get("template") or {}, "template", errors)
        return errors
