"""How Go prints JSON values with %v: messages about patches quote them so."""

from __future__ import annotations

from typing import Any


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
    """Go's %v of a float64: the shortest digits, an exponent from 1e+21 on and below 1e-4."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    if not exponent:
        return text
    sign = "-" if power.startswith("-") else "+"
    return f"{mantissa}e{sign}{power.lstrip('+-').rjust(2, '0')}"
