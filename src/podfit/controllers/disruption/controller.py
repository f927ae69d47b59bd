"""Keeps PodDisruptionBudget status right at every change of the pods a budget covers.

Evictions write `disruptedPods` themselves; an entry that no deletion followed is dropped after two minutes, so that a
failed eviction does not eat the budget for ever.
"""

from __future__ import annotations

from podfit.api.kinds import POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import Object
from podfit.controllers.disruption.budget import Count, counts, is_healthy, needs_scale
from podfit.controllers.world import World
from podfit.kit.clock import parse_rfc3339, rfc3339
from podfit.reconcile import DONE, Again, Engine, Result

PDB = kind_named("PodDisruptionBudget")
_SCALED = {
    (row.api_version, row.kind): row
    for row in map(kind_named, ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"))
}
_DELETION_TIMEOUT_S = 120.0
Key = tuple[str, str]


class NoScale(Exception):
    """A pod's controller has no scale to compare with; the message says which."""


class DisruptionController:
    name = "disruption-controller"

    def __init__(self, world: World) -> None:
        self._world = world
        self._budgets, self._pods = world.cache(PDB), world.cache(POD)
        self._owners = {id: world.cache(kind) for id, kind in _SCALED.items()}
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=world.clock)
        self._budgets.subscribe(self._budget_changed)
        self._pods.subscribe(self._pod_changed)
        for cache in self._owners.values():
            cache.subscribe(self._owner_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _budget_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        namespace = (after or before or {})["metadata"]["namespace"]
        for budget in self._budgets.by("namespace", namespace):
            if any(pod is not None and _covers(budget, pod) for pod in (before, after)):
                self._budget_changed(None, budget)

    def _owner_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None or before is None or _replicas(before) == _replicas(after):
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
        try:
            expected = self._expected(pods) if needs_scale(budget["spec"]) else len(pods)
            status = self._status(budget, counts(budget["spec"], expected, healthy), disrupted)
        except NoScale as error:
            self._world.recorder.record(
                budget,
                "Warning",
                "CalculateExpectedPodCountFailed",
                f"Failed to calculate the number of expected pods: {error}",
            )
            status = self._failed(budget, str(error))
        if status != budget.get("status"):
            await self._world.client.update(PDB, {**budget, "status": status}, "status")
        return Again(recheck_s, "an eviction has not shown yet") if recheck_s else DONE

    def _disrupted(self, budget: Object, pods: list[Object]) -> tuple[dict[str, str], float]:
        """The evictions still under way, and when to look at them again."""
        now = self._world.clock.now()
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
                self._world.recorder.record(
                    pod,
                    "Warning",
                    "NotDeleted",
                    "Pod was expected by PDB " + "{}/{} to be deleted but it wasn't".format(*_key(budget)),
                )
        return left, recheck_s

    def _expected(self, pods: list[Object]) -> int:
        replicas: dict[str, int] = {}
        for pod in pods:
            owner = _controller(pod)
            if owner is None:
                raise NoScale(f"found no controller ref for pod {pod['metadata']['name']!r}".replace("'", '"'))
            uid, count = self._scale(owner, pod["metadata"]["namespace"])
            replicas[uid] = count
        return sum(replicas.values())

    def _scale(self, owner: Object, namespace: str) -> tuple[str, int]:
        cache = self._owners.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        obj = cache.get(namespace, owner["name"]) if cache is not None else None
        if obj is None or obj["metadata"]["uid"] != owner["uid"]:
            raise NoScale(f"{owner.get('apiVersion')}.{owner.get('kind')} does not implement the scale subresource")
        above = _controller(obj)
        if above is not None and above.get("kind") == "Deployment":
            return self._scale(above, namespace)
        return owner["uid"], _replicas(obj)

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
        status["conditions"] = self._conditions(budget, count.allowed > 0, reason, "")
        return status

    def _failed(self, budget: Object, message: str) -> Object:
        status = {key: value for key, value in (budget.get("status") or {}).items() if key != "conditions"}
        status["disruptionsAllowed"] = 0
        for field in ("currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
        status["observedGeneration"] = budget["metadata"].get("generation", 0)
        status["conditions"] = self._conditions(budget, False, "SyncFailed", message)
        return status

    def _conditions(self, budget: Object, allowed: bool, reason: str, message: str) -> list[Object]:
        old = (budget.get("status") or {}).get("conditions") or []
        before = next((one for one in old if one["type"] == "DisruptionAllowed"), None)
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "observedGeneration": budget["metadata"].get("generation", 0),
            "lastTransitionTime": rfc3339(self._world.clock.now()),
            "reason": reason,
            "message": message,
        }
        if before is not None and before["status"] == condition["status"]:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        return [condition, *(one for one in old if one["type"] != "DisruptionAllowed")]


def _key(budget: Object) -> Key:
    return budget["metadata"]["namespace"], budget["metadata"]["name"]


def _covers(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return LabelSelector.from_object(selector).matches(pod["metadata"].get("labels") or {})


def _replicas(obj: Object) -> int:
    return int((obj.get("spec") or {}).get("replicas", 1))


def _controller(obj: Object) -> Object | None:
    return next((owner for owner in obj["metadata"].get("ownerReferences") or [] if owner.get("controller")), None)
