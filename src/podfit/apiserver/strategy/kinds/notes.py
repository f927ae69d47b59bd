"""The strategy of Events in their two API groups, which share their storage but not all of their rules."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.status import invalid, required
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, names_valid

_MISMATCH = "does not match event.namespace"
_LONGEST = 128
_LONGEST_NOTE = 1024
_FIXED = {
    "regarding": "involvedObject",
    "reason": "reason",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}
"""The fields that the newer group makes immutable, and their names in errors."""
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SOURCE = ("component", "host")
_GO_FIELDS = {"regarding": _REFERENCE, "related": _REFERENCE, "deprecatedSource": _SOURCE}
_GO_NAMES = {"uid": "UID", "apiVersion": "APIVersion"}
_ZERO: Object = {"deprecatedCount": 0}
_LEAST_SERIES = 2
_OLD_FIELDS = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}


class EventStrategy(Strategy):
    update_checks = "c"
    has_generation = False
    has_status = False
    create_on_update = True

    def default(self, obj: Object) -> None:
        if not self.kind.group:
            obj.setdefault("involvedObject", {})

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        about = (obj.get("regarding" if self.kind.group else "involvedObject") or {}).get("namespace", "")
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        if not obj.get("eventTime"):
            # Events about objects without a namespace belong to the default one.
            if namespace != (about or "default"):
                errors.append(invalid("involvedObject.namespace", about, _MISMATCH))
        else:
            if not about and namespace not in ("default", "kube-system"):
                errors.append(invalid("involvedObject.namespace", about, _MISMATCH))
            self._timed(obj, errors)
        return errors

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        if self.kind.group:
            _series(obj, errors)
            self._new_group(obj, errors)
        return errors

    def _timed(self, obj: Object, errors: Errors) -> None:
        """Validates an event with an eventTime, which must have a reporter and an action."""
        field = "reportingController" if self.kind.group else "reportingComponent"
        controller = obj.get(field, "")
        if not controller:
            errors.append(required(field))
        names_valid(controller, field, names.qualified_name(controller), errors)
        for field in ("reportingInstance", "action", "reason"):
            value = obj.get(field, "")
            if not value:
                errors.append(required(field))
            if len(value) > _LONGEST:
                errors.append(invalid(field, "", f"can have at most {_LONGEST} characters"))
        if len(obj.get("note" if self.kind.group else "message") or "") > _LONGEST_NOTE:
            errors.append(invalid("message", "", f"can have at most {_LONGEST_NOTE} characters"))

    def _new_group(self, obj: Object, errors: Errors) -> None:
        if not obj.get("eventTime"):
            errors.append(required("eventTime"))
        kind = obj.get("type", "")
        if kind not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {kind}"))
        for field, shown in _OLD_FIELDS.items():
            if obj.get(field):
                errors.append(invalid(shown, "", "needs to be unset"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        if not self.kind.group:
            return []
        errors: Errors = []
        if not equal(new.get("series"), old.get("series")):
            _series(new, errors)
        changed = {field for field in _FIXED if not equal(new.get(field), old.get(field))}
        for field, shown in _FIXED.items():
            if field == "type" and "reason" in changed:
                errors.append(invalid("reason", new.get("reason", ""), IMMUTABLE))  # reported twice, as in Kubernetes
            if field in changed:
                errors.append(invalid(shown, _printable(new, field), IMMUTABLE))
        return errors


class CoreEventStrategy(EventStrategy):
    """The strategy of Events in the core group: metadata is checked as for all kinds, but any name is valid."""

    update_checks = ""


def _series(obj: Object, errors: Errors) -> None:
    series = obj.get("series")
    if series is None:
        return
    if series.get("count", 0) < _LEAST_SERIES:
        errors.append(invalid("series.count", "", f"should be at least {_LEAST_SERIES}"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))


def _printable(obj: Object, field: str) -> Any:
    """A value as shown in errors: structs with their field names in Go."""
    value = obj.get(field)
    names_of = _GO_FIELDS.get(field)
    if names_of is None:
        return value if value is not None or field.endswith(("Time", "Timestamp")) else _ZERO.get(field, "")
    if value is None and field == "related":
        return None
    return {_GO_NAMES.get(name, name[0].upper() + name[1:]): (value or {}).get(name, "") for name in names_of}
