"""The interface of a dialect: converts native pods for its clients, and their writes to native pods.

Stored objects are always native. `show` derives the dialect's form from them, and `put_back` finds the changes that a
client made to that form and applies them to the native object; everything else stays exactly as it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.resize import words as resize_words
from podfit.api.resize.conditions import CONDITIONS, IN_PROGRESS_WORD, PROPOSED
from podfit.api.resize.counting import counted_in_quota
from podfit.api.resize.dialects import LABEL
from podfit.api.resize.words import by_name
from podfit.api.schema import type_of
from podfit.api.schema.types import Struct
from podfit.api.status import FieldError
from podfit.apiserver.dialects import policies
from podfit.apiserver.dialects.policies import Words
from podfit.apiserver.dialects.types import StructDiff, edit, varied

CONTAINERS = ("containers", "initContainers")
_NEWER = ("observedGeneration", "allocatedResources", "resources")
"""Fields of a pod's status that are newer than all dialects."""
COMMON: Mapping[str, StructDiff] = {
    "PodStatus": edit((*_NEWER, "resize")),
    "PodCondition": edit(("observedGeneration",)),
}


class Dialect:
    """An older form of in-place resize. Subclasses define the differences."""

    name: ClassVar[str]
    words: ClassVar[Words]
    """The field of a resize policy, and its values."""
    edits: ClassVar[Mapping[str, StructDiff]] = {}
    """The dialect's types, as edits of the native types."""
    on_pod: ClassVar[bool] = True
    """Whether resources are changed by an update of the pod itself."""
    on_resize: ClassVar[bool] = False
    """Whether it has the subresource `resize`."""
    limit_ranges: ClassVar[bool] = True
    """Whether the LimitRanges of its namespace apply to a resize."""
    keeps_policies: ClassVar[bool] = False
    """Whether an update that omits resizePolicy keeps the stored one, for clients that do not know the field."""
    allocated_in_spec: ClassVar[bool] = False
    """Whether the node writes its allocation to the spec of a pod."""
    only_nodes_allocate: ClassVar[bool] = False
    binds_nodes: ClassVar[bool] = False
    """Whether it has rules for the node, which reads the dialect of a resize from an annotation of the native pod."""

    def __init__(self) -> None:
        self._structs: dict[Kind, Struct] = {}

    # --- types ----------------------------------------------------------------------------------------------------

    def concerns(self, kind: Kind) -> bool:
        """Whether the dialect's form of objects of the kind differs from the stored form."""
        return kind == POD or (self.words.renames and policies.may_translate(kind))

    def struct(self, kind: Kind) -> Struct:
        found = self._structs.get(kind)
        if found is None:
            native = type_of(kind)
            assert native is not None
            found = self._structs[kind] = varied(native, self._edits)
        return found

    @cached_property
    def _edits(self) -> Mapping[str, StructDiff]:
        made = dict(COMMON)
        for name, more in (*self.words.edits.items(), *self.edits.items()):
            before = made.get(name, edit())
            made[name] = StructDiff(before.without | more.without, before.fields + more.fields)
        return made

    # --- reading --------------------------------------------------------------------------------------------------

    def show(self, kind: Kind, obj: Object) -> Object:
        """The dialect's form of a native object, which is not modified."""
        if kind != POD:
            return policies.show_template(obj, kind, self.words)
        shown = {**obj, "spec": self._show_spec(obj)}
        if LABEL in (obj["metadata"].get("annotations") or {}):
            shown["metadata"] = _annotated(obj["metadata"], None)
        if obj.get("status"):
            shown["status"] = self._show_status(obj)
        return shown

    def show_newer(self, kind: Kind, obj: Object) -> Object:
        """Like `show`, for a client with types of Kubernetes 1.27 or later: omits fields that these cannot
        represent."""
        return self.show(kind, obj)

    def _show_spec(self, pod: Object) -> Object:
        spec = dict(pod.get("spec") or {})
        for key in CONTAINERS:
            if spec.get(key):
                spec[key] = [self.show_container(container, pod, key == "containers") for container in spec[key]]
        return spec

    def show_container(self, container: Object, pod: Object, regular: bool) -> Object:
        listed = policies.shown(container, self.words, regular)
        return {**container, "resizePolicy": listed} if listed else container

    def _show_status(self, pod: Object) -> Object:
        status = {key: value for key, value in pod["status"].items() if key not in _NEWER}
        if "conditions" in status:
            status["conditions"] = [
                _without(condition, "observedGeneration")
                for condition in status["conditions"]
                if condition.get("type") not in CONDITIONS
            ]
        self.show_statuses(status, pod)
        status.pop("resize", None)
        if resize := self.resize(pod):
            status["resize"] = resize
        return status

    def show_statuses(self, status: Object, pod: Object) -> None:
        """Converts the container statuses in place; `status` is a copy."""

    def resize(self, pod: Object) -> Any:
        """The value of `status.resize`, derived from conditions; empty if the dialect has no such field."""
        return None

    def stages(self, new: Object, old: Object, now: str) -> Object | None:
        """An intermediate state to show to watchers between two native ones: an accepted resize before it completes."""
        between = resize_words.accepted(new, old, now)
        if between is None or not (self.resize(between) or self.allocated_in_spec):
            return None
        return between

    def in_quota(self, pod: Object) -> Object:
        """A native pod in the form that quotas count."""
        return counted_in_quota(pod, self.name)

    # --- writing --------------------------------------------------------------------------------------------------

    def created(self, kind: Kind, submitted: Object) -> Object:
        """The native form of a new object."""
        if kind != POD:
            return policies.read_template(submitted, kind, self.words)
        made = {**submitted, "spec": self._read_spec(submitted.get("spec") or {}, {})}
        if self.binds_nodes:
            made["metadata"] = _annotated(submitted.get("metadata") or {}, self.name)
        return made

    def put_back(self, kind: Kind, submitted: Object, old: Object, now: str) -> Object:
        """Applies the changes that a client made to the shown form of `old`, and returns the native object."""
        if kind != POD:
            return policies.read_template(submitted, kind, self.words)
        shown = self.show(kind, old)
        new = dict(submitted)
        if submitted.get("spec") == shown.get("spec"):
            new["spec"] = old["spec"]
        else:
            new["spec"] = self._read_spec(submitted.get("spec") or {}, old["spec"])
        mark = (old["metadata"].get("annotations") or {}).get(LABEL)
        if self.binds_nodes and new["spec"] is not old["spec"]:
            mark = self.name
        if mark is not None:
            new["metadata"] = _annotated(submitted.get("metadata") or {}, mark)
        if submitted.get("status") == shown.get("status"):
            _put(new, "status", old.get("status"))
        else:
            new["status"] = self._read_status(submitted, shown.get("status") or {}, old, now)
        return new

    def worded(self, kind: Kind, errors: list[FieldError], obj: Object) -> list[FieldError]:
        """Errors about a native object, in the wording of the dialect."""
        if kind == POD:
            return policies.worded(errors, obj.get("spec") or {}, "spec", self.words)
        return policies.worded_template(errors, obj, kind, self.words)

    def _read_spec(self, submitted: Object, old: Object) -> Object:
        spec = dict(submitted)
        for key in CONTAINERS:
            if spec.get(key):
                stored = by_name(old.get(key))
                spec[key] = [
                    self.read_container(container, stored.get(container.get("name", "")), key == "containers")
                    for container in spec[key]
                ]
        return spec

    def read_container(self, submitted: Object, old: Object | None, regular: bool) -> Object:
        if "resizePolicy" not in submitted and old is None:
            return submitted
        container = dict(submitted)
        listed = policies.read(submitted, old, self.words, regular, self.keeps_policies)
        _put(container, "resizePolicy", listed)
        return container

    def _read_status(self, submitted: Object, shown: Object, old: Object, now: str) -> Object:
        status, before = dict(submitted.get("status") or {}), old.get("status") or {}
        for key in _NEWER:
            _put(status, key, before.get(key))
        written = status.pop("resize", None)
        conditions = self._read_conditions(status.pop("conditions", None) or [], before.get("conditions") or [])
        self.read_statuses(status, shown, submitted, old)
        if (written or None) != (shown.get("resize") or None):
            conditions = self.read_resize(status, conditions, written, submitted, old, now)
        elif not self.is_proposed(written):
            # The node has reported, and the resize is not undecided.
            _put(status, "observedGeneration", old["metadata"].get("generation") or before.get("observedGeneration"))
        _put(status, "conditions", conditions or None)
        return status

    @staticmethod
    def _read_conditions(submitted: list[Object], stored: list[Object]) -> list[Object]:
        """The conditions that the client wrote, with the hidden ones restored in their places."""
        mine = {condition.get("type"): condition for condition in submitted}
        kept: list[Object] = []
        for condition in stored:
            kind = condition.get("type")
            if kind in CONDITIONS:
                kept.append(condition)
            elif kind in mine:
                kept.append(_observed(mine.pop(kind), condition))
        return kept + list(mine.values())

    def read_statuses(self, status: Object, shown: Object, submitted: Object, old: Object) -> None:
        """Converts the client's container fields to native ones."""

    def is_proposed(self, written: Any) -> bool:
        return bool(written == PROPOSED)

    def read_resize(
        self, status: Object, conditions: list[Object], written: Any, submitted: Object, old: Object, now: str
    ) -> list[Object]:
        """The native conditions for the value that a node wrote to `status.resize`."""
        generation = old["metadata"].get("generation") or 0
        if self.is_proposed(written):
            return [condition for condition in conditions if condition.get("type") not in CONDITIONS]
        _put(status, "observedGeneration", generation or None)
        word = resize_words.text_of(written)
        pending = word if word and word != IN_PROGRESS_WORD else ""
        return resize_words.decided(conditions, pending, word == IN_PROGRESS_WORD, generation, now)


def _annotated(metadata: Object, dialect: str | None) -> Object:
    """Metadata with, or without, the annotation that records the dialect of the last resize."""
    rest = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LABEL}
    made = {key: value for key, value in metadata.items() if key != "annotations"}
    if dialect is not None:
        rest[LABEL] = dialect
    return {**made, "annotations": rest} if rest else made


def _observed(condition: Object, stored: Object) -> Object:
    """Restores observedGeneration, which clients of a dialect do not see and must not remove."""
    if "observedGeneration" not in stored or _without(stored, "observedGeneration") != condition:
        return condition
    return stored


def _without(obj: Object, key: str) -> Object:
    return {name: value for name, value in obj.items() if name != key} if key in obj else obj


def _put(obj: Object, key: str, value: Any) -> None:
    if value is None:
        obj.pop(key, None)
    else:
        obj[key] = value
