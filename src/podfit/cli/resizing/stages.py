"""A pod's progress as a step of Pending → Allocated → Actuated → Actual. Pure.

Works with any node that supports the resize API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.resize.conditions import DEFERRED, INFEASIBLE
from podfit.api.resize.progress import InProgress, Pending, progress
from podfit.api.resize.verdicts import Deferred, Infeasible, Unknown
from podfit.cli.printing.amounts import RESOURCES, number

STAGES = ("Pending", "Allocated", "Actuated", "Actual")


@dataclass(frozen=True)
class ResizeStage:
    stage: str
    reason: str = ""
    """Deferred, Infeasible or Error if the resize is stuck."""
    why: str = ""

    @property
    def done(self) -> bool:
        return self.stage == "Actual"

    @property
    def refused(self) -> bool:
        return self.reason == INFEASIBLE

    @property
    def number(self) -> int:
        return STAGES.index(self.stage)


def step_of(pod: Object, shortage: str = "") -> ResizeStage:
    """The stage of a pod. `shortage`: what the node lacks, if the caller has computed it; replaces the node's
    message."""
    match progress(pod):
        case Pending(verdict=Deferred(message=message)):
            return ResizeStage("Pending", DEFERRED, shortage or message)
        case Pending(verdict=Infeasible(message=message)):
            return ResizeStage("Pending", INFEASIBLE, shortage or message)
        case Pending(verdict=Unknown(reason=reason, message=message)):
            return ResizeStage("Pending", reason, message)
        case Pending():
            return ResizeStage("Pending", why="waiting for the node")
        case InProgress(remaining=(), reason="", error=error):
            return ResizeStage("Actuated", why=error)
        case InProgress(since=None):
            return ResizeStage("Allocated", why="being applied")
        case InProgress(reason=reason, error=error):
            return ResizeStage("Allocated", reason, error)
    return ResizeStage("Actual", why="" if pod["spec"].get("nodeName") else "not on a node yet, starts with this size")


def seen_by_node(step: ResizeStage, rows: list[Object]) -> ResizeStage:
    """The stage according to the node's own four states, if the pod's status is still behind them."""
    if step.done or step.reason:
        return step
    reached = 0
    for stage in ("allocated", "actuated", "actual"):
        if not all(_reached(row, stage) for row in rows):
            break
        reached += 1
    return ResizeStage(STAGES[reached], why="the pod's status does not show it yet") if reached > step.number else step


def _reached(row: Object, stage: str) -> bool:
    """Whether two states agree in the resources that both have: the kernel has no memory requests."""
    wanted, has = row.get("desired") or {}, row.get(stage)
    if has is None:
        return False
    for kind in ("requests", "limits"):
        named = has.get(kind) or {}
        if not _equal({name: amount for name, amount in (wanted.get(kind) or {}).items() if name in named}, named):
            return False
    return True


def _equal(wanted: Mapping[str, Any], has: Mapping[str, Any]) -> bool:
    return all(
        number(resource, wanted.get(resource)) == number(resource, has.get(resource))
        for resource in RESOURCES
        if resource in wanted
    )


def bar(step: ResizeStage, width: int = 4) -> str:
    filled = step.number + 1
    return "█" * filled * width + "░" * (len(STAGES) - filled) * width
