"""Reads the few fields that selectors use, from objects and from records. The fields of a record are decoded once and
cached, without decoding the rest of the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.selectors import Readable
from podfit.store.backend import Record

_REMEMBERED = 65536
_NAMES = ("metadata.name", "metadata.namespace")
_EVENT = {
    f"involvedObject.{word}"
    for word in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
SELECTABLE: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset(
        (
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        )
    ),
    ("", "nodes"): frozenset(("spec.unschedulable",)),
    ("", "events"): frozenset((*_EVENT, "reason", "reportingComponent", "source", "type")),
    ("events.k8s.io", "events"): frozenset(
        (*(name.replace("involvedObject", "regarding") for name in _EVENT), "reason", "reportingController", "type")
    ),
    ("", "namespaces"): frozenset(("status.phase",)),
    ("", "secrets"): frozenset(("type",)),
    ("", "services"): frozenset(("spec.clusterIP", "spec.type")),
    ("", "replicationcontrollers"): frozenset(("status.replicas",)),
    ("batch", "jobs"): frozenset(("status.successful",)),
    ("certificates.k8s.io", "certificatesigningrequests"): frozenset(("spec.signerName",)),
    ("resource.k8s.io", "resourceslices"): frozenset(("spec.nodeName", "spec.driver")),
}
"""Selectable fields of a kind, in addition to its name and namespace."""
_WHERE = {
    "source": ("source", "component"),
    "status.successful": ("status", "succeeded"),
    "reportingController": ("reportingComponent",),
}
_NUMBERS = frozenset(("status.replicas", "status.successful"))
_FLAGS = frozenset(("spec.hostNetwork", "spec.unschedulable"))


class View(NamedTuple):
    labels: Mapping[str, str]
    fields: Readable


class Fields:
    """The fields of one object by their names in selectors, read on demand because few are used."""

    __slots__ = ("_obj", "_paths")

    def __init__(self, obj: Any, paths: Mapping[str, tuple[str, ...]]) -> None:
        self._obj, self._paths = obj, paths

    def get(self, name: str, default: str) -> str:
        path = self._paths.get(name)
        if path is None:
            return default
        value = self._obj
        for part in path:
            value = getattr(value, part, None)
        text = value if type(value) is str else _text(name, value)
        return text or self.get("reportingComponent", "") if name == "source" else text


class Views:
    """The views of one stored resource, with the field names of one served kind."""

    def __init__(self, kind: Kind, more: frozenset[str] = frozenset()) -> None:
        self.fields = SELECTABLE.get((kind.group, kind.plural), frozenset()) | more
        paths = {name: self._path(name) for name in self.fields}
        self._paths = paths | {name: tuple(name.split(".")) for name in _NAMES}
        self._decode = msgspec.json.Decoder(_shape(kind.kind, set(paths.values()))).decode
        self._seen: dict[str, tuple[int, View]] = {}
        """By key: the revision and the view of the newest state that was evaluated."""
        self._readers: dict[str, Callable[[Object], str]] = {}

    def reader(self, name: str) -> Callable[[Object], str]:
        """A function that reads the field of this name from a decoded stored object, like `of(record).fields`. All
        callers get the same function, so that it can be a cache key."""
        known = self._readers.get(name)
        if known is None:
            known = self._readers[name] = self._reader(name)
        return known

    def _reader(self, name: str) -> Callable[[Object], str]:
        path = self._paths.get(name)
        if path is None:
            return lambda obj: ""
        *above, last = path

        def read(obj: Object) -> str:
            holder: Any = obj
            for part in above:
                holder = holder.get(part)
                if holder.__class__ is not dict:
                    return _text(name, None)
            value = holder.get(last)
            return value if type(value) is str else _text(name, value)

        if name != "source":
            return read
        otherwise = self.reader("reportingComponent")
        return lambda obj: read(obj) or otherwise(obj)

    @staticmethod
    def _path(name: str) -> tuple[str, ...]:
        if name in _WHERE:
            return _WHERE[name]
        return tuple(name.replace("regarding.", "involvedObject.").split("."))

    def of(self, record: Record) -> View:
        seen, at = self._seen.get(record.key), record.modified
        if seen is not None and seen[0] == at:
            return seen[1]
        view = self._read(record)
        if seen is None or seen[0] < at:
            if seen is None and len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[record.key] = (at, view)
        return view

    def _read(self, record: Record) -> View:
        obj = self._decode(record.value)
        return View(obj.metadata.labels or {}, Fields(obj, self._paths))


def _text(name: str, value: Any) -> str:
    if name in _FLAGS:
        return "true" if value else "false"
    if name == "status.podIPs":
        return ",".join(str(row.get("ip", "")) for row in value or () if isinstance(row, dict))
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "0" if name in _NUMBERS else ""
    return str(value)


def _shape(kind: str, paths: set[tuple[str, ...]]) -> Any:
    """A struct type with just these paths; everything else in the JSON is skipped."""
    meta = msgspec.defstruct(
        f"{kind}Meta", [("name", str, ""), ("namespace", str, ""), ("labels", dict[str, str] | None, None)]
    )
    return msgspec.defstruct(f"{kind}View", [("metadata", meta), *_fields(kind, paths)])


def _fields(name: str, paths: set[tuple[str, ...]]) -> list[Any]:
    below: dict[str, set[tuple[str, ...]]] = {}
    for first, *rest in paths:
        below.setdefault(first, set()).add(tuple(rest))
    fields: list[Any] = []
    for first, deeper in sorted(below.items()):
        if () in deeper:
            fields.append((first, Any, None))
        else:
            part = msgspec.defstruct(f"{name}{first}", _fields(f"{name}{first}", deeper))
            fields.append((first, part | None, None))
    return fields
