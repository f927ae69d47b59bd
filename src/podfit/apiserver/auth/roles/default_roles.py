"""The roles and bindings that Kubernetes 1.36 creates at its first start, as data, merged with podfit's own.

A role defined by both has the permissions of both; so does a binding with its subjects.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec

from podfit.api.objects import Object
from podfit.apiserver.auth.roles.role_update import completed


def merged(kind: str, own: list[Object]) -> list[Object]:
    """All objects of a kind, those of Kubernetes first."""
    mine = {_name(obj): obj for obj in own}
    found = []
    for obj in _kubernetes(kind):
        wanted = mine.pop(_name(obj), None)
        if wanted is not None and "aggregationRule" in obj:
            # The server aggregates its rules; until then it has those of podfit's own.
            obj["rules"] = wanted["rules"]
        elif wanted is not None:
            obj = completed(obj, wanted) or obj
        found.append(obj)
    return [*found, *mine.values()]


def _name(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _kubernetes(kind: str) -> list[Object]:
    text = files("podfit.apiserver").joinpath("definitions", "roles.json").read_bytes()
    rows: list[Object] = msgspec.json.decode(text)
    return [obj for obj in rows if obj["kind"] == kind]
