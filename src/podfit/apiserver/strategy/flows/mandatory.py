"""The default flow schemas and priority levels, including the mandatory ones with immutable specs, and how the server
keeps them up to date, like kube-apiserver. Pure.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from podfit.api.objects import Object
from podfit.apiserver.strategy.checks import equal

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_TRUE = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE = frozenset(("0", "f", "F", "false", "False", "FALSE"))
MANDATORY = ("exempt", "catch-all")
"""Names of the schemas and levels that ensure that every request has a level."""


@cache
def defaults() -> list[Object]:
    """The default objects as Kubernetes 1.36 creates them at its first start."""
    found: list[Object] = msgspec.json.decode(
        Path(__file__).parents[2].joinpath("definitions", "flow_control.json").read_bytes()
    )
    return found


def mandatory_spec(kind: str, name: str) -> Object | None:
    if name not in MANDATORY:
        return None
    found: Object = next(obj["spec"] for obj in defaults() if obj["kind"] == kind and obj["metadata"]["name"] == name)
    return found


def revised(found: Object, wanted: Object) -> Object | None:
    """`found` with the default spec and annotation; None if it needs no change.

    Administrators set the annotation to false to keep a spec of their own. Without the annotation, an object with a
    changed spec counts as theirs.
    """
    meta = found["metadata"]
    noted = _auto_update(meta)
    follows = meta["name"] in MANDATORY or (meta.get("generation", 1) == 1 if noted is None else noted)
    spec = _spec_of(found, wanted) if follows else found.get("spec")
    if noted is follows and equal(found.get("spec"), spec):
        return None
    notes = {**(meta.get("annotations") or {}), AUTO_UPDATE: str(follows).lower()}
    generation = meta.get("generation", 1) + (not equal(found.get("spec"), spec))
    return {**found, "metadata": {**meta, "annotations": notes, "generation": generation}, "spec": spec}


def is_unwanted(obj: Object) -> bool:
    """Whether the object is a default of another version and must be deleted."""
    known = {(default["kind"], default["metadata"]["name"]) for default in defaults()}
    return _auto_update(obj["metadata"]) is True and (obj["kind"], obj["metadata"]["name"]) not in known


def _spec_of(found: Object, wanted: Object) -> Object:
    """The spec to write: keeps the number of seats that the exempt level lends, which administrators may set."""
    spec: Object = wanted["spec"]
    mine = (found.get("spec") or {}).get("exempt")
    return spec if "exempt" not in spec or mine is None else {**spec, "exempt": mine}


def _auto_update(meta: Object) -> bool | None:
    note = (meta.get("annotations") or {}).get(AUTO_UPDATE)
    return True if note in _TRUE else False if note in _FALSE else None
