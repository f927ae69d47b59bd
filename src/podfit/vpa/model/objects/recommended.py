"""The recommendation for one container, as parsed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podfit.vpa.model.objects.pods import ResourceList, printed, resource_list


@dataclass(frozen=True, slots=True)
class Recommended:
    container: str
    target: ResourceList
    lower: ResourceList
    upper: ResourceList
    uncapped: ResourceList

    def to_object(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"containerName": self.container, "target": printed(self.target)}
        optional = {"lowerBound": self.lower, "upperBound": self.upper, "uncappedTarget": self.uncapped}
        shown.update({name: printed(values) for name, values in optional.items() if values})
        return shown


def from_object(entry: Mapping[str, Any]) -> Recommended:
    fields = ("target", "lowerBound", "upperBound", "uncappedTarget")
    return Recommended(entry.get("containerName") or "", *(resource_list(entry.get(field)) for field in fields))


def to_object(recommended: list[Recommended]) -> dict[str, Any]:
    """The recommendation as it appears in an object's status; an empty object without containers."""
    return {"containerRecommendations": [entry.to_object() for entry in recommended]} if recommended else {}
