"""A write request as data: where it goes, who sends it, and how the new object comes about."""

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
"""Makes the new object from a fresh copy of the stored one, or from the stored one where the write `shares`."""
Stages = Callable[[Object, Object, str], Object | None]
"""From the new object, the stored one and the time: a state between the two that is to be stored first, if any."""
Worded = Callable[[Kind, list[FieldError], Object], list[FieldError]]
Track = Callable[[Object, Object | None], None]
"""Records in metadata.managedFields who set what, from the new object and the stored one."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A subresource that shows an object as one of another kind (Scale). Admission sees and changes what it shows."""

    subresource: str
    show: Callable[[Object], Object]
    put_back: Callable[[Object, Object], Object]
    """The object, changed to what is shown."""


class Write(msgspec.Struct, eq=False):
    """One write request: where it goes, who sends it, and what the client is warned of."""

    kind: Kind
    namespace: str
    name: str
    user: User
    options: WriteOptions
    subresource: str = ""
    warnings: list[str] = []
    track: Track | None = None
    lens: Lens | None = None
    replaces: bool = False
    """A PUT: a uid in the body is a precondition. In a patch it is a change of an immutable field."""
    shares: bool = False
    """The change leaves the stored object as it is, and copies what it or the strategy changes in place."""
    size: int = 0
    """Bytes that the client sent: a large object is made and checked beside the event loop."""
    dialect: Dialect | None = None
    """The older dialect that the client speaks; None: the object comes as it is stored."""
    strategy: Strategy | None = None
    """By whose rules the object is changed, where not by those of its kind."""
    asked: Object | None = None
    """The object as the client wrote it, in its dialect."""
    stages: Stages | None = None
    """What watchers of the namespace are to see in between."""
    worded: Worded | None = None
    """Puts the reasons for a refusal into other words."""
    in_quota: InQuota | None = None
    """A pod as quotas of the namespace count it; None: as it is stored."""


class Written(NamedTuple):
    obj: Object
    record: Record | None
    """None when nothing is stored: a dry run, or an object that is gone with this write."""
