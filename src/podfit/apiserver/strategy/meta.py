"""Validation of metadata, with Kubernetes' wording, and what updates may not change in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from podfit.api.status import FieldError, go_value, invalid, required
from podfit.api.status import field_forbidden as forbidden
from podfit.apiserver.strategy import names

Object = dict[str, Any]
Errors = list[FieldError]
NameCheck = Callable[[str, bool], list[str]]

ANNOTATIONS_LIMIT = 256 * 1024
_STANDARD_FINALIZERS = frozenset(("kubernetes", "foregroundDeletion", "orphan"))
_KEPT_FOR_STATUS = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields")


def validate_create(metadata: Object, namespaced: bool, check_name: NameCheck, path: str = "metadata") -> Errors:
    errors: Errors = []
    base = metadata.get("generateName")
    if base:
        errors.extend(invalid(f"{path}.generateName", base, text) for text in check_name(base, True))
    name = metadata.get("name")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        errors.extend(invalid(f"{path}.name", name, text) for text in check_name(name, False))
    namespace = metadata.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(required(f"{path}.namespace"))
        else:
            errors.extend(invalid(f"{path}.namespace", namespace, text) for text in names.dns_label(namespace))
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    return errors + _common(metadata, path)


def _common(metadata: Object, path: str) -> Errors:
    errors: Errors = []
    generation = metadata.get("generation")
    if generation is not None and generation < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))
    if metadata.get("labels"):
        errors.extend(validate_labels(metadata["labels"], f"{path}.labels"))
    if metadata.get("annotations"):
        errors.extend(validate_annotations(metadata["annotations"], f"{path}.annotations"))
    if metadata.get("ownerReferences"):
        errors.extend(_owner_references(metadata["ownerReferences"], f"{path}.ownerReferences"))
    if metadata.get("finalizers"):
        errors.extend(_finalizers(metadata["finalizers"], f"{path}.finalizers"))
    return errors


def validate_labels(labels: dict[str, str], path: str) -> Errors:
    errors: Errors = []
    for key, value in labels.items():
        errors.extend(invalid(path, key, text) for text in names.qualified_name(key))
        errors.extend(invalid(path, value, text) for text in names.label_value(value))
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> Errors:
    errors: Errors = []
    size = 0
    for key, value in annotations.items():
        errors.extend(invalid(path, key, text) for text in names.qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT:
        errors.append(FieldError("FieldValueTooLong", path, f"may not be more than {ANNOTATIONS_LIMIT} bytes"))
    return errors


def _owner_references(owners: list[Object], path: str) -> Errors:
    errors: Errors = []
    controller = ""
    for at, owner in enumerate(owners):
        here = f"{path}[{at}]"
        group, _, version = (owner.get("apiVersion") or "").rpartition("/")
        if not version:
            errors.append(invalid(f"{here}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        if not owner.get("kind"):
            errors.append(invalid(f"{here}.kind", owner.get("kind", ""), "must not be empty"))
        if not owner.get("name"):
            errors.append(invalid(f"{here}.name", owner.get("name", ""), "must not be empty"))
        if not owner.get("uid"):
            errors.append(invalid(f"{here}.uid", owner.get("uid", ""), "must not be empty"))
        if group in ("", "v1") and owner.get("kind") == "Event":
            errors.append(
                invalid(here, owner, f"{owner.get('apiVersion')}, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller"):
            if controller:
                errors.append(
                    invalid(
                        path,
                        owners,
                        "Only one reference can have Controller set to true. Found "
                        f'"true" in references for {controller} and {owner.get("name")}',
                    )
                )
            else:
                controller = owner.get("name", "")
    return errors


def _finalizers(finalizers: list[str], path: str) -> Errors:
    errors: Errors = []
    for finalizer in finalizers:
        errors.extend(invalid(path, finalizer, text) for text in names.qualified_name(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return errors


def validate_update(new: Object, old: Object, path: str = "metadata") -> Errors:
    """Expects what the verbs fill in from the stored object (uid, creationTimestamp, …) to be there."""
    errors: Errors = []
    if old.get("deletionTimestamp"):
        known = set(old.get("finalizers") or ())
        added = [name for name in new.get("finalizers") or () if name not in known]
        if added:
            shown = " ".join(go_value(name) for name in sorted(added))
            errors.append(
                forbidden(
                    f"{path}.finalizers",
                    f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown.replace(' ', ', ')}}}",
                )
            )
    if not new.get("resourceVersion"):
        errors.append(
            invalid(f"{path}.resourceVersion", new.get("resourceVersion", ""), "must be specified for an update")
        )
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for field in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(field) != old.get(field):
            errors.append(invalid(f"{path}.{field}", new.get(field), "field is immutable"))
    return errors + _common(new, path)


def keep_for_status(new: Object, old: Object) -> None:
    """A status update changes no metadata: labels, annotations and the like keep their stored values."""
    mine = new.setdefault("metadata", {})
    stored = old.get("metadata") or {}
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in stored:
            mine[field] = stored[field]
        else:
            mine.pop(field, None)
