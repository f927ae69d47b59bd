"""Strategies of workloads whose pods have a place: StatefulSet and DaemonSet."""

from __future__ import annotations

from typing import Any

from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import equal, label_selector, non_negative
from podfit.apiserver.strategy.kinds.workloads import (
    WorkloadStrategy,
    rolling_update,
    running_template,
    selected_template,
    set_default,
    template_selected,
)
from podfit.apiserver.strategy.meta import keep
from podfit.apiserver.strategy.names import dns_label, dns_subdomain
from podfit.apiserver.strategy.podspec.volume_defaults import default_claim_spec

Object = dict[str, Any]


class DaemonSetStrategy(WorkloadStrategy):
    counters = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")

    def default_spec(self, spec: Object) -> None:
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.get("rollingUpdate")
            if rolling is None:
                rolling = strategy["rollingUpdate"] = {}
            set_default(rolling, "maxUnavailable", 1)
            set_default(rolling, "maxSurge", 0)
        set_default(spec, "revisionHistoryLimit", 10)

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
                rolling_update(rolling, path, errors)
        elif strategy.get("type") != "OnDelete":
            allowed = ("OnDelete", "RollingUpdate")
            errors.append(not_supported("spec.updateStrategy.type", strategy.get("type", ""), allowed))
        non_negative(spec, "revisionHistoryLimit", "spec", errors)
        return errors

    def _selector(self, spec: Object, errors: Errors) -> None:
        """Like the others, except that a missing selector is only noticed by what it does not select."""
        selector = spec.get("selector")
        label_selector(selector, "spec.selector", errors)
        template_selected(selector, spec.get("template") or {}, errors)
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        return self.selector_fixed(new, old)

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        status = new.get("status") or {}
        for field, value in status.items():
            if isinstance(value, int) and not isinstance(value, bool):
                non_negative(status, field, "status", errors)
        return errors


_STATEFUL_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSetStrategy(WorkloadStrategy):
    counters = ("replicas", "availableReplicas")

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
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("apiVersion", "v1")
            default_claim_spec(claim.setdefault("spec", {}))
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return dns_label(name, prefix) if not prefix else dns_subdomain(name, prefix)

    def validate(self, obj: Object) -> Errors:
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
                errors.append(not_supported(path, policy[field], ("Delete", "Retain")))
        non_negative(spec, "replicas", "spec", errors)
        non_negative(spec, "minReadySeconds", "spec", errors)
        if spec.get("ordinals"):
            non_negative(spec["ordinals"], "start", "spec.ordinals.start", errors)
        selected_template(spec, "StatefulSet", "statefulset", errors)
        return errors

    def _update_strategy(self, strategy: Object, errors: Errors) -> None:
        kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
        if kind == "OnDelete":
            if rolling is not None:
                detail = "only allowed for updateStrategy 'RollingUpdate'"
                errors.append(invalid("spec.updateStrategy.rollingUpdate", rolling, detail))
        elif kind == "RollingUpdate":
            if rolling is not None:
                non_negative(rolling, "partition", "spec.updateStrategy.rollingUpdate", errors)
        else:
            detail = "must be 'RollingUpdate' or 'OnDelete'"
            errors.append(invalid("spec.updateStrategy", strategy, detail) if kind else required("spec.updateStrategy"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = dict(new.get("spec") or {}), old.get("spec") or {}
        keep(mine, stored, *_STATEFUL_CHANGEABLE)
        if equal(mine, stored):
            return []
        listed = ", ".join(f"'{field}'" for field in _STATEFUL_CHANGEABLE[:-1])
        detail = f"updates to statefulset spec for fields other than {listed} and 'minReadySeconds' are forbidden"
        return [forbidden("spec", detail)]
