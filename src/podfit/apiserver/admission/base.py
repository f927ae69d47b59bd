"""The interface of admission plugins: their input, and their view of the cluster.

Plugins change `Attributes.object` in the mutating phase (on updates, parts of it may be shared with the stored object,
so plugins replace those parts and never modify them in place). In the validating phase they may only reject. A
rejection is an `ApiError`; no other exception may escape from a plugin. Plugins are called by the chain, never by each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, forbidden
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.request import User

InQuota = Callable[[Object], Object]
CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


class Attributes(msgspec.Struct, eq=False):
    """One write in progress. `object` is the new state (None for DELETE), `old` the stored one (None for CREATE)."""

    operation: str
    kind: Kind
    """The kind of the resource in the path; the body of a subresource may be of another kind (Eviction, Binding,
    Scale).
    """
    subresource: str
    namespace: str
    name: str
    """The name in the path; empty on CREATE if the name is still to be generated."""
    object: Object | None
    old: Object | None
    user: User
    dry_run: bool = False
    options: Object = {}
    """CreateOptions, UpdateOptions or DeleteOptions as JSON, without kind and apiVersion."""
    warnings: list[str] = []
    """Sent to the client as Warning headers."""
    annotations: dict[str, str] = {}
    """Audit annotations."""
    reinvocation: bool = False
    """True in the second mutating pass, which runs if a webhook has changed the object."""
    reinvoke: bool = False
    """Set by a plugin whose change earlier plugins should see."""
    dialect: Dialect | None = None
    """The older dialect that the client uses; None: the native form."""
    submitted: Object | None = None
    """The object as the client wrote it, in its dialect."""
    in_quota: InQuota | None = None
    """A pod as counted by quotas of its namespace; None: as it is stored."""
    resizes: bool = False
    """An update of the pod itself that changes resources, which is a resize in older dialects."""
    state: dict[str, Any] = {}
    """State that a plugin keeps between the passes, by its name."""

    @property
    def resource(self) -> tuple[str, str]:
        return self.kind.group, self.kind.plural

    @property
    def display_name(self) -> str:
        """The name in error messages: generated names do not exist yet in the mutating phase."""
        if self.name:
            return self.name
        meta = (self.object or {}).get("metadata") or {}
        return meta.get("name") or meta.get("generateName") or "Unknown"

    def forbid(self, why: str, causes: list[Object] | None = None) -> ApiError:
        return forbidden(self.kind.plural, self.display_name, why, self.kind.group, causes)


class Cluster(Protocol):
    """Read access to the cluster for plugins and authorizers: the newest stored state, decoded. Results are
    read-only."""

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None: ...

    def list(self, kind: Kind, namespace: str = "") -> Sequence[Object]: ...

    async def update_status(self, kind: Kind, obj: Object) -> Object:
        """Writes the status of `obj` if its resourceVersion is still the newest; ApiError 409 otherwise."""


class Plugin:
    """The base class of plugins. Subclasses override what they need; the chain skips phases that are not overridden."""

    name = ""

    def handles(self, attrs: Attributes) -> bool:
        """Whether the plugin applies. May depend only on operation, kind and subresource: the chain caches it."""
        return True

    async def admit(self, attrs: Attributes) -> None:
        """The mutating phase: may change `attrs.object`, or reject the write."""

    async def validate(self, attrs: Attributes) -> None:
        """The validating phase: may only reject the write."""


def spec_of(obj: Object | None) -> dict[str, Any]:
    spec = (obj or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def meta_of(obj: Object | None) -> dict[str, Any]:
    meta = (obj or {}).get("metadata")
    return meta if isinstance(meta, dict) else {}


def annotations_of(obj: Object | None) -> dict[str, str]:
    return meta_of(obj).get("annotations") or {}
