"""The numbers that a custom resource's scale subresource shows: their paths, and their validation."""

from __future__ import annotations

from typing import Any

from podfit.api.schema.custom.measures import as_go
from podfit.api.status import INVALID, FieldError
from podfit.api.text.goprint import go_print, go_type

_MOST = (1 << 31) - 1


def scale_errors(obj: Any, scale: dict[str, Any] | None, subresource: str) -> list[FieldError]:
    """An update of the status is checked only for the numbers in the status."""
    if scale is None:
        return []
    errors = [] if subresource == "status" else _replicas(obj, scale.get("specReplicasPath") or "")
    errors += _replicas(obj, scale.get("statusReplicasPath") or "")
    if path := scale.get("labelSelectorPath"):
        value, problem = _found(obj, path)
        if not problem and value is not None and not isinstance(value, str):
            problem = _accessor(path, value, "string")
        if problem:
            errors.append(FieldError(INVALID, path, problem, '""'))
    return errors


def _replicas(obj: Any, path: str) -> list[FieldError]:
    value, problem = _found(obj, path)
    if not problem and value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        problem = _accessor(path, value, "int64")
    if problem:
        return [FieldError(INVALID, path, problem, "0")]
    if value is not None and value < 0:
        return [FieldError(INVALID, path, "should be a non-negative integer", str(value))]
    if value is not None and value > _MOST:
        return [FieldError(INVALID, path, f"should be less than or equal to {_MOST}", str(value))]
    return []


def _found(obj: Any, path: str) -> tuple[Any, str]:
    """The value at a path, None if there is none, and what blocks the path."""
    value, fields = obj, path.lstrip(".").split(".")
    for at, field in enumerate(fields):
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _accessor("." + ".".join(fields[: at + 1]), value, "map[string]interface{}")
        value = value.get(field)
    return as_go(value), ""


def _accessor(path: str, value: Any, wanted: str) -> str:
    return f"{path} accessor error: {go_print(value)} is of the type {go_type(value)}, expected {wanted}"
