"""Selects a field of a value: `a.b`, `has(a.b)`, `a.?b`."""

from __future__ import annotations

from typing import Any

from podfit.api.cel.evaluation.folds import Run
from podfit.api.cel.evaluation.messages import Built
from podfit.api.cel.values import LISTS, NONE, Failed, Maybe


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a value that is not a plain object: a scalar has none."""
    if isinstance(value, Built):
        return value.fields
    if isinstance(value, LISTS):
        raise Failed("unsupported index type 'string' in list")
    return {}


def presence(operand: Run, key: str) -> Run:
    def run(frame: list[Any]) -> bool:
        value = operand(frame)
        if type(value) is Maybe:
            value = value.value
        return key in (value if value.__class__ is dict else fields_of(value))

    return run


def optional_field(operand: Run, key: str) -> Run:
    def run(frame: list[Any]) -> Maybe:
        value = operand(frame)
        frame[0] += 1
        if type(value) is Maybe:
            value = value.value if value.present else {}
        return Maybe(value[key]) if value.__class__ is dict and key in value else NONE

    return run
