"""The scheduler's writes to the cluster: bind, report a refusal, preempt, evict. No decisions here.

Writes wait in two queues with workers of their own, so that a burst of refusals never delays bindings.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client import Client, EventRecorder
from podfit.client.rest import STRATEGIC
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.scheduler.decide.pod.pods import pod_key

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]
_MAX_UNSENT = 10_000
_IDLE_S, _MAX_WAIT_S = 0.1, 3.0
"""Events are sent after no binding for this long; the oldest waits no longer than that."""
ACTIONS = {
    "Scheduled": "Binding",
    "FailedScheduling": "Scheduling",
    **dict.fromkeys(("Preempted", "ResizePreempting", "ResizePreemptionFailed"), "Preempting"),
}
"""The action of each Event reason."""
_BATCH = 16
"""The number of Events sent between two checks for more urgent work."""


class SchedulerWrites:
    """Executes the scheduler's decisions with a few workers."""

    def __init__(
        self, client: Client, recorder: EventRecorder, clock: Clock, name: str, busy: Callable[[], bool] = lambda: False
    ) -> None:
        """`busy` returns whether pods are due for a decision: Events are then delayed."""
        self._client, self._recorder, self._clock, self._name = client, recorder, clock, name
        self._busy, self._quiet = busy, asyncio.Event()
        self._binds: asyncio.Queue[Work] = asyncio.Queue()
        self._writes: asyncio.Queue[Work] = asyncio.Queue()
        self._unsent: deque[tuple[Object, str, str, str, float, Object | None]] = deque()
        self._bound_at = 0.0
        self._flushing = False

    def start(self, tasks: Tasks, binders: int, writers: int) -> None:
        for queue, count in ((self._binds, binders), (self._writes, writers)):
            for _ in range(count):
                tasks.start(self._work(queue), f"{self._name}-writes")
        tasks.start(self._send_events(), f"{self._name}-events")

    async def idle(self) -> None:
        await self._binds.join()
        await self._writes.join()
        self._flushing = True
        while self._unsent:
            self._quiet.set()
            await asyncio.sleep(0)
        await self._recorder.flush()
        self._flushing = False

    def bind(self, work: Work) -> None:
        self._binds.put_nowait(work)

    def write(self, work: Work) -> None:
        self._writes.put_nowait(work)

    async def _work(self, queue: asyncio.Queue[Work]) -> None:
        while True:
            work = await queue.get()
            try:
                await work()
            except (ApiError, Unreachable) as error:
                log.info("a write failed: %s", error)
            except Exception:
                log.exception("a write failed")
            finally:
                queue.task_done()
                if self._is_idle():
                    self._quiet.set()

    # --- the writes
    async def bind_pod(self, pod: Object, node: str) -> None:
        namespace, name = pod_key(pod)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"].get("uid", "")},
            "target": {"kind": "Node", "name": node},
        }
        await self._client.create(POD, binding, namespace, name, "binding")
        self._bound_at = asyncio.get_running_loop().time()
        self.emit(pod, "Normal", "Scheduled", f"Successfully assigned {namespace}/{name} to {node}")

    async def report_refusal(self, pod: Object, reason: str, message: str, nominated: str | None) -> None:
        """Writes PodScheduled=False, only if it changed. `nominated`: None leaves the nomination unchanged."""
        status = pod.get("status") or {}
        rows: list[Object] = status.get("conditions") or []
        before: Object = next((row for row in rows if row.get("type") == "PodScheduled"), {})
        same = (before.get("status"), before.get("reason"), before.get("message")) == ("False", reason, message)
        if same and (nominated is None or nominated == (status.get("nominatedNodeName") or "")):
            return
        row = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": before.get("lastTransitionTime")
            if before.get("status") == "False"
            else rfc3339(self._clock.now()),
        }
        if pod["metadata"].get("generation"):
            row["observedGeneration"] = pod["metadata"]["generation"]
        patch: Object = {"conditions": [row]}
        if nominated is not None:
            patch["nominatedNodeName"] = nominated or None
        await self._patch_status(pod, patch)

    async def clear_nomination(self, pod: Object) -> None:
        await self._patch_status(pod, {"nominatedNodeName": None})

    async def preempt(self, victim: Object, preemptor: Object, node: str) -> None:
        """Deletes a victim with its own grace period."""
        if victim["metadata"].get("deletionTimestamp"):
            return
        namespace, name = pod_key(victim)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        if victim["metadata"].get("generation"):
            condition["observedGeneration"] = victim["metadata"]["generation"]
        try:
            await self._patch_status(victim, {"conditions": [condition]})
            preconditions = {"uid": victim["metadata"].get("uid", "")}
            await self._client.delete(POD, namespace, name, {"preconditions": preconditions})
        except ApiError as error:
            if error.code != 404:
                raise
            return
        uid = preemptor["metadata"].get("uid", "")
        self.emit(victim, "Normal", "Preempted", f"Preempted by pod {uid} on node {node}", preemptor)

    async def evict(self, victim: Object, why: str) -> bool:
        """Evicts a pod through the Eviction API; False if a disruption budget forbids that."""
        namespace, name = pod_key(victim)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": victim["metadata"].get("uid", "")}},
        }
        try:
            await self._client.create(POD, eviction, namespace, name, "eviction")
        except ApiError as error:
            if error.code in (404, 409):
                return True
            if error.code == 429:
                return False
            raise
        self.emit(victim, "Normal", "Preempted", why)
        return True

    def emit(self, pod: Object, type: str, reason: str, message: str, because_of: Object | None = None) -> None:
        """Emits an Event; in a burst of bindings it waits, because bindings take precedence.

        `because_of`: the related object of the Event.
        """
        self._unsent.append((pod, type, reason, message, self._clock.now(), because_of))
        if self._is_idle() or len(self._unsent) >= _MAX_UNSENT:
            self._quiet.set()

    def _is_idle(self) -> bool:
        return self._binds.empty() and not self._busy()

    async def _send_events(self) -> None:
        while True:
            await self._quiet.wait()
            await self._wait_for_idle()
            for _ in range(min(_BATCH, len(self._unsent))):
                pod, type, reason, message, at_s, other = self._unsent.popleft()
                related = _typed(other) if other is not None else None
                self._recorder.record(_typed(pod), type, reason, message, at_s=at_s, related=related)
            await self._recorder.flush()
            if not self._unsent or (not self._is_idle() and len(self._unsent) < _MAX_UNSENT):
                self._quiet.clear()
            await asyncio.sleep(0)

    async def _wait_for_idle(self) -> None:
        """Waits until no pod was bound for a while: in a steady stream of pods, pauses are left to the next pod."""
        now = asyncio.get_running_loop().time
        while self._unsent and not self._flushing:
            if self._is_idle() and now() - self._bound_at >= _IDLE_S:
                return
            waited_s = self._clock.now() - self._unsent[0][4]
            if waited_s >= _MAX_WAIT_S or len(self._unsent) >= _MAX_UNSENT:
                return
            await asyncio.sleep(_IDLE_S / 4)

    async def _patch_status(self, pod: Object, status: Object) -> None:
        namespace, name = pod_key(pod)
        patch = {"metadata": {"uid": pod["metadata"].get("uid")}, "status": status}
        try:
            await self._client.patch(POD, namespace, name, patch, "status", STRATEGIC)
        except ApiError as error:
            # The pod is gone, or was replaced by another one of the same name.
            if error.code not in (404, 409):
                raise


def _typed(pod: Object) -> Object:
    return pod if pod.get("kind") else {**pod, "kind": "Pod", "apiVersion": "v1"}
