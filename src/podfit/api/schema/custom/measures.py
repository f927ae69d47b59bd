"""Types and numbers of custom resources, validated with the messages of Kubernetes' OpenAPI validation.

Numbers are those of Go: 64-bit integers, and floating point for everything else.
"""

from __future__ import annotations

import math
from typing import Any

from podfit.api.status import INVALID, TYPE_INVALID, FieldError
from podfit.api.text.formats import FORMATS
from podfit.api.text.goprint import go_value

Schema = dict[str, Any]
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)
_LARGEST_EXACT = (1 << 53) - 1
_LARGEST_FLOAT32 = 3.4028235677973366e38
_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def as_go(value: Any) -> Any:
    """A number as Go parses it: an integer that does not fit 64 bits becomes a floating-point number."""
    if isinstance(value, int) and not isinstance(value, bool) and not _INT64[0] <= value <= _INT64[1]:
        return float(value)
    return value


def error(kind: str, path: str, what: str, value: str) -> FieldError:
    return FieldError(kind, path or "<nil>", f"{path} in body {what}", value)


def composite(text: str) -> FieldError:
    """An error without a field of its own."""
    return FieldError(INVALID, "<nil>", text, '""')


def seen_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


_SEEN_FORMAT = {"integer": "int64", "number": "float64"}


def format_of(schema: Schema) -> str:
    """The format, if it is one that is checked for values of the type."""
    name, kind = str(schema.get("format") or ""), schema.get("type") or "string"
    return name if name in (FORMATS if kind == "string" else _NUMBERS.get(kind, ())) else ""


def type_errors(value: Any, schema: Schema, path: str) -> list[FieldError]:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        allowed: tuple[str, ...] = ("integer", "string")
    elif wanted:
        allowed = (wanted,)
    else:
        return []
    seen, form = seen_type(value), format_of(schema)
    fits = seen in allowed or (seen == "integer" and "number" in allowed)
    fits = fits or (seen == "number" and "integer" in allowed and _is_integral(value))
    if fits:
        return []
    if form and value is not None and seen not in ("string", "array"):
        form_seen = _SEEN_FORMAT.get(seen, "")
        return [error(TYPE_INVALID, path, f'must be of type {form}: "{form_seen}"', f'"{form_seen}"')]
    if form and seen in ("string", "array") and "number" not in allowed and "integer" not in allowed:
        return []
    return [error(TYPE_INVALID, path, f'must be of type {",".join(allowed)}: "{seen}"', f'"{seen}"')]


def _is_integral(value: float) -> bool:
    return abs(value) <= _LARGEST_EXACT and value.is_integer()


def number_errors(value: int | float, schema: Schema, path: str) -> list[FieldError]:
    kind = schema.get("type") or ""
    errors = _in_range("Checked", value, schema, path)
    shown, whole = go_value(value), isinstance(value, int)
    if (factor := schema.get("multipleOf")) is not None:
        errors += _in_range("MultipleOf", factor, schema, path)
        errors += _multiple(value, int(factor) if whole and not errors else factor, path)
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        errors += _in_range("Minimum boundary", least, schema, path) if kind else []
        # Kubernetes truncates the limits of integers.
        least = int(least) if whole else least
        if value < least or (schema.get("exclusiveMinimum") and value == least):
            words = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            errors.append(error(INVALID, path, f"should be {words} {go_value(least)}", shown))
    if most is not None:
        errors += _in_range("Maximum boundary", most, schema, path) if kind else []
        most = int(most) if whole else most
        if value > most or (schema.get("exclusiveMaximum") and value == most):
            words = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            errors.append(error(INVALID, path, f"should be {words} {go_value(most)}", shown))
    return errors


def _in_range(what: str, value: int | float, schema: Schema, path: str) -> list[FieldError]:
    """Whether the type and the format can represent a number."""
    kind, form = schema.get("type"), format_of(schema)
    if kind == "integer":
        low, high = _INT32 if form == "int32" else _INT64
        whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e21)
        fits = whole and low <= value <= high and (isinstance(value, int) or abs(value) <= _LARGEST_EXACT)
    else:
        fits = form != "float" or abs(value) < _LARGEST_FLOAT32
    if fits:
        return []
    with_format = f"with format {form}" if form else "(default format)"
    return [composite(f"{what} value must be of type {kind or ''} {with_format} in {path}")]


def _multiple(value: int | float, factor: int | float, path: str) -> list[FieldError]:
    if factor <= 0:
        what = f"factor MultipleOf declared for {path} must be positive: {go_value(factor)}"
        return [FieldError(INVALID, path or "<nil>", what, go_value(factor))]
    if isinstance(value, int) and isinstance(factor, int):
        fits = value % factor == 0
    else:
        ratio = 1 / factor * value if factor < 1 else value / factor
        fits = abs(ratio) <= _LARGEST_EXACT and math.isclose(ratio, round(ratio), rel_tol=1e-9, abs_tol=1e-12)
    return [] if fits else [error(INVALID, path, f"should be a multiple of {go_value(factor)}", go_value(value))]
