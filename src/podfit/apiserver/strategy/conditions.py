"""Validation of metav1.Condition, which newer kinds have in their status."""

from __future__ import annotations

import re
from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid

_STATES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_NO_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32768


def conditions(rows: Sequence[Object], path: str, errors: Errors) -> None:
    types = [row.get("type") or "" for row in rows]
    for at, row in enumerate(rows):
        here = f"{path}[{at}]"
        if types[at] in types[:at]:
            errors.append(duplicate(f"{here}.type", types[at]))
        _condition(row, here, errors)


def _condition(row: Object, path: str, errors: Errors) -> None:
    kind, state, reason = (row.get(field) or "" for field in ("type", "status", "reason"))
    names_valid(kind, f"{path}.type", names.qualified_name(kind), errors)
    if state not in _STATES:
        errors.append(not_supported(f"{path}.status", state, _STATES))
    if (row.get("observedGeneration") or 0) < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", row["observedGeneration"], detail))
    if not row.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not _REASON.fullmatch(reason):
        errors.append(invalid(f"{path}.reason", reason, _NO_REASON))
    if len(reason.encode()) > _LONGEST_REASON:
        errors.append(too_long(f"{path}.reason", _LONGEST_REASON))
    if len((row.get("message") or "").encode()) > _LONGEST_MESSAGE:
        errors.append(too_long(f"{path}.message", _LONGEST_MESSAGE))
