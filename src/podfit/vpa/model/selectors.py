"""Label selectors: from their text (`app=x,tier in (a,b)`) or from a LabelSelector object, to a test of labels.

Two selectors with the same canonical text select the same pods, so the text serves as identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]

_SET = re.compile(r"^\s*([^\s,!=()]+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_PAIR = re.compile(r"^\s*([^\s,!=()]+)\s*(==|=|!=)\s*([^\s,!=()]*)\s*$")
_KEY = re.compile(r"^\s*(!?)\s*([^\s,!=()]+)\s*$")
_SPLIT = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: str
    """One of =, !=, in, notin, exists, !."""
    values: tuple[str, ...] = ()

    def holds(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value in self.values
            case "!=" | "notin":
                return value not in self.values
            case "exists":
                return value is not None
        return value is None

    def __str__(self) -> str:
        match self.operator:
            case "=" | "!=":
                return f"{self.key}{self.operator}{self.values[0]}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case "exists":
                return self.key
        return f"!{self.key}"


@dataclass(frozen=True)
class Selector:
    """All requirements must hold; with none it selects everything, unless `nothing`."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Labels | None) -> bool:
        return not self.nothing and all(requirement.holds(labels or {}) for requirement in self.requirements)

    def __str__(self) -> str:
        return "<nothing>" if self.nothing else ",".join(sorted(map(str, self.requirements)))


NOTHING = Selector(nothing=True)
EVERYTHING = Selector()


def parse(text: str) -> Selector:
    """Reads the text form. Raises ValueError for anything else."""
    parts = [part for part in _SPLIT.split(text) if part.strip()]
    return Selector(tuple(_requirement(part) for part in parts))


def from_object(selector: Mapping[str, Any] | None) -> Selector:
    """Reads a LabelSelector. A missing one selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    found = list(equal_to(selector.get("matchLabels") or {}).requirements)
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for entry in selector.get("matchExpressions") or ():
        operator = names.get(entry.get("operator", ""))
        if operator is None:
            raise ValueError(f'"{entry.get("operator")}" is not a valid label selector operator')
        found.append(Requirement(entry["key"], operator, tuple(entry.get("values") or ())))
    return Selector(tuple(found))


def equal_to(labels: Labels) -> Selector:
    """Selects exactly these labels' values."""
    return Selector(tuple(Requirement(key, "=", (value,)) for key, value in sorted(labels.items())))


def label_text(labels: Labels | Iterable[tuple[str, str]] | None) -> str:
    """The canonical text of a label set."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels or ()
    return ",".join(f"{key}={value}" for key, value in sorted(pairs))


def labels_from(text: str) -> dict[str, str]:
    """The label set whose canonical text this is; neither names nor values can hold a comma or an equals sign."""
    return dict(pair.split("=", 1) for pair in text.split(",")) if text else {}  # type: ignore[misc]


def _requirement(part: str) -> Requirement:
    if found := _SET.match(part):
        values = tuple(value.strip() for value in found[3].split(","))
        return Requirement(found[1], found[2], values)
    if found := _PAIR.match(part):
        return Requirement(found[1], "!=" if found[2] == "!=" else "=", (found[3],))
    if found := _KEY.match(part):
        return Requirement(found[2], "!" if found[1] else "exists")
    raise ValueError(f"unable to parse requirement: {part!r}")
