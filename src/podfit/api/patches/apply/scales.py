"""Translates ownership of the replicas field between an object and its Scale.

A Scale has one field of the object: an owner of the object's replicas owns `spec.replicas` of its Scale, and a manager
that loses or gains one loses or gains the other. Entries that come from a Scale have no time, as in Kubernetes.
"""

from __future__ import annotations

from typing import Any

from podfit.api.patches.apply import fieldset, managers
from podfit.api.patches.apply.fieldset import FieldSet
from podfit.api.patches.apply.managers import Identity, Owner, Owners, identity

SCALE_VERSION = "autoscaling/v1"
_IN_SCALE: FieldSet = {"f:spec": {"f:replicas": {}}}
Entries = list[dict[str, Any]]


def narrowed(entries: Any, path: tuple[str, ...]) -> Entries:
    """The managed fields of a Scale, from those of its object, whose replicas are at `path`."""
    owners: Owners = {}
    for who, owner in managers.read(entries).items():
        if _has(owner.fields, path):
            owners[_of(who, SCALE_VERSION)] = Owner(_IN_SCALE, SCALE_VERSION, owner.time)
    return managers.write(owners)


def widened(entries: Any, scale_entries: Any, path: tuple[str, ...], api_version: str) -> Entries:
    """The managed fields of the object, after those of its Scale became `scale_entries`."""
    owning = {
        _of(who, "")
        for who, owner in managers.read(scale_entries).items()
        if fieldset.intersection(owner.fields, _IN_SCALE)
    }
    mine, owners = _set_of(path), Owners()
    for who, owner in managers.read(entries).items():
        if not _has(owner.fields, path):
            owners[who] = owner
        elif _of(who, "") in owning:
            owners[who] = owner
            owning.discard(_of(who, ""))
        elif left := fieldset.difference(owner.fields, mine):
            owners[who] = Owner(left, owner.version, owner.time)
    for who in owning:
        owners[_of(who, api_version)] = Owner(mine, api_version)
    return managers.write(owners)


def _of(who: Identity, version: str) -> Identity:
    return identity(who.name, who.operation, version, who.subresource)


def _has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    return bool(fieldset.intersection(fields, _set_of(path)))


def _set_of(path: tuple[str, ...]) -> FieldSet:
    made: FieldSet = {}
    for part in reversed(path):
        made = {f"f:{part}": made}
    return made
