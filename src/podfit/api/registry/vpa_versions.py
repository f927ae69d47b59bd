"""VerticalPodAutoscalers as autoscaling.k8s.io/v1 and as v1alpha1, the version in the autoscaler's design document.

v1alpha1 has every field of v1, under the design's names: `updatePolicy.mode`, `containerPolicies[].name` with mode
`On`, `minRecommended` and `maxRecommended`, and amounts as ResourceRequirements. Only the limits in these amounts have
no counterpart in v1. Those of policies are stored in an annotation of the v1 object, those of the status in the status
itself, which is written without the annotations, so that an object that is read in one version and written in the other
loses nothing.

Used by the API server, and by the admission webhook as a conversion webhook of other API servers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from podfit.api.objects import Object

GROUP, PLURAL, KIND = "autoscaling.k8s.io", "verticalpodautoscalers", "VerticalPodAutoscaler"
V1, V1ALPHA1 = f"{GROUP}/v1", f"{GROUP}/v1alpha1"
NOTE = "podfit.dev/v1alpha1-amounts"
"""The annotation of a v1 object with the v1alpha1-only parts of policies, by container and field."""
AMOUNTS = "v1alpha1Amounts"
"""The field of a v1 recommendation with the v1alpha1-only parts, by field."""
_NAMES = {"containerName": "name"}
_UPDATE = {"updateMode": "mode"}
_SIZES = {**_NAMES, "lowerBound": "minRecommended", "upperBound": "maxRecommended"}
_ALLOWED = ("minAllowed", "maxAllowed")
_RECOMMENDED = ("target", "minRecommended", "maxRecommended", "uncappedTarget")
_REQUESTS = "requests"

Entry = Callable[[Object, str], Object]
"""Converts one entry of a list; its second argument identifies the entry within the object."""


class UnknownVersion(ValueError):
    """The version of an object, or the requested one, is neither v1 nor v1alpha1."""


def convert(obj: Object, api_version: str) -> Object:
    """The object in another version; the argument is not modified. Raises UnknownVersion."""
    given = obj.get("apiVersion")
    if given not in (V1, V1ALPHA1) or api_version not in (V1, V1ALPHA1):
        raise UnknownVersion(f"cannot convert {given} to {api_version}")
    if given == api_version:
        return obj
    return to_v1(obj) if api_version == V1 else to_v1alpha1(obj)


def to_v1(obj: Object) -> Object:
    note = _note(obj)

    def policy(entry: Object, where: str) -> Object:
        made, rest = _requests(entry, _ALLOWED)
        note.update({f"{where}/{field}": value for field, value in rest.items()})
        return _renamed({**made, "mode": "Auto"} if made.get("mode") == "On" else made, _back(_NAMES))

    def size(entry: Object, where: str) -> Object:
        made, rest = _requests(entry, _RECOMMENDED)
        return {**_renamed(made, _back(_SIZES)), **({AMOUNTS: rest} if rest else {})}

    made = _with_entries(obj, "name", policy, size)
    return _noted({**_with_update(made, _back(_UPDATE)), "apiVersion": V1}, note)


def to_v1alpha1(obj: Object) -> Object:
    note = _note(obj)

    def policy(entry: Object, where: str) -> Object:
        made = _renamed(entry, _NAMES)
        given = [field for field in _ALLOWED if isinstance(made.get(field), dict)]
        kept = {field: note.pop(f"{where}/{field}", None) for field in given}
        return _requirements({**made, "mode": "On"} if made.get("mode") == "Auto" else made, kept)

    def size(entry: Object, where: str) -> Object:
        made = _renamed(entry, _SIZES)
        rest = made.pop(AMOUNTS, None) or {}
        return _requirements(made, {field: rest.get(field) for field in _RECOMMENDED})

    made = _with_entries(obj, "containerName", policy, size)
    return _noted({**_with_update(made, _UPDATE), "apiVersion": V1ALPHA1}, note)


def _requests(entry: Object, fields: Iterable[str]) -> tuple[Object, dict[str, Object]]:
    """The entry with bare requests in these fields, and the rest of their contents."""
    made, rest = dict(entry), {}
    for field in fields:
        given = entry.get(field)
        if isinstance(given, dict):
            made[field] = given.get(_REQUESTS) or {}
            if given != {_REQUESTS: made[field]}:
                rest[field] = {key: value for key, value in given.items() if key != _REQUESTS or not value}
    return made, rest


def _requirements(entry: Object, rest: Mapping[str, Object | None]) -> Object:
    """The entry with ResourceRequirements in these fields, built from its requests and the saved rest."""
    made = dict(entry)
    for field, kept in rest.items():
        if isinstance(given := entry.get(field), dict):
            made[field] = {**(kept or {}), **({_REQUESTS: given} if given or kept is None else {})}
    return made


def _with_entries(obj: Object, name: str, policy: Entry, size: Entry) -> Object:
    """The object with its container policies and recommendations converted."""
    made = _inside(obj, ("spec", "resourcePolicy"), lambda held: _listed(held, "containerPolicies", name, policy))
    return _inside(
        made, ("status", "recommendation"), lambda held: _listed(held, "containerRecommendations", name, size)
    )


def _with_update(obj: Object, names: dict[str, str]) -> Object:
    return _inside(obj, ("spec", "updatePolicy"), lambda policy: _renamed(policy, names))


def _listed(holder: Object, field: str, name: str, entry: Entry) -> Object:
    rows = holder.get(field)
    if not isinstance(rows, list):
        return holder
    seen: Counter[str] = Counter()
    made = []
    for row in rows:
        # Two entries for one container are distinguished by their order.
        named = str(row.get(name) or "")
        made.append(entry(row, f"{field}/{named}/{seen[named]}"))
        seen[named] += 1
    return {**holder, field: made}


def _inside(obj: Object, path: tuple[str, str], change: Callable[[Object], Object]) -> Object:
    outer = obj.get(path[0])
    inner = outer.get(path[1]) if isinstance(outer, dict) else None
    if not isinstance(inner, dict):
        return obj
    assert isinstance(outer, dict)
    return {**obj, path[0]: {**outer, path[1]: change(inner)}}


def _renamed(holder: Object, names: dict[str, str]) -> Object:
    return {names.get(key, key): value for key, value in holder.items()}


def _back(names: dict[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _note(obj: Object) -> dict[str, Any]:
    """The parsed annotation; empty for a value that podfit did not write."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(NOTE)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    if isinstance(found, dict) and all(isinstance(value, dict) for value in found.values()):
        return found
    return {}


def _noted(obj: Object, note: dict[str, Any]) -> Object:
    meta = obj.get("metadata") or {}
    standing = meta.get("annotations") or {}
    wanted = json.dumps(note, sort_keys=True, separators=(",", ":")) if note else None
    if standing.get(NOTE) == wanted or (wanted is None and not _note(obj)):
        return obj
    others = {key: value for key, value in standing.items() if key != NOTE}
    made = {**others, **({NOTE: wanted} if wanted else {})}
    rest = {key: value for key, value in meta.items() if key != "annotations"}
    return {**obj, "metadata": {**rest, **({"annotations": made} if made else {})}}
