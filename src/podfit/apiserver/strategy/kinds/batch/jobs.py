"""The strategy of Jobs: pods that run to completion."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid, required
from podfit.api.text.names import dns_label
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, label_selector, selector_matches, selector_usable
from podfit.apiserver.strategy.gates.pods import drop_from_template
from podfit.apiserver.strategy.kinds.batch import jobstatus
from podfit.apiserver.strategy.kinds.batch.jobrules import failure_as_go, job_spec, success_as_go
from podfit.apiserver.strategy.kinds.replicas.workloads import name_warnings, set_default
from podfit.apiserver.strategy.pod.warnings import template_warnings
from podfit.apiserver.strategy.podspec.defaults import default_template

_UID = "batch.kubernetes.io/controller-uid"
_NAME = "batch.kubernetes.io/job-name"
_AS_GO = {"podFailurePolicy": failure_as_go, "successPolicy": success_as_go}
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_STEERING = ("nodeSelector", "tolerations", "schedulingGates")

_MANY_INDEXES, _MANY_AT_ONCE = 100_000, 10_000
_TOO_MANY = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


class JobStrategy(Strategy):
    update_checks = "wc"

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
                # After decoding the field is always present, and empty if the client omitted it.
                pattern["status"] = pattern.get("status") or "True"
        _copy_labels(obj)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        spec = obj.setdefault("spec", {})
        drop_from_template(spec.get("template"))
        if not spec.get("manualSelector"):
            self._generate_selector(obj, spec)
        _copy_labels(obj)
        _part_labels(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource != "status":
            drop_from_template((new.get("spec") or {}).get("template"), (old.get("spec") or {}).get("template"))
        super().prepare_update(new, old, subresource)
        _part_labels(new)

    def _generate_selector(self, obj: Object, spec: Object) -> None:
        metadata = obj["metadata"]
        labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
        for key, value in ((_UID, metadata.get("uid", "")), (_NAME, metadata.get("name", ""))):
            # Older clients read the short names.
            for name in (key, key.partition("/")[2]):
                labels.setdefault(name, value)
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault(_UID, metadata.get("uid", ""))

    def validate_create(self, obj: Object) -> Errors:
        spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
        errors = meta.validate_object(metadata, True, self.validate_name, self.strict_finalizers)
        errors.extend(self.validate(obj))
        completions = spec.get("completions") or 0
        if spec.get("completionMode") == "Indexed" and completions > 0:
            # The last index results in the longest host name.
            host = f"{metadata.get('name', '')}-{completions - 1}"
            if dns_label(host):
                detail = f"will not able to create pod with invalid DNS label: {host}"
                errors.append(invalid("metadata.name", metadata.get("name", ""), detail))
        return errors

    def _generated(self, spec: Object, metadata: Object, errors: Errors) -> None:
        """Validates that labels and selector are the generated ones; users may have set others."""
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        uid, name = metadata.get("uid", ""), metadata.get("name", "")
        expected = {_UID.partition("/")[2]: uid, _NAME.partition("/")[2]: name, _UID: uid, _NAME: name}
        for key, value in expected.items():
            path = f"spec.template.metadata.labels[{key}]"
            if key not in labels:
                errors.append(required(path, f"must be '{value}'"))
            elif labels[key] != value:
                errors.append(invalid(path, dict(sorted(labels.items())), f"must be '{value}'"))
        if selector_usable(spec["selector"]) and not selector_matches(spec["selector"], expected):
            errors.append(invalid("spec.selector", _printable(spec["selector"]), "`selector` not auto-generated"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        if not spec.get("manualSelector") and spec.get("selector") is not None:
            self._generated(spec, obj.get("metadata") or {}, errors)
        return errors + self._spec(obj)

    def _spec(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        job_spec(spec, "spec", errors)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        else:
            label_selector(spec["selector"], "spec.selector", errors)
        if not selector_matches(spec.get("selector"), labels) and selector_usable(spec.get("selector")):
            detail = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels and dict(sorted(labels.items())), detail))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors = self._spec(new)  # Kubernetes validates the template twice, and reports its errors twice.
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        self._completions(spec, stored, errors)
        if not equal(spec.get("selector"), stored.get("selector")):
            errors.append(invalid("spec.selector", _printable(spec.get("selector")), IMMUTABLE))
        self._template(spec.get("template") or {}, stored.get("template") or {}, old, errors)
        for field in _FIXED:
            if not equal(spec.get(field), stored.get(field)):
                shown = _AS_GO[field](spec.get(field)) if field in _AS_GO else spec.get(field)
                errors.append(invalid(f"spec.{field}", shown, IMMUTABLE))
        return errors

    def _completions(self, spec: Object, stored: Object, errors: Errors) -> None:
        wanted = spec.get("completions")
        if wanted == stored.get("completions"):
            return
        if spec.get("completionMode") != "Indexed":
            errors.append(invalid("spec.completions", wanted, IMMUTABLE))
        elif wanted is not None and wanted != spec.get("parallelism"):
            detail = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid("spec.completions", wanted, detail))

    def _template(self, new: Object, old: Object, job: Object, errors: Errors) -> None:
        if equal(new, old):
            return
        if not _may_steer(job):
            errors.append(invalid("spec.template", new, IMMUTABLE))
            return
        mine, stored = _steered(new), _steered(old)
        if not equal(mine, stored):
            errors.append(invalid("spec.template.spec", new.get("spec"), IMMUTABLE))

    def validate_status(self, new: Object, old: Object) -> Errors:
        return jobstatus.validate_status(new, old)

    def warnings_create(self, obj: Object) -> list[str]:
        spec = obj.get("spec") or {}
        found = name_warnings(obj)
        many = (spec.get("completions") or 0) > _MANY_INDEXES and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
        if spec.get("completionMode") == "Indexed" and many:
            found.append(f"spec: {_TOO_MANY}")
        return found + template_warnings(spec.get("template") or {}, "spec.template")


def _copy_labels(obj: Object) -> None:
    """Gives a job without labels those of its pods. Both share one map until `_part_labels`, so that the job also gets
    the labels generated for the pods."""
    labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    metadata = obj.setdefault("metadata", {})
    if labels and not metadata.get("labels"):
        metadata["labels"] = labels


def _part_labels(obj: Object) -> None:
    if (labels := obj["metadata"].get("labels")) is not None:
        obj["metadata"]["labels"] = dict(labels)


def _printable(selector: Object | None) -> Object | None:
    if not selector or not selector.get("matchLabels"):
        return selector
    return {**selector, "matchLabels": dict(sorted(selector["matchLabels"].items()))}


def _may_steer(job: Object) -> bool:
    """Whether placement and resources of the job's pods may change: while it is suspended and has no running pods."""
    status = job.get("status") or {}
    return bool((job.get("spec") or {}).get("suspend")) and not status.get("startTime") and not status.get("active")


def _steered(template: Object) -> Object:
    """The template without the fields that may change in a suspended job."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _STEERING}
    affinity = {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key != "nodeAffinity"}
    if affinity:
        spec["affinity"] = affinity
    for key in ("containers", "initContainers"):
        if spec.get(key):
            spec[key] = [{name: value for name, value in each.items() if name != "resources"} for each in spec[key]]
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    return {**template, "metadata": metadata, "spec": spec}
