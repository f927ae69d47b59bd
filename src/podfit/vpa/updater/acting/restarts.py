"""Limits resizes that restart containers. They are disruptions, so they are subject to budgets and the rules of an
eviction, and there is one at a time."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.objects import ObjectView
from podfit.api.selectors import LabelSelector
from podfit.client import Cache
from podfit.kit.clock import Clock
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.pods import condition, containers, labels_of, limits_of, requests_of, resource_list
from podfit.vpa.observe.headroom import controller_key
from podfit.vpa.updater.acting.act import UpdaterWrites
from podfit.vpa.updater.decide.actions import Resize
from podfit.vpa.updater.decide.groups import required_replicas
from podfit.vpa.updater.decide.resizing import is_resizing
from podfit.vpa.updater.decide.restriction import Restriction
from podfit.vpa.updater.vpa_pass import VpaPass


def restarted_by(resize: Resize) -> list[str]:
    """The containers that a resize restarts, by the resizePolicy of a changed resource."""
    found = []
    for (index, kind, resource), amount in resize.changes.items():
        container = containers(resize.pod)[index]
        name = container.get("name") or ""
        policies = {
            policy.get("resourceName"): policy.get("restartPolicy") for policy in container.get("resizePolicy") or ()
        }
        held = (requests_of if kind == "requests" else limits_of)(resize.pod, name).get(resource)
        if policies.get(resource) == "RestartContainer" and held != amount and name not in found:
            found.append(name)
    return found


def is_back(pod: ObjectView) -> bool:
    """Whether a resized pod has its requested size, and is ready."""
    if is_resizing(pod) or (condition(pod, "Ready") or {}).get("status") != "True":
        return False
    for container in containers(pod):
        name, requested = container.get("name") or "", resource_list((container.get("resources") or {}).get("requests"))
        if any(requests_of(pod, name).get(resource) != amount for resource, amount in requested.items()):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _UnderWay:
    pod: ObjectView
    since: float


class Restarts:
    def __init__(self, writes: UpdaterWrites, budgets: Cache, pods: Cache, clock: Clock, timeout_s: float) -> None:
        """A pod that is not ready again within the timeout no longer delays others."""
        self._writes, self._budgets, self._pods, self._clock = writes, budgets, pods, clock
        self._timeout_s = timeout_s
        self._under_way: dict[str, _UnderWay] = {}
        """The pods that are restarting, by UID."""

    def begin(self) -> None:
        """Starts a pass: drops the pods that are ready again, and those that took too long."""
        now = self._clock.monotonic()
        for uid, entry in list(self._under_way.items()):
            meta = entry.pod["metadata"]
            pod = self._pods.get(meta.get("namespace", ""), meta["name"])
            gone = pod is None or pod["metadata"].get("uid", "") != uid
            if gone or now - entry.since > self._timeout_s or (pod is not None and is_back(pod)):
                del self._under_way[uid]

    async def ask(self, work: VpaPass, pod: ObjectView, names: list[str]) -> Wait | None:
        """Checks whether the pod may be restarted. None if it may; from then on it counts as restarting."""
        words = f"its resize restarts container {' and '.join(names)} (resizePolicy RestartContainer)"
        waiting = self._against_rules(work, pod, words) or self._behind_another(pod, words)
        if waiting is not None:
            return waiting
        uid = pod["metadata"].get("uid", "")
        # Recorded before the server is called, because other decisions are made in the meantime.
        self._under_way[uid] = _UnderWay(pod, self._clock.monotonic())
        refused = await self._writes.may_evict(pod)
        if refused is None:
            return None
        del self._under_way[uid]
        return Wait("DisruptionBudget", f"{words}, and an eviction would be refused: {refused}")

    def forget(self, pod: ObjectView) -> None:
        """Drops a pod whose resize was not sent, or was rejected."""
        self._under_way.pop(pod["metadata"].get("uid", ""), None)

    def _against_rules(self, work: VpaPass, pod: ObjectView, words: str) -> Wait | None:
        config = work.updater.config.model
        group = Restriction(work.pods, work.vpa, work.world.replicas_of, config, work.attempts).group_of(pod)
        if group is not None and not group.below_minimum:
            return None
        least = required_replicas(work.vpa, config)
        return Wait(
            "TooFewReplicas",
            f"{words}, and of its controller {len(work.pods)} of at least {least} replicas run: "
            "more replicas or a lower minReplicas of the autoscaler would allow it",
        )

    def _behind_another(self, pod: ObjectView, words: str) -> Wait | None:
        for entry in self._under_way.values():
            other, own = entry.pod["metadata"], pod["metadata"]
            if other.get("namespace") != own.get("namespace") or other.get("uid") == own.get("uid"):
                continue
            shared = "of the same controller" if controller_key(entry.pod) == controller_key(pod) else ""
            shared = shared or self._shared_budget(entry.pod, pod)
            if shared:
                return Wait("RestartUnderWay", f"{words}, and pod {other['name']} {shared} is not back: one at a time")
        return None

    def _shared_budget(self, one: ObjectView, other: ObjectView) -> str:
        for budget in self._budgets.by("namespace", one["metadata"].get("namespace", "")):
            selector = LabelSelector.from_object((budget.get("spec") or {}).get("selector"))
            if selector.matches(labels_of(one)) and selector.matches(labels_of(other)):
                return f"of the same PodDisruptionBudget, {budget['metadata']['name']},"
        return ""
