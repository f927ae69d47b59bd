"""Strategies of Jobs and CronJobs: pods that run to an end."""

from __future__ import annotations

import re
from typing import Any

from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, chosen, equal, label_selector, non_negative, selector_matches
from podfit.apiserver.strategy.kinds.workloads import set_default
from podfit.apiserver.strategy.names import dns_subdomain
from podfit.apiserver.strategy.pod.warnings import template_warnings
from podfit.apiserver.strategy.podspec.defaults import default_template
from podfit.apiserver.strategy.podspec.spec import validate_template

Object = dict[str, Any]

_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"
_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_STEERING = ("nodeSelector", "tolerations", "schedulingGates")
_MOST_INDEXES = 100_000
_cron_field = re.compile(r"[0-9*/,\-?A-Za-z]+")


class JobStrategy(Strategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        set_default(spec, "parallelism", 1)
        set_default(spec, "backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
        set_default(spec, "manualSelector", False)
        set_default(spec, "completionMode", "NonIndexed")
        set_default(spec, "suspend", False)
        set_default(spec, "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
        for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
            for pattern in rule.get("onPodConditions") or ():
                set_default(pattern, "status", "True")
        _copy_labels(obj)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec = obj.setdefault("spec", {})
        if not spec.get("manualSelector"):
            self._generate_selector(obj, spec)
        _copy_labels(obj)

    def _generate_selector(self, obj: Object, spec: Object) -> None:
        metadata = obj["metadata"]
        labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
        for key, value in ((_UID, metadata.get("uid", "")), (_NAME, metadata.get("name", ""))):
            # The short names are what older clients look for.
            for name in (key, key.partition("/")[2]):
                labels.setdefault(name, value)
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault(_UID, metadata.get("uid", ""))

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        spec = obj.get("spec") or {}
        if not spec.get("manualSelector"):
            generated = {"matchLabels": {_UID: obj["metadata"].get("uid", "")}}
            if not equal(spec.get("selector"), generated):
                at = next((i for i, each in enumerate(errors) if each.path.startswith("spec")), len(errors))
                errors.insert(at, invalid("spec.selector", _shown(spec["selector"]), "`selector` not auto-generated"))
        return errors

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        for field in _COUNTS:
            non_negative(spec, field, "spec", errors)
        self._completion(spec, errors)
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        else:
            label_selector(spec["selector"], "spec.selector", errors)
        if not selector_matches(spec.get("selector"), labels):
            detail = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", dict(sorted(labels.items())), detail))
        job_template(template, "spec.template", errors)
        return errors

    def _completion(self, spec: Object, errors: Errors) -> None:
        mode, policy = spec.get("completionMode"), spec.get("podReplacementPolicy")
        if mode not in (None, "NonIndexed", "Indexed"):
            errors.append(not_supported("spec.completionMode", mode, ("Indexed", "NonIndexed")))
        if mode == "Indexed":
            if spec.get("completions") is None:
                errors.append(required("spec.completions", "when completion mode is Indexed"))
            elif (spec.get("parallelism") or 0) > _MOST_INDEXES:
                detail = "must be less than or equal to 100000 when completion mode is Indexed"
                errors.append(invalid("spec.parallelism", spec["parallelism"], detail))
        elif spec.get("backoffLimitPerIndex") is not None:
            errors.append(
                invalid("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode")
            )
        if policy not in (None, "TerminatingOrFailed", "Failed"):
            errors.append(not_supported("spec.podReplacementPolicy", policy, ("Failed", "TerminatingOrFailed")))

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        self._completions(spec, stored, errors)
        if not equal(spec.get("selector"), stored.get("selector")):
            errors.append(invalid("spec.selector", _shown(spec.get("selector")), IMMUTABLE))
        self._template(spec.get("template") or {}, stored.get("template") or {}, old, errors)
        for field in _FIXED:
            if not equal(spec.get(field), stored.get(field)):
                errors.append(invalid(f"spec.{field}", spec.get(field), IMMUTABLE))
        return errors

    def _completions(self, spec: Object, stored: Object, errors: Errors) -> None:
        wanted = spec.get("completions")
        if wanted == stored.get("completions"):
            return
        if stored.get("completionMode") != "Indexed":
            errors.append(invalid("spec.completions", wanted, IMMUTABLE))
        elif wanted is None or wanted != spec.get("parallelism"):
            detail = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid("spec.completions", wanted, detail))

    def _template(self, new: Object, old: Object, job: Object, errors: Errors) -> None:
        if equal(new, old):
            return
        if not _may_steer(job):
            errors.append(invalid("spec.template", new, IMMUTABLE))
            return
        # Sizes that may change are looked at once more, so that a bad one is reported twice.
        for key in ("initContainers", "containers"):
            for at, container in enumerate((new.get("spec") or {}).get(key) or ()):
                path = f"spec.template.spec.{key}[{at}].resources"
                resourcelists.requirements(container.get("resources"), path, frozenset(), errors)
        mine, stored = _steered(new), _steered(old)
        if not equal(mine, stored):
            errors.append(invalid("spec.template.spec", new.get("spec"), IMMUTABLE))

    def warnings_create(self, obj: Object) -> list[str]:
        return template_warnings((obj.get("spec") or {}).get("template") or {}, "spec.template")


def _copy_labels(obj: Object) -> None:
    """A job without labels of its own takes those of its pods."""
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _shown(selector: Object | None) -> Object | None:
    if not selector or not selector.get("matchLabels"):
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def _may_steer(job: Object) -> bool:
    """While a job is suspended and nothing of it runs, its pods may still be made to fit: place and size."""
    status = job.get("status") or {}
    return bool((job.get("spec") or {}).get("suspend")) and not status.get("startTime") and not status.get("active")


def _steered(template: Object) -> Object:
    """The template without what a suspended job may change."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _STEERING}
    affinity = {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    if affinity:
        spec["affinity"] = affinity
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = [{name: value for name, value in each.items() if name != "resources"} for each in spec[key]]
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    return {**template, "metadata": metadata, "spec": spec}


def job_template(template: Object, path: str, errors: Errors) -> None:
    validate_template(template, path, errors)
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        errors.append(required(f"{path}.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(f"{path}.spec.restartPolicy", policy, ("OnFailure", "Never")))


class CronJobStrategy(Strategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "concurrencyPolicy", "Allow")
        set_default(spec, "suspend", False)
        set_default(spec, "successfulJobsHistoryLimit", 3)
        set_default(spec, "failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_template(template.setdefault("spec", {}).setdefault("template", {}))

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        found = dns_subdomain(name, prefix)
        if not prefix and len(name) > 52:
            found.append("must be no more than 52 characters")
        return found

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        schedule = spec.get("schedule", "")
        if not schedule:
            errors.append(required("spec.schedule"))
        else:
            _schedule(schedule, errors)
        non_negative(spec, "startingDeadlineSeconds", "spec", errors)
        chosen(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"), errors)
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        if job.get("manualSelector"):
            errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
        for field in _COUNTS:
            non_negative(job, field, "spec.jobTemplate.spec", errors)
        job_template(job.get("template") or {}, "spec.jobTemplate.spec.template", errors)
        for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            non_negative(spec, field, "spec", errors)
        return errors


def _schedule(schedule: str, errors: Errors) -> None:
    if schedule.startswith("@"):
        return
    if "TZ=" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(
            forbidden("spec.schedule", detail) if "timeZone" in schedule else invalid("spec.schedule", schedule, detail)
        )
        return
    fields = schedule.split()
    if len(fields) != 5:
        found = "[" + " ".join(fields) + "]"
        detail = f"expected exactly 5 fields, found {len(fields)}: {found}"
        errors.append(invalid("spec.schedule", schedule, detail))
    elif not all(map(_cron_field.fullmatch, fields)):
        wrong = next(field for field in fields if not _cron_field.fullmatch(field))
        errors.append(invalid("spec.schedule", schedule, f"failed to parse int from {wrong}"))
