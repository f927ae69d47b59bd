"""In-place updates, opt-in: a change of a template's cpu and memory resizes the running pods instead of replacing them.

Enabled by the annotation `podfit.dev/resize-policy: InPlace` on the workload. Pods are resized through /resize, at most
as many at a time as may be unavailable; a pod is replaced only if its resize is refused (because of a QoS change, for
example) or still pending after the deadline (`podfit.dev/resize-deadline`, default 5m). The sizes that a pod was
resized to are recorded on it: autoscalers and users may change it afterwards without a conflict. `decide` is pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.conditions import DEFERRED, ERROR, INFEASIBLE
from podfit.api.resize.progress import InProgress, Pending, Progress, Settled, progress
from podfit.api.resize.verdicts import Deferred, Infeasible, Unknown
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.ownership import Owned
from podfit.controllers.workloads.podstate import is_ready
from podfit.controllers.workloads.sizes import SIZED_FOR, marked, size_mark, size_patch
from podfit.kit.clock import parse_rfc3339
from podfit.kit.durations import UNITS_S
from podfit.reconcile import DONE, Requeue, Result

POLICY = "podfit.dev/resize-policy"
DEADLINE = "podfit.dev/resize-deadline"
BATCH = "podfit.dev/resize-max-unavailable"
"""On a ReplicaSet: how many pods a Deployment lets it resize at a time."""
DEFAULT_DEADLINE_S = 300.0
_REPORTS = 5
"""The number of Events that report the progress of resizes of a workload."""


def wants_in_place(workload: Object) -> bool:
    return (workload["metadata"].get("annotations") or {}).get(POLICY) == "InPlace"


def marks_of(workload: Object, template: Object) -> dict[str, str]:
    """Annotations of a pod that is created with the template's sizes."""
    return {SIZED_FOR: size_mark(template)} if wants_in_place(workload) else {}


def batch_of(workload: Object) -> int:
    """The number of pods that a ReplicaSet may resize at a time; one, unless a Deployment set it."""
    try:
        return max(1, int((workload["metadata"].get("annotations") or {}).get(BATCH, "1")))
    except ValueError:
        return 1


def deadline_s(workload: Object) -> float:
    text = (workload["metadata"].get("annotations") or {}).get(DEADLINE, "")
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text)
    total = sum(float(number) * UNITS_S[unit] for number, unit in parts)
    return total if total > 0 else DEFAULT_DEADLINE_S


# --- deciding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResizePod:
    pod: Object
    patch: Object
    mark: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Records the sizes that the pod was resized to."""

    pod: Object
    mark: str


@dataclass(frozen=True, slots=True)
class Replace:
    pod: Object
    why: str


Step = ResizePod | Mark | Replace


@dataclass(frozen=True, slots=True)
class InPlaceSteps:
    steps: tuple[Step, ...]
    done: int
    waiting: int
    look_again_s: float


def decide(pods: list[Object], template: Object, batch: int, deadline: float, now: float) -> InPlaceSteps:
    """The next steps: finish the batch in progress, give up on resizes past the deadline, then take the next pods in
    order."""
    steps: list[Step] = []
    mark = size_mark(template)
    moving, down, done, again = 0, 0, 0, 0.0
    todo: list[ResizePod] = []
    for pod in pods:
        patch = size_patch(pod, template)
        stands = progress(pod)
        refusal = _refusal(stands)
        if patch is None and marked(pod) not in ("", mark):
            # Resized, but not recorded yet.
            steps.append(Mark(pod, mark))
        if patch is not None and (refusal is not None or isinstance(stands, Settled)):
            todo.append(ResizePod(pod, patch, mark))
        elif isinstance(stands, Settled):
            done += 1
            # A pod without a node does not count: it may be waiting for room that resizing the others frees.
            down += not is_ready(pod) and bool(pod["spec"].get("nodeName"))
        else:
            moving += 1
            if refusal is not None:
                since, why = refusal
                left = parse_rfc3339(since) + deadline - now if since else deadline
                if left <= 0:
                    steps.append(Replace(pod, why))
                else:
                    again = min(again, left) if again else left
    # Resizing unavailable pods costs nothing; each ready one may be unavailable for a while.
    broken = [step for step in todo if not is_ready(step.pod)]
    serving = [step for step in todo if is_ready(step.pod)]
    steps += broken[: max(0, batch - moving)]
    steps += serving[: max(0, batch - moving - down - len(broken))]
    return InPlaceSteps(tuple(steps), done, moving + len(todo), again)


def _refusal(stands: Progress) -> tuple[str, str] | None:
    """The time since which a resize has been pending or failing, and the reason; None if it is neither."""
    match stands:
        case Pending(verdict=Deferred(message=message), since=since):
            return since or "", f"{DEFERRED}: {message}"
        case Pending(verdict=Infeasible(message=message), since=since):
            return since or "", f"{INFEASIBLE}: {message}"
        case Pending(verdict=Unknown(reason=reason, message=message), since=since):
            return since or "", f"{reason}: {message}"
        case InProgress(failing=True, error=message, since=since):
            return since or "", f"{ERROR}: {message}"
    return None


# --- acting -------------------------------------------------------------------------------------------------------


class InPlace:
    """Carries out plans for one controller and reports their progress."""

    def __init__(self, context: ControllerContext, owned: Owned) -> None:
        self._context, self._owned = context.acting("inplace-resize-controller"), owned
        # A recorder of its own: a controller that creates forty pods may have used up its rate limit for their owner.
        self._recorder = context.recorder.named("inplace-resize-controller")
        self._reported: dict[str, tuple[int, int]] = {}

    async def advance(self, workload: Object, template: Object, pods: list[Object], batch: int) -> Result:
        """Resizes at most `batch` pods at a time, in the order given."""
        plan = decide(pods, template, batch, deadline_s(workload), self._context.clock.now())
        for step in plan.steps:
            if isinstance(step, ResizePod):
                await self._resize(workload, step)
            elif isinstance(step, Mark):
                await self._mark(step.pod, step.mark)
            else:
                await self._replace(workload, step.pod, step.why)
        self._emit_event(workload, plan)
        return Requeue(plan.look_again_s, "a resize may wait until its deadline") if plan.look_again_s else DONE

    async def _resize(self, workload: Object, step: ResizePod) -> None:
        meta = step.pod["metadata"]
        try:
            await self._context.client.patch(
                POD, meta["namespace"], meta["name"], step.patch, subresource="resize", content_type=STRATEGIC
            )
        except ApiError as error:
            if error.code == 404:
                return
            if error.code not in (403, 422):
                raise
            await self._replace(workload, step.pod, error.message)
        else:
            await self._mark(step.pod, step.mark)

    async def _mark(self, pod: Object, mark: str) -> None:
        """Records the sizes on the pod. Only after the resize: a pod without the record is checked again, a pod with it
        is not."""
        meta = pod["metadata"]
        change = {"metadata": {"annotations": {SIZED_FOR: mark}}}
        try:
            await self._context.client.patch(POD, meta["namespace"], meta["name"], change)
        except ApiError as error:
            if error.code != 404:
                raise

    async def _replace(self, workload: Object, pod: Object, why: str) -> None:
        name = pod["metadata"]["name"]
        await self._owned.delete(pod)
        self._recorder.record(
            workload, "Warning", "InPlaceResizeFellBack", f"Pod {name} is replaced, its resize was not possible: {why}"
        )

    def _emit_event(self, workload: Object, plan: InPlaceSteps) -> None:
        uid, total = workload["metadata"]["uid"], plan.done + plan.waiting
        state = (plan.done, total)
        before = self._reported.get(uid)
        if before == state:
            return
        step = max(1, total // _REPORTS)
        if plan.waiting and before is not None and before[1] == total and before[0] // step == plan.done // step:
            return
        self._reported[uid] = state
        if plan.waiting:
            message = f"Resizing pods in place: {plan.done} of {total} done"
            self._recorder.record(workload, "Normal", "InPlaceResizeProgressing", message)
        elif before is not None and before[0] < before[1]:
            self._recorder.record(
                workload, "Normal", "InPlaceResizeCompleted", f"All {total} pods were resized in place"
            )
