"""The types of kinds: `type_of(kind)` and `type_named("PodTemplateSpec")`."""

from __future__ import annotations

from functools import lru_cache

from podfit.api.registry.kinds import Kind
from podfit.api.schema.notation import Library, Table
from podfit.api.schema.types import Field, ListOf, MapOf, Scalar, Struct, Type

__all__ = [
    "Field",
    "ListOf",
    "MapOf",
    "Scalar",
    "Struct",
    "Type",
    "optional_structs",
    "struct_of",
    "type_named",
    "type_of",
]

TABLES: dict[tuple[str, str], str] = {
    ("", "v1"): "core",
    ("apps", "v1"): "apps",
    ("batch", "v1"): "batch",
    ("policy", "v1"): "policy",
    ("scheduling.k8s.io", "v1"): "scheduling",
    ("coordination.k8s.io", "v1"): "coordination",
    ("rbac.authorization.k8s.io", "v1"): "rbac",
    ("node.k8s.io", "v1"): "node",
    ("autoscaling", "v1"): "autoscaling_v1",
    ("autoscaling", "v2"): "autoscaling_v2",
    ("admissionregistration.k8s.io", "v1"): "admissionregistration",
    ("apiextensions.k8s.io", "v1"): "apiextensions",
    ("events.k8s.io", "v1"): "events",
    ("certificates.k8s.io", "v1"): "certificates",
    ("apiregistration.k8s.io", "v1"): "apiregistration",
    ("authentication.k8s.io", "v1"): "authentication",
    ("authorization.k8s.io", "v1"): "authorization",
    ("discovery.k8s.io", "v1"): "discovery",
    ("networking.k8s.io", "v1"): "networking",
    ("storage.k8s.io", "v1"): "storage",
    ("resource.k8s.io", "v1"): "resource",
    ("flowcontrol.apiserver.k8s.io", "v1"): "flowcontrol",
    ("meta.k8s.io", "v1"): "meta",
}
_library = Library()


def table_of(group: str, version: str) -> Table | None:
    name = TABLES.get((group, version))
    return None if name is None else _library.table(name, version)


def type_of(kind: Kind) -> Struct | None:
    """The struct of a kind: built in, or that of a custom resource; None if the kind is unknown."""
    return kind.struct if kind.custom else struct_of(kind.group, kind.version, kind.kind)


@lru_cache(maxsize=1024)
def struct_of(group: str, version: str, name: str) -> Struct | None:
    table = table_of(group, version)
    found = table.own(name) if table is not None else None
    return found if isinstance(found, Struct) else None


@lru_cache(maxsize=1)
def optional_structs() -> frozenset[str]:
    """Names of fields that are pointers to structs in every type that has them: absent and empty are not the same."""
    always: dict[str, bool] = {}
    for group, version in TABLES:
        table = table_of(group, version)
        for name in table.names() if table is not None else ():
            for row in type_named(name, group, version):
                pointed = row.pointer and isinstance(row.type, Struct)
                always[row.name] = always.get(row.name, True) and pointed
    return frozenset(name for name, pointed in always.items() if pointed)


def type_named(name: str, group: str = "", version: str = "v1") -> Struct:
    """A struct by its name, e.g. `PodTemplateSpec`; a group's own types win over those of core and meta."""
    table = table_of(group, version) or _library.table("core")
    found = _library.find(table, name)
    if not isinstance(found, Struct):
        raise KeyError(f"{name} is no struct")
    return found
