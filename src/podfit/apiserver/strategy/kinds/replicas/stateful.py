"""Strategies of workloads whose pods have an identity or a node: StatefulSet and DaemonSet."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text.formats import fits
from podfit.api.text.names import dns_label
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import equal, label_selector, names_valid, non_negative, selector_usable
from podfit.apiserver.strategy.gates.kinds import drop_max_unavailable
from podfit.apiserver.strategy.kinds.replicas.workloads import (
    WorkloadStrategy,
    at_most_all,
    default_rolling,
    int_or_percent,
    is_nothing,
    running_template,
    runs_for_ever,
    selector_checked,
    set_default,
    strategy_as_go,
    template_selected,
)
from podfit.apiserver.strategy.meta import keep
from podfit.apiserver.strategy.pod.volume_warnings import claim_warnings
from podfit.apiserver.strategy.podspec.spec import template_metadata, validate_template
from podfit.apiserver.strategy.podspec.storage.claims import claim_spec
from podfit.apiserver.strategy.podspec.storage.volume_defaults import default_claim_spec

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    changes_first = True
    counters = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    names_hosts = False
    status_counts = (
        *counters,
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )

    def default_spec(self, spec: Object) -> None:
        default_rolling(spec.setdefault("updateStrategy", {}), 1, 0)
        set_default(spec, "revisionHistoryLimit", 10)

    def default(self, obj: Object) -> None:
        super().default(obj)
        # Kubernetes derives the annotation from a number, so the client owns it even if it did not set it.
        _count_templates(obj, _templates(obj))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _count_templates(obj, max(_templates(obj), 1))

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        mine, stored = ((each.get("spec") or {}).get("template") for each in (new, old))
        _count_templates(new, _templates(old) + (not equal(mine, stored)))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        self._selector(spec, errors)
        running_template(spec.get("template") or {}, "DaemonSet", errors)
        non_negative(spec, "minReadySeconds", "spec", errors)
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "RollingUpdate":
            path, rolling = "spec.updateStrategy.rollingUpdate", strategy.get("rollingUpdate")
            if rolling is None:
                errors.append(required(path))
            else:
                _surge_or_not(rolling, path, errors)
        elif strategy.get("type") != "OnDelete":
            allowed = ("RollingUpdate", "OnDelete")
            errors.append(not_supported("spec.updateStrategy", strategy_as_go(strategy), allowed))
        non_negative(spec, "revisionHistoryLimit", "spec", errors)
        return errors

    def _selector(self, spec: Object, errors: Errors) -> None:
        """Validates the selector like that of other workloads, except that a missing one is reported as matching
        nothing."""
        selector = spec.get("selector")
        label_selector(selector, "spec.selector", errors)
        if selector_usable(selector):
            template_selected(selector, spec.get("template") or {}, errors)
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        return self.selector_fixed(new, old)


def _templates(obj: Object) -> int:
    """The generation of the template, which starts at one; 0 if unset. The former field is now an annotation."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return int(text) if fits(text, 2**63 - 1) else 0


def _count_templates(obj: Object, number: int) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(number)}


def _surge_or_not(rolling: Object, path: str, errors: Errors) -> None:
    """Validates that exactly one of maxUnavailable and maxSurge is set."""
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for check in (int_or_percent, at_most_all):
        check(unavailable, f"{path}.maxUnavailable", errors)
        check(surge, f"{path}.maxSurge", errors)
    if is_nothing(unavailable) and is_nothing(surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif not is_nothing(unavailable) and not is_nothing(surge):
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))


_STATEFUL_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def with_claims(template: Object, claims: list[Object]) -> Object:
    """The template with a volume for each claim, as in the pods created from it. It replaces a volume of the same
    name."""
    if not claims:
        return template
    names = {(claim.get("metadata") or {}).get("name", "") for claim in claims}
    spec = template.get("spec") or {}
    kept = [volume for volume in spec.get("volumes") or () if volume.get("name") not in names]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(names) if name]
    return {**template, "spec": {**spec, "volumes": [*kept, *made]}}


def _rolling_as_go(rolling: Object | None) -> Object | None:
    if rolling is None:
        return None
    return {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}


_HOST_NAMES = ("hostname", "subdomain")


class StatefulSetStrategy(WorkloadStrategy):
    counters = ("replicas", "availableReplicas")
    names_hosts = False
    status_counts = (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    )
    status_parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_name = "status.readyReplicas"

    def default_spec(self, spec: Object) -> None:
        super().default_spec(spec)
        set_default(spec, "podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            if strategy.get("rollingUpdate") is None:
                strategy["rollingUpdate"] = {}
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            set_default(strategy["rollingUpdate"], "partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        set_default(retention, "whenDeleted", "Retain")
        set_default(retention, "whenScaled", "Retain")
        set_default(spec, "revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            default_claim_spec(claim.setdefault("spec", {}))
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object) -> None:
        drop_max_unavailable(obj["spec"], {})
        super().prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource != "status":
            drop_max_unavailable(new.get("spec") or {}, old.get("spec") or {})
        super().prepare_update(new, old, subresource)

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return dns_label(name, prefix)

    def warnings_create(self, obj: Object) -> list[str]:
        return super().warnings_create(obj) + _own_warnings(obj, "")

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        found = super().warnings_update(new, old, subresource)
        return found if subresource else found + _own_warnings(new, ".Spec")

    def validate_create(self, obj: Object) -> Errors:
        """Also checks the fields that an update cannot change."""
        errors = super().validate_create(obj)
        spec = obj.get("spec") or {}
        for at, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{at}].spec", errors)
        if service := spec.get("serviceName"):
            names_valid(service, "spec.serviceName", dns_label(service), errors)
        return errors

    def validate(self, obj: Object) -> Errors:
        return self._validate(obj, tolerant=False)

    def _validate(self, obj: Object, *, tolerant: bool) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        management = spec.get("podManagementPolicy")
        if not management:
            errors.append(required("spec.podManagementPolicy"))
        elif management not in ("OrderedReady", "Parallel"):
            detail = "must be 'OrderedReady' or 'Parallel'"
            errors.append(invalid("spec.podManagementPolicy", management, detail))
        self._update_strategy(spec.get("updateStrategy") or {}, errors)
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for field in ("whenDeleted", "whenScaled"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            if policy.get(field) not in ("Retain", "Delete", None):
                errors.append(not_supported(path, policy[field], ("Retain", "Delete")))
        non_negative(spec, "replicas", "spec", errors)
        non_negative(spec, "minReadySeconds", "spec", errors)
        if spec.get("ordinals"):
            non_negative(spec["ordinals"], "start", "spec.ordinals", errors)
        self._template(spec, errors, tolerant=tolerant)
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        """Validates an update; the template of a set that is invalid already is not checked."""
        if subresource == "status":
            return super().validate_update(new, old, subresource)
        errors = self.validate_update_meta(new, old, subresource)
        return errors + self._validate(new, tolerant=bool(self.validate(old))) + self.validate_change(new, old)

    def _template(self, spec: Object, errors: Errors, *, tolerant: bool) -> None:
        """Validates the template with the volumes for the claims of the set. Its host names are not checked, because
        each pod has others. Kubernetes reports errors in its metadata twice."""
        template, claims = spec.get("template") or {}, spec.get("volumeClaimTemplates") or []
        if selector_checked(spec.get("selector"), "statefulset", "", errors):
            template_selected(spec.get("selector"), template, errors)
            unnamed = {key: value for key, value in (template.get("spec") or {}).items() if key not in _HOST_NAMES}
            if not tolerant:
                validate_template(with_claims({**template, "spec": unnamed}, claims), "spec.template", errors)
            template_metadata(template, "spec.template", errors)
        runs_for_ever(template, "StatefulSet", errors)

    def _update_strategy(self, strategy: Object, errors: Errors) -> None:
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind == "OnDelete":
            if rolling is not None:
                detail = "only allowed for updateStrategy 'RollingUpdate'"
                errors.append(invalid("spec.updateStrategy.rollingUpdate", _rolling_as_go(rolling), detail))
        elif kind == "RollingUpdate":
            if rolling is not None:
                self._rolling(rolling, "spec.updateStrategy.rollingUpdate", errors)
        elif not kind:
            errors.append(required("spec.updateStrategy"))
        else:
            shown = {"Type": kind, "RollingUpdate": _rolling_as_go(rolling)}
            errors.append(invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'"))

    def _rolling(self, rolling: Object, path: str, errors: Errors) -> None:
        non_negative(rolling, "partition", path, errors)
        unavailable = rolling.get("maxUnavailable")
        if unavailable is not None:
            int_or_percent(unavailable, f"{path}.maxUnavailable", errors)
            if is_nothing(unavailable):
                errors.append(invalid(f"{path}.maxUnavailable", unavailable, "cannot be 0"))
            at_most_all(unavailable, f"{path}.maxUnavailable", errors)

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = dict(new.get("spec") or {}), old.get("spec") or {}
        keep(mine, stored, *_STATEFUL_CHANGEABLE)
        if equal(mine, stored):
            return []
        listed = ", ".join(f"'{field}'" for field in _STATEFUL_CHANGEABLE[:-1])
        detail = f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden"
        return [forbidden("spec", detail)]


def _own_warnings(obj: Object, below: str) -> list[str]:
    """Warnings about the set itself. `below`: the suffix of a claim's path in Kubernetes' warnings about an update."""
    spec = obj.get("spec") or {}
    found: list[str] = []
    for at, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        claim_warnings(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{at}]{below}", found)
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        found.append(f"spec.revisionHistoryLimit: {text}")
    return found
