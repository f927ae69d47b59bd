"""The strategy of pods, for all endpoints that change them."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import qos_class
from podfit.api.status import field_forbidden as forbidden
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.gates import pods as gates
from podfit.apiserver.strategy.meta import carry_over, copied, keep
from podfit.apiserver.strategy.pod import resize as pod_resize
from podfit.apiserver.strategy.pod import status as pod_status
from podfit.apiserver.strategy.pod import update as pod_update
from podfit.apiserver.strategy.pod.machine_status import show_machine
from podfit.apiserver.strategy.pod.moves import drop_migration, keep_migration
from podfit.apiserver.strategy.pod.sizes_only import differs_in_sizes_only
from podfit.apiserver.strategy.pod.warnings import pod_warnings
from podfit.apiserver.strategy.podspec import virtual_machines
from podfit.apiserver.strategy.podspec.annotations import copy_app_armor, profiles_agree
from podfit.apiserver.strategy.podspec.defaults import default_pod, sync_service_account
from podfit.apiserver.strategy.podspec.placement import merge_label_keys
from podfit.apiserver.strategy.podspec.spec import validate_pod

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


class PodStrategy(Strategy):
    graceful = True
    shared_subresources = frozenset(("status",))

    def default(self, obj: Object) -> None:
        default_pod(obj)

    def own_changes(self, new: Object, old: Object) -> bool:
        status = new.get("status")
        if status and status is not old.get("status"):
            new["status"] = dict(status)
        if new.get("spec") is old.get("spec"):
            return False
        # Defaults are set inside the spec.
        new["spec"] = copied(new.get("spec") or {})
        return True

    def prepare_create(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        obj.setdefault("metadata", {})["generation"] = 1
        sync_service_account(spec)
        if spec.get(virtual_machines.FIELD) is not None:
            virtual_machines.follow_container(spec)
            virtual_machines.allocate_requests(spec)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
        drop_migration(obj)
        gates.drop_from_spec(spec)
        if spec.get("schedulingGates"):
            made = obj["metadata"].get("creationTimestamp")
            obj["status"]["conditions"] = [{**_GATED, "lastProbeTime": None, "lastTransitionTime": made}]
        if spec.get("affinity") or spec.get("topologySpreadConstraints"):
            merge_label_keys(obj)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        validate_pod(obj, errors)
        return errors

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        spec = obj.get("spec") or {}
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden("spec.nodeName", detail))
        profiles_agree(obj.get("metadata") or {}, spec, "spec", errors)
        virtual_machines.validate_new(spec, errors)
        return errors

    def rewrite(self, obj: Object) -> list[str]:
        return copy_app_armor(obj)

    def warnings_create(self, obj: Object) -> list[str]:
        return pod_warnings(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "resize":
            self.prepare_resize(new, old)
            return
        spec = new.get("spec") or {}
        is_machine = spec.get(virtual_machines.FIELD) is not None
        if is_machine and subresource != "status" and spec is not old["spec"]:
            virtual_machines.reconcile(spec, old["spec"])
        if subresource == "status":
            pod_status.prepare(new, old)
            gates.drop_from_status(new["status"], old.get("status") or {})
        elif subresource == "ephemeralcontainers":
            pod_update.prepare_ephemeral(new, old)
        else:
            keep(new, old, "status")
            sync_service_account(new.setdefault("spec", {}))
        if subresource != "status":
            gates.drop_from_spec(new["spec"], old["spec"])
        keep_migration(new, old)
        self.count_generation(new, old)
        if is_machine and subresource == "status":
            show_machine(new, old)
        carry_over(new, old)

    def prepare_resize(self, new: Object, old: Object, sizes_only: bool | None = None) -> bool:
        """Reverts changes that a resize may not make. `sizes_only`: whether the specs differ in sizes only, if that is
        already known. Returns whether they differ in sizes only after that."""
        spec, stored = new.get("spec") or {}, old["spec"]
        if spec.get(virtual_machines.FIELD) is not None and spec is not stored:
            virtual_machines.reconcile(spec, stored)
            sizes_only = None
        resized = differs_in_sizes_only(spec, stored) if sizes_only is None else sizes_only
        resized = pod_resize.prepare(new, old, resized)
        keep_migration(new, old)
        self.count_generation(new, old)
        carry_over(new, old)
        return resized

    def validate_resize(self, new: Object, old: Object, sizes_only: bool) -> Errors:
        errors = self.validate_update_meta(new, old, "resize")
        pod_resize.validate(new, old, errors, sizes_only)
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource == "resize":
            return self.validate_resize(new, old, differs_in_sizes_only(new["spec"], old["spec"]))
        errors = self.validate_update_meta(new, old, subresource)
        if subresource == "status":
            pod_status.validate(new, old, errors)
        else:
            validate_pod(new, errors, old)
            virtual_machines.validate_change(new.get("spec") or {}, old["spec"], errors)
            change = pod_update.validate_ephemeral if subresource == "ephemeralcontainers" else pod_update.validate
            change(new, old, errors)
        return errors

    def grace_period_s(self, obj: Object, requested: int | None) -> int:
        spec, status = obj.get("spec"), obj.get("status")
        if not isinstance(spec, dict) or not spec.get("nodeName"):
            # No node runs the pod, so there is no grace period: it is not bound, or its stored spec is invalid.
            return 0
        if isinstance(status, dict) and status.get("phase") in ("Failed", "Succeeded"):
            return 0
        period = requested if requested is not None else spec.get("terminationGracePeriodSeconds") or 0
        return 1 if period < 0 else int(period)
