"""All kinds of a server: the built-in rows, and custom resources, which are added at run time (`Registry.add`)."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.api.registry.kind import ALL, Kind, Subresource
from podfit.api.registry.kind_rows import BUILT_IN, status_of

__all__ = [
    "ALL",
    "BUILT_IN",
    "EVENT",
    "LEASE",
    "NAMESPACE",
    "NODE",
    "NODE_METRICS",
    "POD",
    "POD_METRICS",
    "VPA",
    "VPA_CHECKPOINT",
    "Kind",
    "Registry",
    "Subresource",
    "kind_named",
]


class Registry:
    """The current kinds of a server: the built-in rows and those added by CustomResourceDefinitions."""

    def __init__(self, kinds: tuple[Kind, ...] = BUILT_IN) -> None:
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_storage: dict[str, tuple[Kind, ...]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._by_resource[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind
        others = [
            other for other in self._by_storage.get(kind.storage_prefix, ()) if other.api_version != kind.api_version
        ]
        self._by_storage[kind.storage_prefix] = (*others, kind)

    def remove(self, kind: Kind) -> None:
        self._by_resource.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.api_version, kind.kind), None)
        left = [
            other for other in self._by_storage.get(kind.storage_prefix, ()) if other.api_version != kind.api_version
        ]
        self._by_storage[kind.storage_prefix] = tuple(left)

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, version, plural))

    def equivalents(self, kind: Kind) -> tuple[Kind, ...]:
        """The other kinds that show the same stored objects: other versions, other groups."""
        return tuple(other for other in self._by_storage.get(kind.storage_prefix, ()) if other != kind)

    def of(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_resource.values()))


_BUILT_IN_REGISTRY = Registry()


def kind_named(kind: str, group: str | None = None) -> Kind:
    """A built-in kind by its name: `kind_named("Pod")`; the first row wins if several groups have it."""
    for row in _BUILT_IN_REGISTRY:
        if row.kind == kind and (group is None or row.group == group):
            return row
    raise KeyError(f"no built-in kind {kind}")


POD, NODE, NAMESPACE, EVENT, LEASE = (kind_named(name) for name in ("Pod", "Node", "Namespace", "Event", "Lease"))
VPA = Kind(
    "autoscaling.k8s.io",
    "v1",
    "VerticalPodAutoscaler",
    "verticalpodautoscalers",
    True,
    ("vpa",),
    subresources=(status_of("VerticalPodAutoscaler"),),
    custom=True,
    singular="verticalpodautoscaler",
)
VPA_CHECKPOINT = Kind(
    "autoscaling.k8s.io",
    "v1",
    "VerticalPodAutoscalerCheckpoint",
    "verticalpodautoscalercheckpoints",
    True,
    ("vpacheckpoint",),
    custom=True,
    singular="verticalpodautoscalercheckpoint",
)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True, verbs=("get", "list"))
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, verbs=("get", "list"))
