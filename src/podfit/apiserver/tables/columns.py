"""The definition of a column, and formats shared by columns of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from podfit.api.objects import Object
from podfit.kit.clock import parse_rfc3339

NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
NONE, UNKNOWN, UNSET, INVALID = "<none>", "<unknown>", "<unset>", "<invalid>"

Cells = Callable[[Object], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str = "string"
    description: str = ""
    priority: int = 0
    format: str = ""

    def to_json(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME = Column("Name", "string", NAME_TEXT, 0, "name")
AGE = Column("Age", "string", CREATED_TEXT)


@dataclass(frozen=True, slots=True)
class Layout:
    columns: tuple[Column, ...]
    cells: Cells
    """The cells of an object; those that show an age are `Elapsed`."""
    conditions: Callable[[Object], list[Object] | None] | None = None
    decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
    """Decodes a stored object, or the part of it from which cells are made."""
    rows_when_empty: bool = True
    """Whether `rows` of an empty table is `[]` rather than null."""


def wide(name: str, description: str = "", type: str = "string") -> Column:
    return Column(name, type, description, 1)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """A cell with the time since a timestamp. It is computed when the row is sent, so that the rest of the row can be
    encoded once for each state of its object."""

    since_s: float
    before: str = ""
    after: str = ""

    def text(self, now_s: float) -> str:
        return f"{self.before}{human_duration(now_s - self.since_s)}{self.after}"


def age(obj: Object) -> Elapsed | str:
    return since(obj["metadata"].get("creationTimestamp"))


def since(moment: str | None) -> Elapsed | str:
    if not moment:
        return UNKNOWN
    try:
        return Elapsed(parse_rfc3339(moment))
    except ValueError:
        return INVALID


def human_duration(seconds: float) -> str:
    """Formats a duration with two units at most: 95s, 3m20s, 15m, 5h12m, 30h, 3d4h, 20d, 2y40d."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else INVALID
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def containers_and_images(pod_spec: Object) -> tuple[str, str]:
    containers = pod_spec.get("containers") or []
    return ",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)


def labels_text(labels: Object | None) -> str:
    """Formats labels as k=v,k=v in key order, or as <none>."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Object | None) -> str:
    """Formats a LabelSelector in the notation of selectors in queries."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for row in selector.get("matchExpressions") or []:
        values = ",".join(sorted(row.get("values") or []))
        key, operator = row.get("key", ""), row.get("operator", "")
        parts.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(operator, f"!{key}")
        )
    return ",".join(parts) or NONE


def default_layout() -> Layout:
    """The layout of kinds without columns of their own: name and creation time."""

    def cells(obj: Object) -> list[Any]:
        return [name(obj), obj["metadata"].get("creationTimestamp")]

    return Layout((NAME, Column("Created At", "date", CREATED_TEXT)), cells, rows_when_empty=False)
