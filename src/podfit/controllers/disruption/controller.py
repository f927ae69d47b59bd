"""Updates PodDisruptionBudget status at every change of the pods a budget covers.

Evictions write `disruptedPods` themselves; an entry without a deletion is dropped after two minutes, so that a failed
eviction does not use up the budget forever.
"""

from __future__ import annotations

import asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.controllers.context import ControllerContext
from podfit.controllers.disruption.budget import Count, counts, is_healthy, needs_scale, selector_text
from podfit.controllers.disruption.scales import NoScale, Scales, controller_of, replicas_of
from podfit.controllers.disruption.stale import StaleDisruptions
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

PDB = kind_named("PodDisruptionBudget")
_DELETION_TIMEOUT_S = 120.0
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)
Key = tuple[str, str]


class DisruptionController:
    name = "disruption-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._budgets, self._pods = context.cache(PDB), context.cache(POD)
        self._scales = Scales(context)
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)
        for cache in self._scales.followed:
            cache.subscribe(self._owner_changed)
        self._stale = StaleDisruptions(context, self.name)

    async def run(self) -> None:
        await asyncio.gather(self._engine.run(), self._stale.run())

    def _budget_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        namespace = (after or before or {})["metadata"]["namespace"]
        for budget in self._budgets.by("namespace", namespace):
            if any(pod is not None and _covers(budget, pod) for pod in (before, after)):
                self._budget_changed(None, budget)

    def _owner_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None or before is None or replicas_of(before) == replicas_of(after):
            return
        for budget in self._budgets.by("namespace", after["metadata"]["namespace"]):
            self._budget_changed(None, budget)

    async def _reconcile(self, key: Key) -> Result:
        budget = self._budgets.get(*key)
        if budget is None:
            return DONE
        pods = [pod for pod in self._pods.by("namespace", key[0]) if _covers(budget, pod)]
        disrupted, recheck_s = self._disrupted(budget, pods)
        healthy = sum(1 for pod in pods if is_healthy(pod) and pod["metadata"]["name"] not in disrupted)
        if not pods:
            self._context.recorder.record(budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected = await self._expected(budget, pods) if needs_scale(budget["spec"]) else len(pods)
            status = self._status(budget, counts(budget["spec"], expected, healthy), disrupted)
        except NoScale as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._context.recorder.record(budget, "Warning", "CalculateExpectedPodCountFailed", message)
            status = self._failed(budget, str(error))
        if status != budget.get("status"):
            await self._context.client.update(PDB, {**budget, "status": status}, "status")
        return Requeue(recheck_s, "an eviction is not visible yet") if recheck_s else DONE

    def _disrupted(self, budget: Object, pods: list[Object]) -> tuple[dict[str, str], float]:
        """The evictions in progress, and when to check them again."""
        now = self._context.clock.now()
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        left: dict[str, str] = {}
        recheck_s = 0.0
        for name, since in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            pod = by_name.get(name)
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                continue
            remaining = parse_rfc3339(since) + _DELETION_TIMEOUT_S - now
            if remaining > 0:
                left[name] = since
                recheck_s = min(recheck_s, remaining) if recheck_s else remaining
            else:
                self._context.recorder.record(
                    pod,
                    "Warning",
                    "NotDeleted",
                    "Pod was expected by PDB " + "{}/{} to be deleted but it wasn't".format(*_key(budget)),
                )
        return left, recheck_s

    async def _expected(self, budget: Object, pods: list[Object]) -> int:
        """The desired number of pods of their controllers together; pods without one do not count."""
        replicas: dict[str, int] = {}
        owners = [(pod, controller_of(pod)) for pod in pods]
        for pod, owner in owners:
            if owner is not None and owner["uid"] not in replicas:
                uid, count = await self._scales.of(owner, pod)
                replicas[uid] = count
        if any(owner is None for _, owner in owners):
            message = _UNMANAGED.format(selector_text(budget["spec"].get("selector")))
            self._context.recorder.record(budget, "Warning", "UnmanagedPods", message)
        return sum(replicas.values())

    def _status(self, budget: Object, count: Count, disrupted: dict[str, str]) -> Object:
        status: Object = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": count.allowed,
            "currentHealthy": count.healthy,
            "desiredHealthy": count.desired,
            "expectedPods": count.expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        reason = "SufficientPods" if count.allowed else "InsufficientPods"
        status["conditions"] = self._conditions(budget, count.allowed > 0, reason, "", status["observedGeneration"])
        return status

    def _failed(self, budget: Object, message: str) -> Object:
        status = {key: value for key, value in (budget.get("status") or {}).items() if key != "conditions"}
        status["disruptionsAllowed"] = 0
        for field in ("currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
        # The status counts the previous generation: evictions wait until it is updated.
        status["conditions"] = self._conditions(
            budget, False, "SyncFailed", message, int(status.get("observedGeneration", 0))
        )
        return status

    def _conditions(self, budget: Object, allowed: bool, reason: str, message: str, generation: int) -> list[Object]:
        old = (budget.get("status") or {}).get("conditions") or []
        before = next((listed for listed in old if listed["type"] == "DisruptionAllowed"), None)
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            **({"observedGeneration": generation} if generation else {}),
            "lastTransitionTime": rfc3339(self._context.clock.now()),
            "reason": reason,
            "message": message,
        }
        if before is not None and before["status"] == condition["status"]:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        return [condition, *(kept for kept in old if kept["type"] != "DisruptionAllowed")]


def _key(budget: Object) -> Key:
    return budget["metadata"]["namespace"], budget["metadata"]["name"]


def _covers(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return LabelSelector.from_object(selector).matches(pod["metadata"].get("labels") or {})
