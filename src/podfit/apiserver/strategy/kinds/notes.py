"""The strategy of Events, in their two API groups, which share their storage and not all of their rules."""

from __future__ import annotations

from typing import Any

from podfit.api.status import invalid, required
from podfit.apiserver.strategy import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, names_valid

Object = dict[str, Any]

_MISMATCH = "does not match event.namespace"
_LONGEST = 128
_LONGEST_NOTE = 1024
_FIXED = (
    "regarding",
    "reason",
    "action",
    "related",
    "note",
    "type",
    "reportingController",
    "reportingInstance",
    "eventTime",
)
_OLD_FIELDS = {
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "deprecatedSource": "source",
}


class EventStrategy(Strategy):
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
            # What has no namespace is told about in the default one.
            if namespace != (about or "default"):
                errors.append(invalid("involvedObject.namespace", about, _MISMATCH))
        else:
            if not about and namespace not in ("default", "kube-system"):
                errors.append(invalid("involvedObject.namespace", about, _MISMATCH))
            self._timed(obj, errors)
        if self.kind.group:
            self._new_group(obj, errors)
        return errors

    def _timed(self, obj: Object, errors: Errors) -> None:
        """An event with a time of its own says who reports it and what was done."""
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
                shown = "repotingIntance" if field == "reportingInstance" else field
                errors.append(invalid(shown, "", f"can have at most {_LONGEST} characters"))
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
        changed = (field for field in _FIXED if not equal(new.get(field), old.get(field)))
        return [invalid(field, new.get(field), IMMUTABLE) for field in changed]
