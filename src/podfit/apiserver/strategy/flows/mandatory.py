"""Flow schemas and priority levels that every cluster has, and those among them whose spec is immutable."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from podfit.api.objects import Object

MANDATORY = ("exempt", "catch-all")
"""Names of the schemas and levels that ensure that every request has a level."""


@cache
def defaults() -> list[Object]:
    """All of them as Kubernetes 1.36 creates them at its first start."""
    found: list[Object] = msgspec.json.decode(
        files("podfit.apiserver").joinpath("definitions", "flow_control.json").read_bytes()
    )
    return found


def mandatory_spec(kind: str, name: str) -> Object | None:
    if name not in MANDATORY:
        return None
    found: Object = next(obj["spec"] for obj in defaults() if obj["kind"] == kind and obj["metadata"]["name"] == name)
    return found
