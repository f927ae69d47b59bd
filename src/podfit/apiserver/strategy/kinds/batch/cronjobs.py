"""The strategy of CronJobs: Jobs created by schedule."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid, not_supported, required
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import chosen, non_negative
from podfit.apiserver.strategy.gates.pods import drop_from_template
from podfit.apiserver.strategy.kinds.batch.jobrules import job_spec
from podfit.apiserver.strategy.kinds.batch.schedules import schedule_errors, zone_errors
from podfit.apiserver.strategy.kinds.replicas.workloads import name_warnings, set_default
from podfit.apiserver.strategy.pod.warnings import template_warnings
from podfit.apiserver.strategy.podspec.defaults import default_template

_LONGEST_NAME = 52
"""Eleven characters less than a Job's: the scheduled time is appended."""


class CronJobStrategy(Strategy):
    update_checks, status_checks = "c", ""

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "concurrencyPolicy", "Allow")
        set_default(spec, "suspend", False)
        set_default(spec, "successfulJobsHistoryLimit", 3)
        set_default(spec, "failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_template(template.setdefault("spec", {}).setdefault("template", {}))

    def prepare_create(self, obj: Object) -> None:
        drop_from_template(_pod_template(obj))
        super().prepare_create(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource != "status":
            drop_from_template(_pod_template(new), _pod_template(old))
        super().prepare_update(new, old, subresource)

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        name = (obj.get("metadata") or {}).get("name", "")
        if len(name) > _LONGEST_NAME:
            errors.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
        return errors

    def validate(self, obj: Object) -> Errors:
        return self._spec(obj.get("spec") or {}, None)

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if subresource != "status":
            errors.extend(self._spec(new.get("spec") or {}, old.get("spec") or {}))
        return errors

    def _spec(self, spec: Object, old: Object | None) -> Errors:
        errors: Errors = []
        schedule, zone = spec.get("schedule", ""), spec.get("timeZone")
        if not schedule:
            errors.append(required("spec.schedule"))
        else:
            schedule_errors(schedule, zone, old.get("schedule") if old else None, "spec.schedule", errors)
        non_negative(spec, "startingDeadlineSeconds", "spec", errors)
        if old is None or old.get("timeZone") != zone:
            zone_errors(zone, "spec.timeZone", errors)
        chosen(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"), errors)
        self._job((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec", errors)
        for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            non_negative(spec, field, "spec", errors)
        return errors

    def _job(self, job: Object, path: str, errors: Errors) -> None:
        job_spec(job, path, errors)
        if job.get("selector") is not None:
            errors.append(invalid(f"{path}.selector", job["selector"], "`selector` will be auto-generated"))
        if job.get("manualSelector"):
            errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))

    def warnings_create(self, obj: Object) -> list[str]:
        job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
        return name_warnings(obj) + template_warnings(job.get("template") or {}, "spec.jobTemplate.spec.template")


def _pod_template(obj: Object) -> Object | None:
    job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
    return job.get("template")
