"""Writes a status in the parts that the API server accepts.

One rejected field must not block the others. The whole change is sent first. If it is rejected, its fields are sent one
by one; if a field is rejected, its elements are. Rejected parts are returned with the errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from podfit.api.objects import Object
from podfit.api.status import ApiError

Send = Callable[[Object], Awaitable[Object]]
"""Patches the status with these fields and returns the object."""

REJECTED = frozenset({400, 403, 413, 422})
"""Errors that a retry in the near future would not change."""
_WHOLE_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
"""Lists that a patch replaces as a whole, unlike lists with a merge key."""
_TOGETHER = (("podIP", "podIPs"), ("hostIP", "hostIPs"))
_ORDER = "$setElementOrder/"


class WriteOutcome(Struct):
    answer: Object | None = None
    """The object after the last write that was accepted."""
    rejections: dict[str, ApiError] = {}
    """The errors by field; an element of a list or map is named after a dot."""


async def write_status(send: Send, before: Mapping[str, Any], change: Object) -> WriteOutcome:
    """`before` is the status on the server. Conflicts, missing objects and outages are raised."""
    outcome = WriteOutcome()
    if await _try(send, change, "status", outcome):
        return outcome
    whole = outcome.rejections.pop("status")
    for name, part in _fields(change):
        if part == change:
            outcome.rejections[name] = whole
        elif await _try(send, part, name, outcome):
            continue
        elements = list(_elements(name, part, before))
        if len(elements) > 1:
            del outcome.rejections[name]
            await _write_elements(send, name, elements, before, outcome)
    return outcome


async def _try(send: Send, part: Object, name: str, outcome: WriteOutcome) -> bool:
    try:
        outcome.answer = await send(part)
    except ApiError as error:
        if error.code not in REJECTED:
            raise
        outcome.rejections[name] = error
        return False
    return True


async def _write_elements(
    send: Send, name: str, elements: list[tuple[str, Any]], before: Mapping[str, Any], outcome: WriteOutcome
) -> None:
    accepted = list(before.get(name) or ())
    for key, element in elements:
        if name not in _WHOLE_LISTS:
            await _try(send, {name: element}, f"{name}.{key}", outcome)
            continue
        tried = _replaced(accepted, element)
        if await _try(send, {name: tried}, f"{name}.{key}", outcome):
            accepted = tried


def _fields(change: Object) -> Iterator[tuple[str, Object]]:
    """The changed fields: details before the phase, which summarizes them."""
    partners = {name: group for group in _TOGETHER for name in group}
    done: set[str] = set()
    for name in sorted(change, key=lambda field: (field not in _WHOLE_LISTS, field == "phase")):
        if name in done or name.startswith(_ORDER):
            continue
        group = [field for field in (*partners.get(name, (name,)), _ORDER + name) if field in change]
        done.update(group)
        yield name, {field: change[field] for field in group}


def _elements(name: str, part: Object, before: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The elements of a field, as (key, value to send); empty if it cannot be divided."""
    value = part.get(name)
    if name in (field for group in _TOGETHER for field in group):
        return
    if name in _WHOLE_LISTS and isinstance(value, list):
        known = {item["name"]: item for item in before.get(name) or ()}
        yield from ((item["name"], item) for item in value if known.get(item["name"]) != item)
    elif isinstance(value, list):
        yield from ((str(item.get("type", at)), [item]) for at, item in enumerate(value) if isinstance(item, dict))
    elif isinstance(value, dict):
        yield from ((key, {key: element}) for key, element in value.items())


def _replaced(statuses: list[Object], status: Object) -> list[Object]:
    """The list with this container's status replaced, or appended."""
    if all(known["name"] != status["name"] for known in statuses):
        return [*statuses, status]
    return [status if known["name"] == status["name"] else known for known in statuses]
