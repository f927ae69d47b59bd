"""Converts between the model's amounts (whole millicores and bytes) and quantities in objects."""

from __future__ import annotations

import math
from collections.abc import Mapping

from podfit.api.quantity import BINARY_SI, DECIMAL_SI, Quantity

MAX_AMOUNT = 10**14
_UNITS = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def amount_of(number: float) -> int:
    """Truncates a number, and clips it to the range from 0 to the largest amount; NaN becomes 0."""
    if number > MAX_AMOUNT:
        return MAX_AMOUNT
    return int(number) if number > 0 else 0


def scaled(amount: int, factor: float) -> int:
    return amount_of(float(amount) * factor)


def cpu_quantity(millicores: int) -> Quantity:
    return Quantity.of_milli(millicores, DECIMAL_SI)


def memory_quantity(amount: int) -> Quantity:
    return Quantity.of_units(amount, BINARY_SI)


def rounded_up(amount: int, step: int) -> int:
    """Rounds up to the next multiple of the step; an invalid step changes nothing."""
    return math.ceil(amount / step) * step if step > 0 else amount


def humanized(amount: int) -> Quantity:
    """The quantity in the largest binary unit that fits, with two decimals."""
    for unit, suffix in _UNITS:
        if amount >= unit:
            return Quantity.parse(f"{amount / unit:.2f}{suffix}")
    return Quantity.parse(str(amount))


def quantities(amounts: Mapping[str, int], humanize: bool, round_cpu: int, round_memory: int) -> dict[str, Quantity]:
    """A resource list of amounts, rounded and formatted as the flags specify."""
    found = {}
    if "cpu" in amounts:
        found["cpu"] = cpu_quantity(rounded_up(amounts["cpu"], round_cpu))
    if "memory" in amounts:
        memory = rounded_up(amounts["memory"], round_memory)
        found["memory"] = humanized(memory) if humanize else memory_quantity(memory)
    return found
