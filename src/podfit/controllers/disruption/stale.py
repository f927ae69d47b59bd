"""Reverts announced disruptions that did not happen.

A disruption sets the condition DisruptionTarget of a pod to True, and then deletes the pod. If the pod is not being
deleted two minutes later, the condition is set to False.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.controllers.context import ControllerContext
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

_TARGET = "DisruptionTarget"
_STALE_AFTER_S = 120.0
_BY_NODE = "TerminationByKubelet"
"""The node's own announcement: its pods may take any time to terminate."""
Key = tuple[str, str]


def announced(pod: Object) -> Object | None:
    """The condition that announces a disruption of a pod that is running and not being deleted."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed"):
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") == _TARGET:
            return condition if condition.get("status") == "True" and condition.get("reason") != _BY_NODE else None
    return None


class StaleDisruptions:
    def __init__(self, context: ControllerContext, name: str) -> None:
        self._context = context
        self._pods = context.cache(POD)
        self._engine: Engine[Key] = Engine(name, self._reconcile, workers=1, clock=context.clock)
        self._pods.subscribe(self._changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and announced(after) is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))

    async def _reconcile(self, key: Key) -> Result:
        pod = self._pods.get(*key)
        condition = announced(pod) if pod is not None else None
        if pod is None or condition is None:
            return DONE
        now = self._context.clock.now()
        since = condition.get("lastTransitionTime")
        remaining = parse_rfc3339(since) + _STALE_AFTER_S - now if since else 0.0
        if remaining > 0:
            return Requeue(remaining, "the disruption may still happen")
        taken_back = {
            "type": _TARGET,
            "status": "False",
            "observedGeneration": pod["metadata"].get("generation", 0),
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(now),
        }
        conditions = [taken_back if known is condition else known for known in pod["status"]["conditions"]]
        await self._context.client.update(POD, {**pod, "status": {**pod["status"], "conditions": conditions}}, "status")
        return DONE
