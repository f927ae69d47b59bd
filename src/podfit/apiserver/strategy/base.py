"""The default strategy, which those of all kinds extend, with the hooks that writes call.

A strategy modifies objects in place and returns field errors or warnings; it never reads the store or the clock.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import FieldError
from podfit.api.text import names
from podfit.apiserver.strategy import checks, meta

Errors = list[FieldError]

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED = 63
_SUFFIX_LENGTH = 5


@dataclass(frozen=True)
class Deletion:
    """The next step of a delete: `graceful` — the modified object must be written; `pending` — a deletion is already in
    progress and nothing changes; neither — the object is removed now (or marked, if it has finalizers)."""

    graceful: bool = False
    pending: bool = False
    grace_s: int = 0


class Strategy:
    """The default strategy. Subclasses override what differs. `subresource` is "" for the object itself."""

    has_generation: ClassVar[bool] = True
    """Whether metadata.generation counts changes of the spec."""
    has_status: ClassVar[bool] = True
    """Whether status is a subresource: dropped on create, kept on an update of the object."""
    create_on_update: ClassVar[bool] = False
    unconditional_update: ClassVar[bool] = True
    """Whether an update without resourceVersion applies to the newest version."""
    changes_first: ClassVar[bool] = False
    """Whether errors about changes come before those about the new object."""
    counters: ClassVar[tuple[str, ...]] = ()
    """Numbers in the status that are shown even if they are zero."""
    strict_finalizers: ClassVar[bool] = True
    """Whether unqualified finalizers must be known ones."""
    update_checks: ClassVar[str] = "cw"
    """How a kind's own validation checks metadata on an update, after the checks common to all kinds: `c` its changes,
    `w` all of it. Each one reports the same errors again, as in Kubernetes; "" leaves it to the common checks."""
    status_checks: ClassVar[str] = "c"
    """The same for an update of the status."""
    shared_subresources: ClassVar[frozenset[str]] = frozenset()
    """Subresources that change so little that a patched object shares the rest with the stored one."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    # --- defaulting -----------------------------------------------------------------------------------------------

    def default(self, obj: Object) -> None:
        """Sets the scheme's defaults, in place."""

    def own_changes(self, new: Object, old: Object) -> bool:
        """For `shared_subresources`: copies those parts of a patched object that will be modified in place, because it
        shares parts with the stored object. Returns whether there is anything to default.

        By default all parts are copied; a kind may override this to copy fewer.
        """
        new.update(meta.copied(new))
        return True

    # --- create ---------------------------------------------------------------------------------------------------

    def prepare_create(self, obj: Object) -> None:
        if self.has_status:
            self.reset_status(obj)
        if self.has_generation:
            obj.setdefault("metadata", {})["generation"] = 1
        else:
            # Kinds without a generation keep the client's value.
            metadata = obj.setdefault("metadata", {})
            if not metadata.get("generation"):
                metadata.pop("generation", None)

    def reset_status(self, obj: Object) -> None:
        """The status of a new object: empty except for counters that are always shown."""
        obj["status"] = dict.fromkeys(self.counters, 0)

    def validate_create(self, obj: Object) -> Errors:
        metadata = obj.get("metadata") or {}
        if not self.update_checks:
            # Kinds that leave metadata to the common checks run them only if there are no other errors.
            return self.validate(obj) or self._common(metadata)
        errors = self._whole(metadata)
        errors.extend(self.validate(obj))
        return errors

    def _whole(self, metadata: Object) -> Errors:
        return meta.validate_object(metadata, self.kind.namespaced, self.validate_name, self.strict_finalizers)

    def _common(self, metadata: Object) -> Errors:
        return meta.validate_object(metadata, self.kind.namespaced, names.path_segment, False)

    def validate(self, obj: Object) -> Errors:
        """Validates everything but the metadata, in the same way on create and on update."""
        return []

    def rewrite(self, obj: Object) -> list[str]:
        """Replaces older ways to state a field of a new object, before `prepare_create`; returns warnings about it."""
        return []

    def warnings_create(self, obj: Object) -> list[str]:
        return []

    # --- update ---------------------------------------------------------------------------------------------------

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        """Reverts changes that this endpoint does not allow, increments the generation, restores immutable metadata."""
        if subresource == "status":
            self.keep_all_but_status(new, old)
        elif self.has_status:
            meta.keep(new, old, "status")
        self.count_generation(new, old)
        meta.carry_over(new, old)

    def keep_all_but_status(self, new: Object, old: Object) -> None:
        meta.keep(new, old, "spec")

    def count_generation(self, new: Object, old: Object) -> None:
        generation = (old.get("metadata") or {}).get("generation", 0)
        if self.has_generation and self.spec_changed(new, old):
            generation += 1
        if generation:
            new.setdefault("metadata", {})["generation"] = generation
        else:
            new.setdefault("metadata", {}).pop("generation", None)

    def spec_changed(self, new: Object, old: Object) -> bool:
        return not checks.equal(new.get("spec"), old.get("spec"))

    def heavy(self, obj: Object) -> bool:
        """Whether validation takes too long for the event loop."""
        return False

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if subresource == "status":
            errors.extend(self.validate_status(new, old))
        else:
            steps = [self.validate(new), self.validate_change(new, old)]
            for found in reversed(steps) if self.changes_first else steps:
                errors.extend(found)
        return errors

    def validate_update_meta(self, new: Object, old: Object, subresource: str = "") -> Errors:
        """Validates the metadata in an update. Kubernetes checks it for all kinds first and then again in each kind's
        validation, so errors are repeated."""
        mine, stored = new.get("metadata") or {}, old.get("metadata") or {}
        if meta.untouched(mine, stored):
            return []
        changes = meta.validate_update(mine, stored)
        errors = self._common(mine) + changes
        if not errors and not mine.get("finalizers") and not mine.get("generateName"):
            return errors
        for check in self.status_checks if subresource == "status" else self.update_checks:
            if check == "w":
                errors.extend(self._whole(mine))
                continue
            errors.extend(changes)
            if self.strict_finalizers:
                meta.finalizer_names(mine.get("finalizers") or (), errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        """Validates the parts that an update may not change."""
        return []

    def validate_status(self, new: Object, old: Object) -> Errors:
        return []

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return []

    # --- names ----------------------------------------------------------------------------------------------------

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        """Errors of metadata.name; `prefix` if it is a generateName, which may end in a dash."""
        return names.new_subdomain(name, prefix)

    def generate_name(self, base: str) -> str:
        """A name generated from metadata.generateName, truncated so that the suffix fits."""
        kept = base[: _LONGEST_GENERATED - _SUFFIX_LENGTH]
        return kept + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))

    # --- delete ---------------------------------------------------------------------------------------------------

    graceful: ClassVar[bool] = False

    def kept_for(self, name: str) -> str:
        """Why the object of this name cannot be deleted individually; "" if it can."""
        return ""

    def grace_period_s(self, obj: Object, requested: int | None) -> int:
        """The grace period in seconds; only called if `graceful`."""
        return requested or 0

    def graceful_delete(self, obj: Object, options: Object, now: datetime) -> Deletion:
        """Decides how the delete continues; modifies metadata in place if the result is `graceful`."""
        if not self.graceful:
            return Deletion()
        metadata = obj["metadata"]
        requested = options.get("gracePeriodSeconds")
        if metadata.get("deletionTimestamp"):
            return _shorten(metadata, requested)
        grace = self.grace_period_s(obj, requested)
        metadata["deletionTimestamp"] = _stamp(now + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        return Deletion(graceful=True, grace_s=grace)


def _shorten(metadata: Object, requested: int | None) -> Deletion:
    """Applies a second delete, which can only shorten the grace period."""
    current = metadata.get("deletionGracePeriodSeconds")
    if current is None:
        return Deletion()
    if requested is None or requested >= current:
        return Deletion(pending=True, grace_s=current)
    end = datetime.strptime(metadata["deletionTimestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    metadata["deletionTimestamp"] = _stamp(end - timedelta(seconds=current) + timedelta(seconds=requested))
    metadata["deletionGracePeriodSeconds"] = requested
    return Deletion(graceful=True, grace_s=requested)


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
