"""Turns watch events into changes of the board and the queue; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from podfit.api.objects import Object
from podfit.api.pods.migrations import moving
from podfit.api.resize.counting import counted
from podfit.api.resize.dialects import NATIVE, dialect_of
from podfit.kit.clock import Clock
from podfit.scheduler.decide.board import Board
from podfit.scheduler.decide.deferred import deferred_since
from podfit.scheduler.decide.pod.pods import Key, finished, pod_key, resident
from podfit.scheduler.decide.queue import PodQueue

_NEVER_PREEMPTED = (1 << 31) - 1


class Observer:
    def __init__(
        self,
        board: Board,
        queue: PodQueue,
        clock: Clock,
        name: str,
        changed: Callable[[], None],
        pods_in: Callable[[str], Iterable[Object]],
    ) -> None:
        """`pods_in` returns the pods of a namespace from the API server."""
        self._board, self._queue, self._clock, self._name = board, queue, clock, name
        self._changed, self._pods_in = changed, pods_in
        self.assumed: dict[Key, str] = {}
        """Pods assumed on a node that the API server does not show yet, with their UID."""
        self.deferred: dict[Key, Object] = {}
        """Pods whose resize is deferred by their node."""
        self.default_dialect = NATIVE
        """The dialect of namespaces without a label."""

    # --- nodes, namespaces
    def node(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            assert before is not None
            self._board.snapshot.remove_node(before["metadata"]["name"])
        else:
            self._board.snapshot.put_node(after)
        self._changed()

    def namespace(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        name, counted_as = meta["name"], self._dialect(meta["name"])
        self._board.snapshot.put_namespace(name, None if after is None else meta.get("labels") or {})
        if self._dialect(name) != counted_as:
            for pod in self._pods_in(name):
                if (pod.get("spec") or {}).get("nodeName") and not finished(pod):
                    self._bound(self._counted(pod))
        self._changed()

    # --- pods
    def pod(self, before: Object | None, after: Object | None) -> None:
        self._reserve(before, after)
        if after is None or finished(after):
            self._on_deleted(pod_key(after or before or {}))
        elif (after.get("spec") or {}).get("nodeName"):
            if not self._bound(self._counted(after)):
                return
        elif (after["spec"].get("schedulerName") or "default-scheduler") == self._name:
            self._unbound(before, after)
        self._changed()

    def _reserve(self, before: Object | None, after: Object | None) -> None:
        """Counts a pod in migration at its target, too, as an additional pod with a name that no pod can have."""
        was = before is not None and moving(before) is not None
        migration = moving(after) if after is not None and not finished(after) else None
        if not was and migration is None:
            return
        pod = after if after is not None else before
        assert pod is not None
        meta = pod["metadata"]
        there = {**pod, "metadata": {**meta, "name": f"{meta['name']}/{meta['name']}"}}
        if migration is None:
            self._board.snapshot.remove_pod(pod_key(there))
        else:
            reserved = resident(self._counted(there), migration.target)
            # Preempting it would free nothing: the pod itself is elsewhere.
            reserved.priority = _NEVER_PREEMPTED
            self._board.snapshot.put_pod(reserved)

    def _counted(self, pod: Object) -> Object:
        """The pod with the size that counts in its namespace: a dialect may have its own rule."""
        return counted(pod, self._dialect(pod["metadata"].get("namespace") or ""))

    def _dialect(self, namespace: str) -> str:
        return dialect_of(self._board.snapshot.namespaces.get(namespace), self.default_dialect)

    def _on_deleted(self, key: Key) -> None:
        self._queue.remove(key)
        self._board.unnominate(key)
        self._board.snapshot.remove_pod(key)
        self.assumed.pop(key, None)
        self.deferred.pop(key, None)

    def _bound(self, pod: Object) -> bool:
        """Applies the state of a bound pod; returns whether a row changed. Most updates change none."""
        key, snapshot = pod_key(pod), self._board.snapshot
        known = snapshot.pods.get(key)
        if known is None or not known.still(pod):
            snapshot.put_pod(resident(pod))
            self._placed(key)
            self._watch_deferred(key, pod)
            return True
        placed, needs = not known.bound, known.other_needs(pod)
        if placed:
            self._placed(key)
        if needs is not None:
            snapshot.resize_pod(known, needs)
        if known.pod.get("status") is not pod.get("status") or key in self.deferred:
            self._watch_deferred(key, pod)
        known.seen(pod)
        return placed or needs is not None

    def _placed(self, key: Key) -> None:
        """Removes the pod from the queue, and drops its nomination and assumption."""
        self._queue.remove(key)
        self._board.unnominate(key)
        self.assumed.pop(key, None)

    def _watch_deferred(self, key: Key, pod: Object) -> None:
        if deferred_since(pod) is None:
            self.deferred.pop(key, None)
        else:
            self.deferred[key] = pod

    def _unbound(self, before: Object | None, pod: Object) -> None:
        key, uid = pod_key(pod), pod["metadata"].get("uid") or ""
        if self.assumed.get(key) == uid:
            return
        if key in self.assumed:
            # Another pod of the same name: the deletion of the assumed one was not observed.
            self._on_deleted(key)
        if pod["metadata"].get("deletionTimestamp"):
            self._queue.remove(key)
            self._board.unnominate(key)
            return
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if nominated:
            self._board.nominate(pod, nominated)
        entry = self._queue.get(key)
        same = entry is not None and entry.uid == uid and before is not None and _same_requests(before, pod)
        if same and entry is not None:
            entry.pod = pod
        else:
            self._queue.add(pod, self._clock.monotonic(), bool(pod["spec"].get("schedulingGates")))


def _same_requests(before: Object, after: Object) -> bool:
    return bool(
        before.get("spec") == after.get("spec") and before["metadata"].get("labels") == after["metadata"].get("labels")
    )
