"""Server-side apply and field ownership.

`apply_patch` merges an applied configuration into a live object; `track_update` records the changes of any other write.
Both set the owners in `metadata.managedFields` of the object they return or were given.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from podfit.api.objects import Object
from podfit.api.patches.apply import fieldset, managers, outlines, typed
from podfit.api.patches.apply.check import complaints
from podfit.api.patches.apply.fieldset import FieldSet
from podfit.api.patches.apply.managers import APPLY, UPDATE, Identity, Owner, Owners, identity, manager_name
from podfit.api.schema.types import Struct
from podfit.api.schema.zeros import zero_of
from podfit.api.status import ApiError, bad_request
from podfit.api.text.gojson import GoSyntaxError, parse

__all__ = ["ResetFields", "apply_patch", "check_applied", "manager_name", "read_applied", "track_update"]

_NEVER_OWNED = fieldset.patterns(
    (
        *((name,) for name in ("apiVersion", "kind")),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    )
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ResetFields:
    """Fields that an endpoint resets: it does not write them, so no manager can own them through it. `*` matches any
    list item or key.

    With `keep_only`, `paths` are the only fields that the endpoint writes.
    """

    __slots__ = ("_keep_only", "_parts", "_places")

    def __init__(self, paths: tuple[tuple[str, ...], ...] = (), keep_only: bool = False) -> None:
        self._places, self._keep_only = fieldset.patterns(paths), keep_only
        self._parts = frozenset(path[0] for path in paths)

    def restricted(self, obj: Object) -> Object:
        """The object, or the parts of it that can contain a field written by the endpoint."""
        return {name: obj[name] for name in self._parts if name in obj} if self._keep_only else obj

    def filtered(self, fields: FieldSet) -> FieldSet:
        if not fields:
            return fields
        if self._keep_only:
            return fieldset.only(fields, self._places)
        return fieldset.without(fields, self._places) if self._places else fields


_NO_RESET = ResetFields()


def track_update(
    live: Object | None,
    new: Object,
    struct: Struct,
    manager: str,
    operation: str,
    now: datetime | str,
    subresource: str = "",
    reset_fields: ResetFields | None = None,
) -> None:
    """Records in `new` that the manager created it (no live object), or changed what differs from the live one.

    The operation is `Update` for every write that is not an apply. `new["metadata"]` gets the owners; the rest of `new`
    and all of `live` are only read.
    """
    metadata = new.setdefault("metadata", {})
    entries = _entries_for_update(live, metadata.get("managedFields"), subresource)
    version = new.get("apiVersion", "")
    who = identity(manager, operation, version, subresource)
    if live is None:
        touched = outlines.memoized(struct, reset_fields, new, lambda: _of_created(new, struct, reset_fields))
        _put(metadata, {who: Owner(touched, version, managers.stamp(now))})
        return
    owners: Owners = {}
    if entries:
        touched, removed = _compared(live, new, struct, reset_fields)
        if not removed:
            kept = managers.renewed(entries, who, touched, managers.stamp(now))
            if kept is not None:
                metadata["managedFields"] = kept
                return
        owners = managers.read(entries)
        if owners:
            _record(owners, touched, removed, who, version, now)
            managers.cap(owners)
    _put(metadata, owners)


def _of_created(new: Object, struct: Struct, reset: ResetFields | None) -> FieldSet:
    return fieldset.in_order(_compared(_fresh(struct), new, struct, reset)[0])


def _fresh(struct: Struct) -> Object:
    """The base for comparing a created object: fields that every object has belong to no manager."""
    fresh = struct.cache.get("fresh")
    if fresh is None:
        fresh = struct.cache["fresh"] = {"metadata": {}} if "custom" in struct.cache else zero_of(struct)
    return fresh  # type: ignore[no-any-return]


def _entries_for_update(live: Object | None, sent: Any, subresource: str) -> Any:
    """The effective entries: those stored, unless an update of the object itself sends other valid ones."""
    if live is None:
        return None
    stored = live.get("metadata", {}).get("managedFields")
    if subresource or sent == stored:
        return stored
    if managers.is_reset(sent):
        return None
    return managers.in_order(sent) if managers.makes_sense(sent) and managers.read(sent) else stored


def _put(metadata: Object, owners: Owners) -> None:
    entries = managers.write(owners)
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def _compared(old: Object, new: Object, struct: Struct, reset: ResetFields | None) -> tuple[FieldSet, FieldSet]:
    """Fields set or changed, and fields removed, without those that are never owned."""
    reset = reset or _NO_RESET
    touched, removed = typed.compare(reset.restricted(old), reset.restricted(new), struct)
    return reset.filtered(owned(touched)), reset.filtered(owned(removed))


def owned(fields: FieldSet) -> FieldSet:
    """The set without fields that have no owner: identity and bookkeeping."""
    if not fields:
        return fields
    out = fieldset.without(fields, _NEVER_OWNED)
    metadata = out.get("f:metadata")
    if metadata is None:
        return out
    metadata = {element: node for element, node in metadata.items() if element != fieldset.SELF}
    if metadata:
        return {**out, "f:metadata": metadata}
    del out["f:metadata"]
    return out


def _record(
    owners: Owners, touched: FieldSet, removed: FieldSet, who: Identity, version: str, now: datetime | str
) -> None:
    """Records that a manager set or changed the fields `touched`, and removed the fields `removed`."""
    _take_away(owners, touched, removed)
    if not touched:
        return
    mine = owners.get(who)
    fields = touched if mine is None else fieldset.union(mine.fields, touched)
    owners[who] = Owner(fieldset.in_order(fields), version, managers.stamp(now))


def _take_away(owners: Owners, touched: FieldSet, removed: FieldSet, but: Identity | None = None) -> None:
    gone = fieldset.union(touched, removed)
    if not gone:
        return
    for who, owner in list(owners.items()):
        fields = fieldset.difference(owner.fields, removed if who == but else gone)
        if not fields:
            del owners[who]
        elif fields is not owner.fields:
            owners[who] = Owner(fields, owner.version, owner.time)


def read_applied(value: Any, api_version: str, kind: str) -> Object:
    """Checks the applied configuration before it is merged; rejects input that is not an object of the kind."""
    said = tuple(_text(value, name) for name in ("apiVersion", "kind"))
    if said != (api_version, kind):
        group, _, version = said[0].rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={said[1]}")
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    return value  # type: ignore[no-any-return]


def _text(value: Any, name: str) -> str:
    """The text of a field; a value that is not a string counts as not set."""
    word = value.get(name) if isinstance(value, dict) else None
    return word if isinstance(word, str) else ""


def apply_patch(
    live: Object | None,
    applied: Object,
    struct: Struct,
    manager: str,
    force: bool,
    now: datetime | str,
    subresource: str = "",
    reset_fields: ResetFields | None = None,
) -> Object:
    """The live object (or a new one) with the configuration applied, or `live` itself if nothing changes.

    Raises 409 if others own fields that it would change, unless forced. The result is not converted to its type:
    callers convert and default it like any patched object.
    """
    check_applied(applied, struct)
    owners = managers.read((live or {}).get("metadata", {}).get("managedFields"))
    base = live if live is not None else {}
    version = applied.get("apiVersion", "")
    if live is not None and not owners:
        first = identity(managers.BEFORE_FIRST_APPLY, UPDATE, version)
        touched, _ = _compared(_fresh(struct), live, struct, None)
        _record(owners, touched, {}, first, live.get("apiVersion", ""), now)
    who = identity(manager, APPLY, version, subresource)
    result = _applied(base, applied, struct, owners, who, force, now, reset_fields)
    return _with_last_applied(result, applied) if manager == "kubectl" and live is not None else result


def check_applied(applied: Object, struct: Struct) -> None:
    """Rejects a configuration that does not match the type."""
    problems = complaints(applied, struct)
    if not problems:
        return
    text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
    raise ApiError(500, "", f"failed to create typed patch object ({_identified(applied)}): {text}")


def not_converted(applied: Object, why: str) -> ApiError:
    """500: the merged object matches the schema, but not the Go type: an invalid quantity, for example."""
    what = f"unable to convert unstructured object to {_go_kind(applied)}: {why}"
    return ApiError(500, "", f"failed to convert new object ({_identified(applied)}) to proper version: {what}")


def _identified(applied: Object) -> str:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    named = (metadata.get(field) for field in ("namespace", "name"))
    return "/".join(text if isinstance(text, str) else "" for text in named) + f"; {_go_kind(applied)}"


def _go_kind(applied: Object) -> str:
    group, _, version = applied.get("apiVersion", "").rpartition("/")
    return f"{group}/{version}, Kind={applied.get('kind', '')}"


def _applied(
    live: Object,
    applied: Object,
    struct: Struct,
    owners: Owners,
    who: Identity,
    force: bool,
    now: datetime | str,
    reset: ResetFields | None,
) -> Object:
    before = dict(owners)
    last = owners.get(who)
    claimed = fieldset.in_order((reset or _NO_RESET).filtered(owned(typed.applied_set(applied, struct))))
    owners[who] = Owner(claimed, applied.get("apiVersion", ""), last.time if last else None)
    merged = _pruned(typed.merge(live, applied, struct), struct, last, owners)
    touched, removed = _compared(live, merged, struct, reset)
    if not force:
        _refuse_conflicts(live, owners, who, touched, struct)
    _take_away(owners, touched, removed, who)
    if not claimed:
        owners.pop(who, None)
    changed = merged != live
    if not changed and _same_owners(before, owners):
        return live
    if changed and who in owners:
        owners[who].time = managers.stamp(now)
    merged = {**merged, "metadata": dict(merged.get("metadata") or {})}
    _put(merged["metadata"], owners)
    return merged


def _pruned(merged: Object, struct: Struct, last: Owner | None, owners: Owners) -> Object:
    """The merged object without the fields that the manager applied last time and no manager owns now."""
    if last is None:
        return merged
    # The object keeps its metadata, even if no manager names it any more.
    everyone: FieldSet = {"f:metadata": {}}
    for owner in owners.values():
        everyone = fieldset.union(everyone, owner.fields)
    pruned: Object = typed.prune(merged, struct, last.fields, everyone)
    return pruned


def _same_owners(left: Owners, right: Owners) -> bool:
    return left.keys() == right.keys() and all(left[who].fields == right[who].fields for who in left)


def _refuse_conflicts(live: Object, owners: Owners, who: Identity, touched: FieldSet, struct: Struct) -> None:
    found: list[tuple[Identity, tuple[str, ...]]] = []
    allowed = _from_last_applied(live, struct) if who.name == "kubectl" else {}
    for other, owner in owners.items():
        if other != who:
            both = fieldset.difference(fieldset.intersection(owner.fields, touched), allowed)
            found += [(other, path) for path in fieldset.members(both)]
    if found:
        raise conflict_error(found)


def conflict_error(found: list[tuple[Identity, tuple[str, ...]]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": fieldset.path_text(path)}
        for who, path in found
    ]
    if len(found) == 1:
        text = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {causes[0]['field']}"
    else:
        lines = []
        for who in sorted({who for who, _ in found}, key=lambda who: (who.name, who.operation, who.version)):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {fieldset.path_text(path)}" for other, path in found if other == who]
        text = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, {"causes": causes})


def _from_last_applied(live: Object, struct: Struct) -> FieldSet:
    """Fields that client-side apply set last: `kubectl apply --server-side` may take them over."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        value = parse(text.encode()) if text else None
    except GoSyntaxError:
        return {}
    if not isinstance(value, dict) or complaints(value, struct):
        return {}
    claimed = owned(typed.applied_set(value, struct))
    same = typed.compare(value, live, struct)[0]
    return fieldset.difference(claimed, same)


def _with_last_applied(result: Object, applied: Object) -> Object:
    """Updates the annotation of client-side apply, if there is one, so that the client can switch back to it."""
    annotations = (result.get("metadata") or {}).get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return result
    text = json.dumps(applied, separators=(",", ":"), ensure_ascii=False, sort_keys=True) + "\n"
    if annotations[_LAST_APPLIED] == text:
        return result
    return {**result, "metadata": {**result["metadata"], "annotations": {**annotations, _LAST_APPLIED: text}}}
