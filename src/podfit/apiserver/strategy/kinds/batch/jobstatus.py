"""Validates the status of a Job, which the Job controller writes, and its transitions: a Job ends only once.

Rules about fields that an update does not change are not checked again, so that invalid stored statuses can be
corrected.
"""

from __future__ import annotations

from podfit.api.indexes import Indexes
from podfit.api.objects import Object
from podfit.api.status import INVALID, FieldError, duplicate, invalid, required
from podfit.apiserver.strategy.checks import Errors, non_negative
from podfit.apiserver.strategy.kinds.batch.jobrules import count_indexes

_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


class _Move:
    """An update of a Job's status: both versions, and their differences."""

    def __init__(self, new: Object, old: Object) -> None:
        self.spec: Object = new.get("spec") or {}
        self.status: Object = new.get("status") or {}
        self.before: Object = old.get("status") or {}
        self.true, self.was_true = _true(self.status), _true(self.before)

    def turned(self, *kinds: str) -> bool:
        return any((kind in self.true) != (kind in self.was_true) for kind in kinds)

    def changed(self, *fields: str) -> bool:
        return any((self.status.get(field) or None) != (self.before.get(field) or None) for field in fields)

    @property
    def finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    @property
    def ended_now(self) -> bool:
        return self.finished != bool(self.was_true & {"Complete", "Failed"})


def _true(status: Object) -> set[str]:
    return {row.get("type", "") for row in status.get("conditions") or () if row.get("status") == "True"}


def validate_status(new: Object, old: Object) -> Errors:
    errors: Errors = []
    move = _Move(new, old)
    for field in _COUNTS:
        non_negative(move.status, field, "status", errors)
    _uncounted(move.status.get("uncountedTerminatedPods") or {}, errors)
    _ends(move, errors)
    _finished(move, errors)
    _indexes(move, errors)
    if move.finished and (move.status.get("terminating") or 0) > 0 and (move.ended_now or move.changed("terminating")):
        value = move.status["terminating"]
        errors.append(invalid("status.terminating", value, "terminating>0 is invalid for finished job"))
    ready, active = move.status.get("ready"), move.status.get("active") or 0
    if ready is not None and ready > active and move.changed("ready", "active"):
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    _criteria(move, errors)
    _goes_on(move, errors)
    return errors


def _conditions(detail: str) -> FieldError:
    return FieldError(INVALID, "status.conditions", detail)


def _uncounted(pods: Object, errors: Errors) -> None:
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for at, uid in enumerate(pods.get(field) or ()):
            path = f"status.uncountedTerminatedPods.{field}[{at}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)


def _ends(move: _Move, errors: Errors) -> None:
    complete, time = "Complete" in move.true, move.status.get("completionTime")
    start = move.status.get("startTime")
    if complete and "Failed" in move.true and move.turned("Complete", "Failed"):
        errors.append(_conditions("cannot set Complete=True and Failed=true conditions"))
    if complete and "FailureTarget" in move.true and move.turned("Complete", "FailureTarget"):
        errors.append(_conditions("cannot set Complete=True and FailureTarget=true conditions"))
    if move.turned("Complete") or move.changed("completionTime"):
        if time is not None and not complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid("status.completionTime", time, detail))
        if time is None and complete:
            errors.append(required("status.completionTime", "completionTime is required for Complete jobs"))
    if start and time and time < start and move.changed("startTime", "completionTime"):
        errors.append(invalid("status.completionTime", time, "completionTime cannot be set before startTime"))
    if "Failed" in move.true and "FailureTarget" not in move.true and move.turned("Failed", "FailureTarget"):
        errors.append(_conditions("cannot set Failed=True condition without the FailureTarget=true condition"))
    if complete and "SuccessCriteriaMet" not in move.true and move.turned("Complete", "SuccessCriteriaMet"):
        errors.append(_conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))


def _finished(move: _Move, errors: Errors) -> None:
    if not move.finished:
        return
    active = move.status.get("active") or 0
    if active > 0 and (move.ended_now or move.changed("active")):
        errors.append(invalid("status.active", active, "active>0 is invalid for finished job"))
    empty = bool(move.spec.get("suspend")) and move.spec.get("completions") == 0
    if not move.status.get("startTime") and (move.ended_now or move.changed("startTime")) and not empty:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    pods = move.status.get("uncountedTerminatedPods") or {}
    if (pods.get("succeeded") or pods.get("failed")) and (move.ended_now or move.changed("uncountedTerminatedPods")):
        shown = {"Succeeded": pods.get("succeeded"), "Failed": pods.get("failed")}
        detail = "uncountedTerminatedPods needs to be empty for finished job"
        errors.append(invalid("status.uncountedTerminatedPods", shown, detail))


def _indexes(move: _Move, errors: Errors) -> None:
    completions, status = move.spec.get("completions"), move.status
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    per_index = move.spec.get("backoffLimitPerIndex") is not None
    for field, text, wanted in (("completedIndexes", done, True), ("failedIndexes", failed, per_index)):
        if text and completions is not None and wanted and move.changed(field):
            _, complaint = count_indexes(text, completions)
            if complaint:
                errors.append(invalid(f"status.{field}", text, f"error parsing {field}: {complaint}"))
    if done and move.spec.get("completionMode") != "Indexed" and move.changed("completedIndexes"):
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", done, detail))
    if failed is not None and not per_index and move.changed("failedIndexes"):
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    if done and failed and move.changed("completedIndexes", "failedIndexes"):
        both = _members(done) & _members(failed)
        if both.intervals:
            detail = f"failedIndexes and completedIndexes overlap at index: {both.intervals[0][0]}"
            errors.append(invalid("status.failedIndexes", failed, detail))


def _members(text: str) -> Indexes:
    """The indexes in a list. Invalid fragments are skipped, and reported elsewhere."""
    found = [interval.split("-") for interval in text.split(",")]
    return Indexes((int(ends[0]), int(ends[-1])) for ends in found if len(ends) <= 2 and all(map(_is_index, ends)))


def _is_index(text: str) -> bool:
    return len(text) <= _LONGEST_INDEX and text.isascii() and text.isdigit()


_LONGEST_INDEX = 10
"""Digits of the largest number of completions."""


def _criteria(move: _Move, errors: Errors) -> None:
    met = "SuccessCriteriaMet" in move.true
    if met and "Failed" in move.true:
        errors.append(_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if met and "FailureTarget" in move.true:
        errors.append(_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if move.spec.get("successPolicy") is not None and not met and "Complete" in move.true:
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_conditions(detail))


def _goes_on(move: _Move, errors: Errors) -> None:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in move.was_true and kind not in move.true:
            errors.append(_conditions(f"cannot disable the terminal {kind}=True condition"))
    elastic = move.spec.get("completionMode") == "Indexed" and move.spec.get("completions") == move.spec.get(
        "parallelism"
    )
    for field in ("failed", "succeeded"):
        value = move.status.get(field) or 0
        if value < (move.before.get(field) or 0) and not (field == "succeeded" and elastic):
            errors.append(invalid(f"status.{field}", value, f"cannot decrease the {field} counter"))
    time, start = move.status.get("completionTime"), move.before.get("startTime")
    if time and move.before.get("completionTime") and move.changed("completionTime"):
        errors.append(invalid("status.completionTime", time, "completionTime cannot be mutated"))
    if start and move.changed("startTime") and not move.spec.get("suspend"):
        errors.append(required("status.startTime", "startTime cannot be removed for unsuspended job"))
    if "SuccessCriteriaMet" in move.was_true and "SuccessCriteriaMet" not in move.true:
        errors.append(_conditions("cannot disable the SuccessCriteriaMet=True condition"))
    if "Complete" in move.was_true and "SuccessCriteriaMet" in move.true - move.was_true:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_conditions(detail))
