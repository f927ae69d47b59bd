"""The state of one autoscaler's part of a pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.fitting.limitranges import NamespaceBounds
from podfit.vpa.updater.decide.one_pass import ClusterView
from podfit.vpa.updater.decide.pacing.rollout import Rollout
from podfit.vpa.updater.decide.restriction import Attempts

if TYPE_CHECKING:
    from podfit.vpa.updater.loop import Updater


@dataclass(slots=True)
class VpaPass:
    updater: Updater
    world: ClusterView
    vpa: Any
    pods: list[Any]
    attempts: Attempts
    now: float
    deadline: float
    no_eviction: Wait | None
    """Why no pod may be evicted, for example because the webhook that sizes new pods does not respond."""
    rollout: Rollout
    """The rollout of a changed policy, which makes some pods wait."""
    hurried: bool = False
    """Whether this runs between two passes; gauges cover whole passes only."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """Why each pod was refused in this pass, by name."""

    @property
    def id(self) -> tuple[str, str]:
        return self.vpa["metadata"].get("namespace", ""), self.vpa["metadata"]["name"]

    @property
    def bounds(self) -> NamespaceBounds:
        return self.world.bounds(self.vpa["metadata"].get("namespace", ""))
