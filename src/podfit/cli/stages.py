"""How far a pod's resize is, read from nothing but its status, and why it waits, in words. Pure.

Works with any node that speaks the resize API: Pending → Allocated → Actuated → Actual.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.resize_states import PROPOSED
from podfit.api.resize_verdicts import INFEASIBLE, PENDING, is_outdated
from podfit.api.status import Object
from podfit.cli.amounts import RESOURCES, amount_text, number

STAGES = ("Pending", "Allocated", "Actuated", "Actual")
IN_PROGRESS = "PodResizeInProgress"
ERROR = "Error"
_SHORTAGE = re.compile(r"enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)")
_BELOW = re.compile(r'(container "[^"]+"|pod) memory limit \((\d+)\) below current usage \((\d+)\)')
_TOO_MUCH = re.compile(r"enough capacity: (\S+), requested: (\d+), capacity: (\d+)")


@dataclass(frozen=True)
class Progress:
    stage: str
    reason: str = ""
    """Deferred, Infeasible or Error where the resize is stuck."""
    why: str = ""

    @property
    def done(self) -> bool:
        return self.stage == "Actual"

    @property
    def refused(self) -> bool:
        return self.reason == INFEASIBLE

    @property
    def step(self) -> int:
        return STAGES.index(self.stage)


def condition(pod: Object, kind: str) -> Object | None:
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == kind and one.get("status") == "True":
            return dict(one)
    return None


def progress(pod: Object) -> Progress:
    if not pod["spec"].get("nodeName"):
        return Progress("Actual", why="not on a node yet, starts with this size")
    pending, moving = condition(pod, PENDING), condition(pod, IN_PROGRESS)
    if _undecided(pod, pending):
        return Progress("Pending", why="waiting for the node")
    if pending is not None and not is_outdated(pod, pending):
        return Progress("Pending", pending.get("reason") or "", shortage_text(pod, pending.get("message") or ""))
    if not _same(pod, "allocatedResources", ("requests",)) or not observed(pod):
        return Progress("Pending", why="waiting for the node")
    if moving is not None:
        arrived = _same(pod, "resources", ("requests", "limits")) and not moving.get("reason")
        why = below_text(moving.get("message") or "")
        return Progress("Actuated" if arrived else "Allocated", moving.get("reason") or "", why)
    if not _same(pod, "resources", ("requests", "limits")):
        return Progress("Allocated", why="being applied")
    return Progress("Actual")


def _undecided(pod: Object, pending: Object | None) -> bool:
    """Whether an older server, whose verdicts name no generation, shows a resize that the node has not looked at: one
    that is proposed, or one back to what is allocated, which leaves the last verdict as it was."""
    status = pod.get("status") or {}
    word = status.get("resize")
    if word == PROPOSED:
        return True
    told = any("allocatedResources" in one for one in status.get("containerStatuses") or ())
    return bool(word) and told and pending is not None and _same(pod, "allocatedResources", ("requests",))


def observed(pod: Object) -> bool:
    """Whether the node has seen this generation (nodes that do not say have)."""
    seen = (pod.get("status") or {}).get("observedGeneration")
    return seen is None or seen >= (pod["metadata"].get("generation") or 0)


def seen_by_node(step: Progress, rows: list[Object]) -> Progress:
    """The stage that the node's own four states show, where the pod's status is still behind them."""
    if step.done or step.reason:
        return step
    reached = 0
    for stage in ("allocated", "actuated", "actual"):
        if not all(_reached(row, stage) for row in rows):
            break
        reached += 1
    return Progress(STAGES[reached], why="the pod's status does not show it yet") if reached > step.step else step


def _reached(row: Object, stage: str) -> bool:
    """The kernel knows no memory requests: only what both states name can differ."""
    wanted, has = row.get("desired") or {}, row.get(stage)
    if has is None:
        return False
    for kind in ("requests", "limits"):
        named = has.get(kind) or {}
        if not _equal({name: one for name, one in (wanted.get(kind) or {}).items() if name in named}, named):
            return False
    return True


def _same(pod: Object, field: str, kinds: tuple[str, ...]) -> bool:
    status = pod.get("status") or {}
    known = {
        one["name"]: one for key in ("initContainerStatuses", "containerStatuses") for one in status.get(key) or ()
    }
    for container in pod["spec"].get("containers") or ():
        seen = known.get(container["name"])
        if seen is None or field not in seen:
            continue
        shown = seen[field] or {}
        for kind in kinds:
            wanted = (container.get("resources") or {}).get(kind) or {}
            has = shown if field == "allocatedResources" else shown.get(kind) or {}
            if not _equal(wanted, has):
                return False
    return True


def _equal(wanted: Mapping[str, Any], has: Mapping[str, Any]) -> bool:
    return all(number(one, wanted.get(one)) == number(one, has.get(one)) for one in RESOURCES if one in wanted)


def shortage_text(pod: Object, message: str) -> str:
    """`needs 300m cpu, node n1 has 120m free` from the node's own sentence."""
    node = pod["spec"].get("nodeName") or "the node"
    if found := _SHORTAGE.search(message):
        resource, requested, used, capacity = found[1], *(int(found[at]) for at in (2, 3, 4))
        free = amount_text(resource, capacity - used)
        return f"needs {amount_text(resource, requested)} {resource}, node {node} has {free} free"
    if found := _TOO_MUCH.search(message):
        resource, requested, capacity = found[1], int(found[2]), int(found[3])
        whole = amount_text(resource, capacity)
        return f"needs {amount_text(resource, requested)} {resource}, node {node} has {whole} in all"
    return message


def below_text(message: str) -> str:
    """`memory limit 64Mi of container "app" is below current usage 128Mi`: the node's own sentence counts bytes."""
    found = _BELOW.findall(message)
    if not found:
        return message
    texts = ((whose, *(amount_text("memory", int(one)) for one in counts)) for whose, *counts in found)
    return "; ".join(f"memory limit {limit} of {whose} is below current usage {usage}" for whose, limit, usage in texts)


def bar(step: Progress, width: int = 4) -> str:
    filled = step.step + 1
    return "█" * filled * width + "░" * (len(STAGES) - filled) * width
