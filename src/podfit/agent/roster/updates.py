"""Applies newer states of a pod's object to its record, from whichever source they arrive.

States come from the watch, and from responses to the agent's own status writes. The watch also shows each of those
writes, before or after its response: a state that is only our own write changes nothing, any other triggers a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from podfit.agent.allocation.allocator import Allocator
from podfit.agent.core import Core
from podfit.agent.pods import termination
from podfit.agent.pods.conditions import Conditions
from podfit.agent.pods.record import PodRecord
from podfit.api.objects import Object
from podfit.api.resize.states import equal


class PodUpdates:
    def __init__(
        self, core: Core, records: Mapping[str, PodRecord], allocator: Allocator, conditions: Conditions
    ) -> None:
        self._queue, self._metrics, self._records = core.queue, core.metrics, records
        self._allocator, self.conditions = allocator, conditions

    # --- from the watch
    def watched(self, record: PodRecord, pod: Object) -> None:
        if newer(record.pod, pod):
            return
        if pod["metadata"].get("resourceVersion") == record.written:
            record.same_state(pod)
        elif record.writing and only_status_differs(record.pod, pod):
            # An API server in this process sends the watch event of a write before the response, which shows whether
            # the write is ours.
            if record.held_update is not None:
                # At most one of the two states is ours.
                self._queue.enqueue(record.uid)
            record.held_update = pod
        else:
            self.apply(record, pod)

    # --- from our own status writes
    @contextmanager
    def status_write(self, record: PodRecord) -> Iterator[None]:
        """While a status write is in progress, holds a state that may be that write until the response arrives."""
        record.writing = True
        try:
            yield
        finally:
            record.writing = False
            held, record.held_update = record.held_update, None
            if held is not None and self._records.get(record.uid) is record:
                if held["metadata"].get("resourceVersion") != record.written:
                    # This state may include our status, but our status was not computed from it.
                    self._queue.enqueue(record.uid)
                self.watched(record, held)

    def answered(self, record: PodRecord, answer: Object) -> None:
        """Applies the state of the pod in the response to our status write."""
        record.written = answer["metadata"].get("resourceVersion", "")
        if record.static:
            record.mirror = answer
        elif newer(record.pod, answer):
            return
        elif (held := record.held_update) is not None and held["metadata"].get("resourceVersion") == record.written:
            # This state was compared with ours when it arrived, and the cache keeps this copy anyway.
            record.held_update = None
            record.with_status(held)
        elif only_status_differs(record.pod, answer):
            record.with_status(answer)
        else:
            # Another client changed the pod before our write: the watch brings nothing newer than this.
            self.apply(record, answer)

    # --- newer states
    def apply(self, record: PodRecord, pod: Object) -> None:
        """Applies a newer state of the pod that is not our own write."""
        desired_before, generation_before = record.desired, record.generation
        record.pod = pod
        desired = record.desired
        if record.terminal:
            if record.admitted and not record.removed and not equal(desired, desired_before):
                self._allocator.desire_changed(record, desired_before)
            # No container runs: only the object remains to be released.
            termination.deleted(record)
            if record.termination is not None:
                self._queue.enqueue(record.uid)
            return
        if not equal(desired, desired_before):
            self._metrics.resize_requested(desired_before, desired)
            record.story.add("desired", "the spec changed", generation=record.generation)
            self._allocator.desire_changed(record, desired_before)
        elif record.admitted:
            self._allocator.recount(record)
            self.conditions.confirm(record, generation_before)
        termination.deleted(record)
        self._queue.enqueue(record.uid)

    def replace(self, record: PodRecord, pod: Object) -> None:
        """Replaces the state of a pod that is being migrated here, which belongs to another node until it has
        arrived."""
        record.pod = pod

    def set_mirror(self, record: PodRecord, mirror: Object | None) -> None:
        record.mirror = mirror


def newer(one: Object, other: Object) -> bool:
    """Whether `one` is a later state of the same object than `other`."""
    try:
        return int(one["metadata"]["resourceVersion"]) > int(other["metadata"]["resourceVersion"])
    except (KeyError, ValueError):
        return False


def only_status_differs(one: Object, other: Object) -> bool:
    return bool(one["spec"] == other["spec"]) and _lasting(one["metadata"]) == _lasting(other["metadata"])


def _lasting(meta: Object) -> Object:
    kept = dict(meta)
    kept.pop("resourceVersion", None)
    kept.pop("managedFields", None)
    return kept
