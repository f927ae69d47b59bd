"""The roles and bindings that Kubernetes 1.36 creates at its first start, as data, merged with podfit's own.

A role that is defined by both has the permissions of both. Roles with an aggregation rule have no rules here: the
server collects them from the roles that they select.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from podfit.api.objects import Object
from podfit.apiserver.auth.roles.role_update import completed


def merged(kind: str, own: list[Object]) -> list[Object]:
    """All objects of a kind, those of Kubernetes first."""
    mine = {_name(obj): obj for obj in own}
    found = []
    for obj in _kubernetes(kind):
        wanted = mine.pop(_name(obj), None)
        found.append(obj if wanted is None else completed(obj, wanted) or obj)
    return [*found, *mine.values()]


def _name(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _kubernetes(kind: str) -> list[Object]:
    text = Path(__file__).parents[2].joinpath("definitions", "roles.json").read_bytes()
    rows: list[Object] = msgspec.json.decode(text)
    return [obj for obj in rows if obj["kind"] == kind]
