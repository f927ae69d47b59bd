"""A row of the table of kinds: names, verbs, subresources, and the storage location of its objects.

Storage keys are `/registry/<group or "core">/<plural>/[<namespace>/]<name>`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podfit.api.schema.types import Struct

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None
    version: str | None = None
    """Group and version of the kind that it uses, if they differ from the parent's."""


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL
    stored_as: tuple[str, str] | None = None
    """(group, plural) of the kind whose stored objects this one shows, for kinds served in several groups or versions.
    """
    custom: bool = False
    singular: str = ""
    struct: Struct | None = field(default=None, repr=False, compare=False)
    """The type of a custom resource, from its definition. Types of built-in kinds are in `podfit.api.schema`."""
    api_version: str = field(init=False, repr=False, compare=False)
    base_path: str = field(init=False, repr=False, compare=False)
    storage_prefix: str = field(init=False, repr=False, compare=False)
    """The prefix of its objects in the store."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Read several times per request.
        group, plural = self.stored_as or (self.group, self.plural)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        base_path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        object.__setattr__(self, "base_path", base_path)
        object.__setattr__(self, "storage_prefix", f"/registry/{group or 'core'}/{plural}/")
        object.__setattr__(self, "_hash", hash((self.group, self.version, self.plural)))

    def __hash__(self) -> int:
        # Kinds are looked up on every request; hashing all fields and subresources each time would cost more than the
        # lookup.
        return self._hash

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    def key(self, namespace: str, name: str) -> str:
        return f"{self.storage_prefix}{namespace}/{name}" if self.namespaced else f"{self.storage_prefix}{name}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource; without a namespace, of all namespaces."""
        where = f"{self.base_path}/namespaces/{namespace}" if self.namespaced and namespace else self.base_path
        path = f"{where}/{self.plural}/{name}" if name else f"{where}/{self.plural}"
        return f"{path}/{subresource}" if subresource else path

    def subresource(self, name: str) -> Subresource | None:
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None
