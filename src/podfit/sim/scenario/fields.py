"""Reads a YAML mapping field by field. Every error names its path, in one line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from podfit.api.quantity import Quantity, QuantityError
from podfit.kit.durations import UNITS_S

T = TypeVar("T")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
MOST_MEMORY, MOST_CPU = 2**50, 10**9


class BadScenario(ValueError):
    """The scenario cannot be simulated; the message names the field and the reason."""


class Fields:
    """One mapping of the scenario. `done` reports fields that were not read."""

    def __init__(self, path: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise BadScenario(f"{path or 'the scenario'}: must be a mapping, not {_kind(value)}")
        self._path, self._left = path, dict(value)
        self._known: list[str] = []

    def at(self, name: object) -> str:
        return f"{self._path}.{name}" if self._path else str(name)

    def has(self, name: str) -> bool:
        return self._left.get(name) is not None

    def need(self, name: str, read: Callable[[str, Any], T]) -> T:
        if not self.has(name):
            raise BadScenario(f"{self.at(name)}: required")
        return self._read(name, read)

    def maybe(self, name: str, read: Callable[[str, Any], T], default: T) -> T:
        return self._read(name, read) if self.has(name) else self._absent(name, default)

    def _absent(self, name: str, default: T) -> T:
        self._known.append(name)
        self._left.pop(name, None)
        return default

    def _read(self, name: str, read: Callable[[str, Any], T]) -> T:
        self._known.append(name)
        return read(self.at(name), self._left.pop(name))

    def part(self, name: str) -> Fields:
        """A mapping inside this one; empty if it is absent."""
        return self.maybe(name, Fields, Fields(self.at(name), {}))

    def done(self) -> None:
        for name in self._left:
            raise BadScenario(f"{self.at(name)}: unknown field; known are {', '.join(sorted(self._known))}")


def _kind(value: Any) -> str:
    names: dict[type, str] = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    if value is None:
        return "empty"
    return "a mapping" if isinstance(value, Mapping) else names.get(type(value), type(value).__name__)


def entries(path: str, value: Any) -> list[tuple[str, Any]]:
    """The entries of a list, each with its path."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise BadScenario(f"{path}: must be a list, not {_kind(value)}")
    return [(f"{path}[{at}]", entry) for at, entry in enumerate(value)]


def text(path: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadScenario(f"{path}: must be text, not {_kind(value)}")
    return value


def name(path: str, value: Any) -> str:
    if not _NAME.fullmatch(text(path, value)):
        raise BadScenario(f"{path}: {value!r} is not a name: lower case letters, digits, '-' and '.'")
    return str(value)


def one_of(words: Sequence[str]) -> Callable[[str, Any], str]:
    def read(path: str, value: Any) -> str:
        # YAML parses a bare Off as false.
        word = "Off" if value is False and "Off" in words else value
        if word not in words:
            raise BadScenario(f"{path}: {value!r} is not one of {', '.join(words)}")
        return str(word)

    return read


def whole(least: int, most: int) -> Callable[[str, Any], int]:
    def read(path: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadScenario(f"{path}: {value!r} is not a whole number from {least} to {most}")
        return value

    return read


def number(least: float, most: float) -> Callable[[str, Any], float]:
    def read(path: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise BadScenario(f"{path}: {value!r} is not a number from {least:g} to {most:g}")
        return float(value)

    return read


def seconds(path: str, value: Any) -> float:
    """Parses a duration: `5m`, `1h30m`, `2d`, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return sum(float(amount) * UNITS_S[unit] for amount, unit in _PART.findall(value))
    raise BadScenario(f"{path}: {value!r} is not a duration: write 90s, 5m, 1h30m or 2d")


def _quantity(path: str, value: Any) -> Quantity:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuantityError("no number")
        found = Quantity.parse(value)
    except ValueError as error:
        raise BadScenario(f"{path}: {value!r} is not a quantity: write 500m, 2 or 1Gi") from error
    if found.nanos < 0:
        raise BadScenario(f"{path}: {value!r} is negative")
    return found


def millicores(path: str, value: Any) -> int:
    return _bounded(path, value, _quantity(path, value).milli, MOST_CPU)


def memory(path: str, value: Any) -> int:
    return _bounded(path, value, _quantity(path, value).value, MOST_MEMORY)


def _bounded(path: str, value: Any, amount: int, most: int) -> int:
    if amount > most:
        raise BadScenario(f"{path}: {value!r} is too large")
    return amount


def factor(path: str, value: Any) -> float:
    """Parses a quantity as a fractional number."""
    return _quantity(path, value).nanos / 1e9


def labels(path: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping):
        raise BadScenario(f"{path}: must be a mapping, not {_kind(value)}")
    return {str(key): text(f"{path}.{key}", found) for key, found in value.items()}
