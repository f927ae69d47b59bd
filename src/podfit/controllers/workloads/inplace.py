"""In-place by choice: a change of a template's cpu and memory resizes the running pods instead of replacing them.

Asked for with the annotation `podfit.dev/resize-policy: InPlace` on the workload. Pods are resized through /resize, at
most as many at a time as the workload may miss; a pod is replaced only where its resize is refused (a QoS change, for
one) or still waits after the deadline (`podfit.dev/resize-deadline`, default 5m). `decide` is pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from podfit.api.kinds import POD
from podfit.api.quantity import Quantity
from podfit.api.status import ApiError, Object
from podfit.client.rest import STRATEGIC
from podfit.controllers.workloads.ownership import Owned
from podfit.controllers.workloads.podstate import condition, is_ready
from podfit.controllers.world import World
from podfit.kit.clock import parse_rfc3339
from podfit.reconcile import DONE, Again, Result

POLICY = "podfit.dev/resize-policy"
DEADLINE = "podfit.dev/resize-deadline"
BATCH = "podfit.dev/resize-max-unavailable"
"""On a ReplicaSet: how many pods a Deployment lets it resize at a time."""
DEFAULT_DEADLINE_S = 300.0
_RESIZABLE = ("cpu", "memory")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def wants_in_place(workload: Object) -> bool:
    return (workload["metadata"].get("annotations") or {}).get(POLICY) == "InPlace"


def deadline_s(workload: Object) -> float:
    text = (workload["metadata"].get("annotations") or {}).get(DEADLINE, "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return total if total > 0 else DEFAULT_DEADLINE_S


# --- comparing templates ------------------------------------------------------------------------------------------


def without_sizes(spec: Object) -> Object:
    """A pod spec with cpu and memory taken out: what must be equal for a resize to be enough."""
    bare = {**spec}
    for field in ("containers", "initContainers"):
        if field in bare:
            bare[field] = [{**one, "resources": _bare(one.get("resources") or {})} for one in bare[field] or []]
    if "resources" in bare:
        bare["resources"] = _bare(bare["resources"] or {})
    return bare


def _bare(resources: Object) -> Object:
    kept = {key: value for key, value in resources.items() if key not in ("requests", "limits")}
    for field in ("requests", "limits"):
        rest = {name: value for name, value in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        if rest:
            kept[field] = rest
    return kept


def differ_in_size_only(one: Object, other: Object) -> bool:
    """Two templates that a resize of their pods brings together."""
    bare_one = {**one, "spec": without_sizes(one.get("spec") or {})}
    bare_other = {**other, "spec": without_sizes(other.get("spec") or {})}
    return bare_one == bare_other


def size_patch(pod: Object, template: Object) -> Object | None:
    """The strategic merge patch for /resize that brings `pod` to the template's sizes; None when it has them."""
    spec, wanted = pod["spec"], template.get("spec") or {}
    change: Object = {}
    for field in ("containers", "initContainers"):
        have = {one["name"]: one.get("resources") or {} for one in spec.get(field) or []}
        parts = []
        for container in wanted.get(field) or []:
            delta = _delta(have.get(container["name"], {}), container.get("resources") or {})
            if container["name"] in have and delta:
                parts.append({"name": container["name"], "resources": delta})
        if parts:
            change[field] = parts
    level = _delta(spec.get("resources") or {}, wanted.get("resources") or {})
    if level:
        change["resources"] = level
    return {"spec": change} if change else None


def _delta(have: Object, want: Object) -> Object:
    delta: Object = {}
    for field in ("requests", "limits"):
        old, new = have.get(field) or {}, want.get(field) or {}
        changed = {
            name: new[name]
            for name in _RESIZABLE
            if name in new and (name not in old or Quantity.parse(old[name]) != Quantity.parse(new[name]))
        }
        if changed:
            delta[field] = changed
    return delta


# --- deciding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resize:
    pod: Object
    patch: Object


@dataclass(frozen=True, slots=True)
class Replace:
    pod: Object
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[Resize | Replace, ...]
    done: int
    waiting: int
    look_again_s: float


def resize_state(pod: Object) -> tuple[str, Object | None]:
    """("settled", None), ("moving", condition) or ("refused", condition)."""
    pending, progress = condition(pod, "PodResizePending"), condition(pod, "PodResizeInProgress")
    if pending is not None and pending["status"] == "True":
        return "refused", pending
    if progress is not None and progress["status"] == "True":
        return ("refused" if progress.get("reason") == "Error" else "moving"), progress
    if int((pod.get("status") or {}).get("observedGeneration") or 0) < int(pod["metadata"].get("generation") or 0):
        return ("moving", None) if (pod.get("spec") or {}).get("nodeName") else ("settled", None)
    return "settled", None


def is_resized(pod: Object, template: Object) -> bool:
    """Whether the pod has the template's sizes in truth: asked for, granted and in force."""
    return size_patch(pod, template) is None and resize_state(pod)[0] == "settled"


def decide(pods: list[Object], template: Object, batch: int, deadline: float, now: float) -> Plan:
    """The next steps: finish the batch under way, give up on what waited too long, then take the next pods."""
    steps: list[Resize | Replace] = []
    moving, done, again = 0, 0, 0.0
    todo: list[tuple[Object, Object]] = []
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        patch = size_patch(pod, template)
        state, why = resize_state(pod)
        if patch is not None and state != "moving":
            todo.append((pod, patch))
        elif state == "settled":
            done += 1
        else:
            moving += 1
            if state == "refused" and why is not None:
                left = (
                    parse_rfc3339(why["lastTransitionTime"]) + deadline - now
                    if why.get("lastTransitionTime")
                    else deadline
                )
                if left <= 0:
                    steps.append(Replace(pod, f"{why.get('reason', '')}: {why.get('message', '')}"))
                else:
                    again = min(again, left) if again else left
    # Pods that are not ready lose nothing by being resized now; ready ones go by the batch.
    todo.sort(key=lambda pair: is_ready(pair[0]))
    room = max(0, batch - moving)
    steps += [Resize(pod, patch) for pod, patch in todo[:room]]
    return Plan(tuple(steps), done, moving + len(todo), again)


# --- acting -------------------------------------------------------------------------------------------------------


class InPlace:
    """Carries out plans for one controller and tells how far they are."""

    def __init__(self, world: World, owned: Owned) -> None:
        self._world, self._owned = world, owned
        self._told: dict[str, tuple[int, int]] = {}

    async def advance(self, workload: Object, template: Object, pods: list[Object]) -> Result:
        plan = decide(pods, template, self._batch(workload), deadline_s(workload), self._world.clock.now())
        for step in plan.steps:
            if isinstance(step, Resize):
                await self._resize(workload, step)
            else:
                await self._replace(workload, step.pod, step.why)
        self._tell(workload, plan)
        return Again(plan.look_again_s, "a resize may wait until its deadline") if plan.look_again_s else DONE

    @staticmethod
    def _batch(workload: Object) -> int:
        try:
            return max(1, int((workload["metadata"].get("annotations") or {}).get(BATCH, "1")))
        except ValueError:
            return 1

    async def _resize(self, workload: Object, step: Resize) -> None:
        meta = step.pod["metadata"]
        try:
            await self._world.client.patch(
                POD, meta["namespace"], meta["name"], step.patch, subresource="resize", content_type=STRATEGIC
            )
        except ApiError as error:
            if error.code == 404:
                return
            if error.code not in (403, 422):
                raise
            await self._replace(workload, step.pod, error.message)

    async def _replace(self, workload: Object, pod: Object, why: str) -> None:
        name = pod["metadata"]["name"]
        await self._owned.delete(pod)
        self._world.recorder.record(
            workload, "Warning", "InPlaceResizeFellBack", f"Pod {name} is replaced, its resize was not possible: {why}"
        )

    def _tell(self, workload: Object, plan: Plan) -> None:
        uid, total = workload["metadata"]["uid"], plan.done + plan.waiting
        state = (plan.done, total)
        before = self._told.get(uid)
        if before == state:
            return
        self._told[uid] = state
        if plan.waiting:
            message = f"Resizing pods in place: {plan.done} of {total} done"
            self._world.recorder.record(workload, "Normal", "InPlaceResizeProgressing", message)
        elif before is not None and before[0] < before[1]:
            self._world.recorder.record(
                workload, "Normal", "InPlaceResizeCompleted", f"All {total} pods were resized in place"
            )
