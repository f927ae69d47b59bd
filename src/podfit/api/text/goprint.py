"""Go's text for JSON values (%v), and its names of their types, as quoted in messages."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from podfit.api.status import go_value as _json_value

_PLAIN_UP_TO = 6
"""Powers of ten from this one on are written with an exponent."""


def go_print(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_print(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_print, value)) + "]"
    if isinstance(value, float):
        return go_float(value)
    return str(value)


def go_float(value: float) -> str:
    """Go's %v."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, power = "".join(map(str, digits)), len(digits) - 1 + int(exponent)
    if -4 <= power < _PLAIN_UP_TO:
        return f"{value:.{max(0, len(text) - 1 - power)}f}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def go_value(value: Any) -> str:
    """A value as printed by field errors of custom resources, with Go's numbers."""
    if isinstance(value, float):
        return go_float(value)
    return _json_value(value)


def go_type(value: Any) -> str:
    """Go's %T of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "int64", float: "float64", dict: "map[string]interface {}", list: "[]interface {}"}
    return names.get(value.__class__, "<nil>")
