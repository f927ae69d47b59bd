"""Adjusts a resize before it is sent: it must not lower too much at once, nor below the minimum of an undo, and must
fit the free capacity of node and quota. Pure.

The values in the patch are changed; limits follow their requests in proportion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.fitting.machines import is_machine, whole_vcpus
from podfit.vpa.model.objects.pods import containers, limits_of, requests_of
from podfit.vpa.model.objects.policy import CPU, RESOURCES
from podfit.vpa.model.room import shown
from podfit.vpa.updater.decide.actions import Resize

Change = dict[tuple[int, str, str], Quantity]
"""(container number, `requests` or `limits`, resource) → amount."""


@dataclass(frozen=True, slots=True)
class SpareRoom:
    """The amount by which a pod may request more, or be limited to more. Resources that are not listed are
    unlimited."""

    node: Mapping[str, int] = field(default_factory=dict)
    """cpu in millicores, memory in bytes: the node's free capacity."""
    quota: Mapping[str, int] = field(default_factory=dict)
    """By quota names (requests.cpu, limits.memory …): the namespace's unused quota."""
    node_words: str = ""
    """The node's name, for messages."""


@dataclass(frozen=True, slots=True)
class ResizeBounds:
    down_step: float = 1.0
    floors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(container, resource) → the minimum that an undo currently requires."""


def amend(
    resize: Resize, room: SpareRoom, resize_bounds: ResizeBounds, lower: Mapping[tuple[str, str], int]
) -> Resize | Wait | None:
    """The resize that may be sent; a Wait if it does not fit; None if nothing is left of it.

    `lower` are the lower bounds: with less than these a container would starve, so the resize is not cut below them.
    """
    pod = resize.pod
    wanted = dict(resize.changes)
    current = _current(pod)
    for key in [key for key in wanted if key[1] == "requests" and key[2] in RESOURCES]:
        name = containers(pod)[key[0]].get("name") or ""
        if key[2] == CPU and name in resize.unboosted:
            # A boost is reverted in full: one that is reverted by half is no longer tracked, and would stay forever.
            continue
        least = resize_bounds.floors.get((name, key[2]), 0)
        _set(wanted, key, _relaxed(wanted[key], current.get(key), key[2], resize_bounds, least))
    if is_machine(pod):
        _make_whole(wanted, current, dict(wanted))
    before = dict(wanted)
    for resource in RESOURCES:
        waiting = _fit(pod, wanted, current, resource, room, lower)
        if waiting is not None:
            return waiting
    if is_machine(pod):
        _make_whole(wanted, current, before)
    if all(current.get(key) == amount for key, amount in wanted.items()):
        return None
    if all(_desired(pod, key) == amount for key, amount in wanted.items()):
        return Wait("ResizeUnderWay", "these resources were already requested from its node")
    return _rewritten(resize, wanted)


def cut_short(planned: Resize, sent: Resize) -> str:
    """A message about the reductions of a resize; empty if there are none."""
    wanted, given = planned.changes, sent.changes
    parts = [
        f"container {containers(planned.pod)[index].get('name')} gets {given[index, kind, resource].as_written()} of "
        f"{resource} instead of {amount.as_written()}"
        for (index, kind, resource), amount in wanted.items()
        if kind == "requests" and given.get((index, kind, resource), amount) < amount
    ]
    return ", ".join(parts)


def eased(planned: Resize, sent: Resize) -> bool:
    """Whether a request stays above the recommended one."""
    wanted, given = planned.changes, sent.changes
    return any(given.get(key, amount) > amount for key, amount in wanted.items() if key[1] == "requests")


def _desired(pod: ObjectView, key: tuple[int, str, str]) -> Quantity | None:
    resources = containers(pod)[key[0]].get("resources") or {}
    text = (resources.get(key[1]) or {}).get(key[2])
    return Quantity.parse(text) if text is not None else None


def _current(pod: ObjectView) -> Change:
    found: Change = {}
    for index, container in enumerate(containers(pod)):
        name = container.get("name") or ""
        for kind, amounts in (("requests", requests_of(pod, name)), ("limits", limits_of(pod, name))):
            found.update({(index, kind, resource): amount for resource, amount in amounts.items()})
    return found


def _relaxed(
    wanted: Quantity, now: Quantity | None, resource: str, resize_bounds: ResizeBounds, floor: int
) -> Quantity:
    amount, held = _amount(resource, wanted), _amount(resource, now) if now is not None else 0
    if held and amount < held:
        amount = max(amount, int(held * (1.0 - resize_bounds.down_step)), min(floor, held))
    return wanted if amount == _amount(resource, wanted) else _quantity(resource, amount, wanted)


def _set(wanted: Change, key: tuple[int, str, str], amount: Quantity) -> None:
    """Changes a request; its limit, if it is changed too, keeps its ratio."""
    before = wanted[key]
    wanted[key] = amount
    limit = (key[0], "limits", key[2])
    if limit in wanted and before and amount != before:
        resource = key[2]
        scaled = _amount(resource, wanted[limit]) * _amount(resource, amount) // max(1, _amount(resource, before))
        wanted[limit] = _quantity(resource, max(scaled, _amount(resource, amount)), wanted[limit])


def _make_whole(wanted: Change, current: Change, before: Change) -> None:
    """Makes a virtual machine's CPU limit a whole number again. One that was cut for lack of capacity is
    rounded down."""
    for key in [key for key in wanted if key[1] == "requests" and key[2] == CPU]:
        limit = (key[0], "limits", CPU)
        if limit not in wanted:
            continue
        request, same = wanted[key], current.get(key) == current.get(limit)
        if same and request < before[key]:
            request = Quantity.of_milli(max(request.milli // 1000 * 1000, _amount(CPU, current[key])), request.format)
        wanted[key], wanted[limit] = whole_vcpus(request, wanted[limit], same)


def _fit(
    pod: ObjectView,
    wanted: Change,
    current: Change,
    resource: str,
    room: SpareRoom,
    lower: Mapping[tuple[str, str], int],
) -> Wait | None:
    """Cuts increases until they fit; returns a Wait if not even the lower bounds fit."""
    growth = _growth(wanted, current, resource, "requests")
    spare, who = _spare(resource, "requests", room)
    if spare is not None and growth > spare and not _cut(pod, wanted, current, resource, spare, lower):
        return Wait("NoRoom", _no_room(resource, growth, spare, who))
    limits = _growth(wanted, current, resource, "limits")
    left = room.quota.get(f"limits.{resource}")
    if left is not None and limits > max(0, left):
        return Wait("QuotaExceeded", _no_room(resource, limits, max(0, left), "the quota for limits"))
    return None


def _growth(wanted: Change, current: Change, resource: str, kind: str) -> int:
    total = 0
    for key, amount in wanted.items():
        if key[1] == kind and key[2] == resource:
            total += _amount(resource, amount) - _amount(resource, current.get(key) or Quantity(0))
    return total


def _spare(resource: str, kind: str, room: SpareRoom) -> tuple[int | None, str]:
    limits = [(room.node.get(resource), room.node_words), (room.quota.get(f"{kind}.{resource}"), "the quota")]
    known = [(max(0, amount), who) for amount, who in limits if amount is not None]
    return min(known, default=(None, ""))


def _cut(
    pod: ObjectView,
    wanted: Change,
    current: Change,
    resource: str,
    spare: int,
    lower: Mapping[tuple[str, str], int],
) -> bool:
    """Divides the free capacity among the containers that grow. False if it is not enough; then nothing is changed."""
    growing: list[tuple[tuple[int, str, str], int, int]] = []
    for key, amount in wanted.items():
        if key[1] == "requests" and key[2] == resource:
            held = _amount(resource, current.get(key) or Quantity(0))
            if _amount(resource, amount) > held:
                growing.append((key, held, _amount(resource, amount) - held))
            else:
                spare += held - _amount(resource, amount)
    total = sum(more for _, _, more in growing)
    cut = [(key, held, held + more * spare // max(1, total)) for key, held, more in growing]
    for key, held, share in cut:
        name = containers(pod)[key[0]].get("name") or ""
        if share <= held or share < min(lower.get((name, resource), 0), _amount(resource, wanted[key])):
            return False
    for key, _, share in cut:
        _set(wanted, key, _quantity(resource, share, wanted[key]))
    return True


def _rewritten(resize: Resize, wanted: Change) -> Resize:
    patch = []
    for entry in resize.patch:
        parts = entry["path"].split("/")
        key = (int(parts[3]), parts[5], parts[6]) if len(parts) == 7 else None
        patch.append({**entry, "value": wanted[key].as_written()} if key in wanted else entry)  # type: ignore[index]
    return replace(resize, patch=patch)


def _amount(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == "cpu" else quantity.value


def _quantity(resource: str, amount: int, like: Quantity) -> Quantity:
    return Quantity.of_milli(amount, like.format) if resource == "cpu" else Quantity.of_units(amount, like.format)


def _no_room(resource: str, needed: int, spare: int, who: str) -> str:
    return (
        f"{who} has {shown(resource, spare)} of {resource} left, {shown(resource, needed)} more are needed: "
        "it is resized when enough is free"
    )
