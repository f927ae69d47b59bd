"""Validates metadata with Kubernetes' messages, enforces its immutable fields, and removes duplicate owner
references."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import FieldError, go_quote, invalid, required, too_long
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.checks import IMMUTABLE, NOT_NEGATIVE, equal, labels

Errors = list[FieldError]
NameCheck = Callable[[str, bool], list[str]]

ANNOTATIONS_LIMIT = 256 * 1024
STANDARD_FINALIZERS = frozenset(("kubernetes", "foregroundDeletion", "orphan"))
_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_TEXTS = ("name", "namespace", "uid")
_CONTENTS = frozenset(("labels", "annotations", "ownerReferences"))
_CHECKED = frozenset((*_FIXED, *_CONTENTS, "generateName", "finalizers"))
_RESET_FOR_STATUS = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def validate_object(
    metadata: Object, namespaced: bool, check_name: NameCheck, strict_finalizers: bool = True
) -> Errors:
    """Validates metadata, on create and on every update."""
    errors: Errors = []
    base = metadata.get("generateName")
    if base:
        errors.extend(invalid("metadata.generateName", base, text) for text in check_name(base, True))
    name = metadata.get("name")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        for text in check_name(name, False):
            errors.append(invalid("metadata.name", name, text))
    namespace = metadata.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(required("metadata.namespace"))
        else:
            for text in names.dns_label(namespace):
                errors.append(invalid("metadata.namespace", namespace, text))
    elif namespace:
        errors.append(forbidden("metadata.namespace", "not allowed on this type"))
    generation = metadata.get("generation")
    if generation is not None and generation < 0:
        errors.append(invalid("metadata.generation", generation, NOT_NEGATIVE))
    _contents(metadata, errors)
    if metadata.get("finalizers"):
        _finalizers(metadata["finalizers"], strict_finalizers, errors)
    return errors


def _contents(metadata: Object, errors: Errors) -> None:
    if _CONTENTS.isdisjoint(metadata):
        return
    if metadata.get("labels"):
        labels(metadata["labels"], "metadata.labels", errors)
    if metadata.get("annotations"):
        validate_annotations(metadata["annotations"], "metadata.annotations", errors)
    if metadata.get("ownerReferences"):
        _owner_references(metadata["ownerReferences"], "metadata.ownerReferences", errors)


def validate_annotations(annotations: dict[str, str], path: str, errors: Errors) -> None:
    size = 0
    for key, value in annotations.items():
        errors.extend(invalid(path, key, text) for text in names.qualified_name(key.lower()))
        size += len(key) + len(value)
    if size > ANNOTATIONS_LIMIT // 4:
        # Bytes are counted only for texts that are long enough to exceed the limit.
        exact = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if exact > ANNOTATIONS_LIMIT:
            errors.append(too_long(path, ANNOTATIONS_LIMIT))


def _owner_references(owners: list[Object], path: str, errors: Errors) -> None:
    """Validates owner references. As in Kubernetes, errors do not identify the owner."""
    controller = ""
    for owner in owners:
        api_version = owner.get("apiVersion") or ""
        group, _, version = api_version.rpartition("/") if api_version.count("/") < 2 else ("", "", "")
        if not version:
            errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                errors.append(invalid(f"{path}.{field}", owner.get(field) or "", "must not be empty"))
        if not group and owner.get("kind") == "Event":
            detail = f"/{version}, Kind=Event is disallowed from being an owner"
            errors.append(invalid(path, _as_go(owner), detail))
        if owner.get("controller"):
            name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {name}"
                )
                errors.append(invalid(path, list(map(_as_go, owners)), detail))
            controller = controller or name


def _as_go(owner: Object) -> Object:
    """An owner reference with its fields in the order of Kubernetes' messages."""
    said = {field: owner.get(field) or "" for field in ("apiVersion", "kind", "name", "uid")}
    return said | {
        field: owner[field] for field in ("controller", "blockOwnerDeletion") if owner.get(field) is not None
    }


def _finalizers(finalizers: list[str], strict: bool, errors: Errors) -> None:
    for finalizer in finalizers:
        errors.extend(invalid("metadata.finalizers", finalizer, text) for text in names.qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", finalizers, detail))
    if strict:
        finalizer_names(finalizers, errors)


def finalizer_names(finalizers: Iterable[str], errors: Errors) -> None:
    for at, finalizer in enumerate(finalizers):
        finalizer_name(finalizer, f"metadata.finalizers[{at}]", errors)


def finalizer_name(finalizer: str, path: str, errors: Errors) -> None:
    """Validates a finalizer of a built-in kind: a qualified name, or one of the known short names."""
    if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
        detail = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(path, finalizer, detail))


def validate_update(new: Object, old: Object) -> Errors:
    """Validates an update of metadata. Call `carry_over` first."""
    errors: Errors = []
    if old.get("deletionTimestamp") and new.get("finalizers"):
        added = sorted(set(new["finalizers"]) - set(old.get("finalizers") or ()))
        if added:
            detail = (
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
                + ", ".join(map(go_quote, added))
                + "}"
            )
            errors.append(forbidden("metadata.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid("metadata.generation", new.get("generation") or 0, "must not be decremented"))
    for field in _FIXED:
        mine, before = new.get(field), old.get(field)
        if field in _TEXTS:
            mine, before = mine or "", before or ""
        if mine != before:
            errors.append(invalid(f"metadata.{field}", mine, IMMUTABLE))
    _contents(new, errors)
    return errors


def untouched(new: Object, old: Object) -> bool:
    """Whether an update changes no validated metadata, which was valid when it was written. Call `carry_over` first."""
    if not new.get("resourceVersion") or (new.get("generation") or 0) < (old.get("generation") or 0):
        return False
    if new.keys() != old.keys():
        return False
    others = [field for field, mine in new.items() if mine is not old[field]]
    return all(field not in _CHECKED or new[field] == old[field] for field in others)


def carry_over(new: Object, old: Object) -> None:
    """Copies metadata that an update may omit and cannot change from the stored object. The arguments are whole
    objects."""
    mine, stored = new.setdefault("metadata", {}), old.get("metadata") or {}
    if not mine.get("uid") and "uid" in stored:
        mine["uid"] = stored["uid"]
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if stored.get(field) is not None:
            mine[field] = stored[field]


def copied(value: Any) -> Any:
    """A deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def keep(new: Object, old: Object, *fields: str) -> None:
    """Restores the stored values of fields, or removes the fields if the stored object has none. Unchanged values are
    not written, because `new` may be shared with the stored object."""
    for field in fields:
        if field in old:
            if new.get(field) is not old[field]:
                new[field] = old[field]
        elif field in new:
            del new[field]


def reset_for_status(new: Object, old: Object) -> None:
    """Restores all metadata except managedFields, for a strict status endpoint."""
    keep(new.setdefault("metadata", {}), old.get("metadata") or {}, *_RESET_FOR_STATUS)


_REPEATED_OWNERS = (
    "; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your "
    "requests; duplicate UID(s) observed: "
)


def unique_owners(metadata: Object, *, admitted: bool = False) -> list[str]:
    """Removes duplicate owner references, in place. Returns the warning if there were any.

    `admitted`: after admission.
    """
    owners = metadata.get("ownerReferences") or ()
    if len(owners) < 2:
        return []
    kept: list[Object] = []
    repeated = []
    for owner in owners:
        if any(equal(owner, reference) for reference in kept):
            repeated.append(owner.get("uid") or "")
        else:
            kept.append(owner)
    if not repeated:
        return []
    metadata["ownerReferences"] = kept
    when = " after mutating admission happens" if admitted else ""
    return [f".metadata.ownerReferences contains duplicate entries{when}{_REPEATED_OWNERS}{', '.join(repeated)}"]
