"""A write request as data: its target, its user, and the function that makes the new object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import FieldError
from podfit.apiserver.admission.base import InQuota
from podfit.apiserver.dialects import Dialect
from podfit.apiserver.request import User
from podfit.apiserver.strategy import Strategy
from podfit.apiserver.writing.options import WriteOptions
from podfit.store.backend import Record

Change = Callable[[Object, Record], Object | Awaitable[Object]]
"""Makes the new object from a new copy of the stored one, or from the stored one if the write `shares`."""
Stages = Callable[[Object, Object, str], Object | None]
"""Returns the intermediate state to store first, if any, from the new object, the stored one and the time."""
Worded = Callable[[Kind, list[FieldError], Object], list[FieldError]]
Track = Callable[[Object, Object | None], None]
"""Records field ownership in metadata.managedFields, from the new object and the stored one."""


@dataclass(frozen=True, slots=True)
class SubresourceView:
    """A subresource that shows an object as one of another kind (Scale). Admission sees and changes the shown
    object.
    """

    subresource: str
    show: Callable[[Object], Object]
    put_back: Callable[[Object, Object], Object]
    """Returns the object with the changes of the shown one."""


class Write(msgspec.Struct, eq=False):
    """One write request: its target, its user, and the warnings for the client."""

    kind: Kind
    namespace: str
    name: str
    user: User
    options: WriteOptions
    subresource: str = ""
    warnings: list[str] = []
    track: Track | None = None
    subresource_view: SubresourceView | None = None
    replaces: bool = False
    """For a PUT: a uid in the body is a precondition. In a patch it is a change of an immutable field."""
    shares: bool = False
    """The change does not modify the stored object, and copies what it or the strategy modifies in place."""
    size: int = 0
    """Size of the client's body: a large object is built and validated in a thread."""
    dialect: Dialect | None = None
    """The older dialect that the client uses; None: the object is in its stored form."""
    strategy: Strategy | None = None
    """The strategy for the change, if not that of its kind."""
    submitted: Object | None = None
    """The object as the client wrote it, in its dialect."""
    stages: Stages | None = None
    """The intermediate state for watchers of the namespace."""
    worded: Worded | None = None
    """Rewords errors in the dialect of the client."""
    in_quota: InQuota | None = None
    """A pod as counted by quotas of the namespace; None: as it is stored."""


class Written(NamedTuple):
    obj: Object
    record: Record | None
    """None if nothing is stored: a dry run, or an object that this write removes."""
