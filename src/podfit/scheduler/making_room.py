"""The policy for resizes that stay deferred: after the deadline, lower-priority pods of the node are evicted.

Off by default (`wait`), as in Kubernetes. Evictions go through the API, so disruption budgets are enforced.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.client import Cache
from podfit.kit.clock import Clock
from podfit.scheduler.act import SchedulerWrites
from podfit.scheduler.config import PREEMPT, SchedulerConfig
from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.deferred import Evict, Unresolvable, deferred_since, make_room
from podfit.scheduler.decide.pod.pods import Key, pod_key
from podfit.scheduler.decide.preempt import budgets_from
from podfit.scheduler.metrics import SchedulerMetrics
from podfit.scheduler.observe import Observer

_AGAIN_S = 10.0
"""The interval between two attempts for the same pod: victims need time to terminate, and a budget time to recover."""


class MakingRoom:
    def __init__(
        self,
        config: SchedulerConfig,
        board: Board,
        observer: Observer,
        budgets: Cache,
        writes: SchedulerWrites,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._config, self._board, self._observer, self._budgets = config, board, observer, budgets
        self._writes, self._metrics, self._clock = writes, metrics, clock
        self._tried: dict[Key, float] = {}

    def check(self) -> None:
        """Acts for every pod whose deadline has passed."""
        if self._config.deferred_resize_policy != PREEMPT or not self._observer.deferred:
            self._tried.clear()
            return
        now, mono = self._clock.now(), self._clock.monotonic()
        self._tried = {key: at for key, at in self._tried.items() if key in self._observer.deferred}
        for key, pod in list(self._observer.deferred.items()):
            since = deferred_since(pod)
            due = since is not None and now - since >= self._config.deferred_resize_deadline_s
            if due and mono - self._tried.get(key, float("-inf")) >= _AGAIN_S:
                self._tried[key] = mono
                self._for_pod(pod)

    def _for_pod(self, pod: Object) -> None:
        snapshot = self._board.snapshot
        name = pod["spec"]["nodeName"]
        row = snapshot.rows.get(name, -1)
        node = snapshot.nodes[row] if row >= 0 else None
        if node is None or pod["metadata"].get("deletionTimestamp"):
            return
        pods = [bound.pod for bound in snapshot.here[row].values()]
        outcome = make_room(pod, node, pods, budgets_from(self._budgets))
        if isinstance(outcome, Evict):
            self._writes.write(lambda: self._evict(pod, outcome.victims, name))
        elif isinstance(outcome, Unresolvable):
            why = (
                f"No room can be made for the deferred resize on node {name}: no "
                f"lower-priority pods can be preempted; {outcome}"
            )
            self._writes.emit(pod, "Warning", "ResizePreemptionFailed", f"{why} missing")

    async def _evict(self, pod: Object, victims: tuple[Object, ...], node: str) -> None:
        namespace, name = pod_key(pod)
        why = f"Preempted to make room for the deferred resize of pod {namespace}/{name} on node {node}"
        gone: list[str] = []
        kept: list[str] = []
        for victim in victims:
            done = await self._writes.evict(victim, why)
            (gone if done else kept).append("/".join(pod_key(victim)))
        self._metrics.deferred_evictions.inc(len(gone))
        if gone:
            message = f"Evicted {', '.join(gone)} from node {node} for the deferred resize"
            self._writes.emit(pod, "Normal", "ResizePreempting", message)
        if kept:
            message = f"Disruption budgets protect {', '.join(kept)} on node {node}; the resize stays deferred"
            self._writes.emit(pod, "Warning", "ResizePreemptionFailed", message)
