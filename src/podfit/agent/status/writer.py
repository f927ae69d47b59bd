"""Writes pod status: one PATCH with only the changes, or nothing at all.

A field that the API server rejects does not block the others. It is omitted until its value changes, and retried with a
backoff.
"""

from __future__ import annotations

import logging
from functools import partial

from podfit.agent.core import Core
from podfit.agent.decide.pod import older, status_changes
from podfit.agent.pods.record import PodRecord, RejectedStatus
from podfit.agent.roster.updates import PodUpdates
from podfit.agent.status.partial_writes import WriteOutcome, write_status
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.states import Allocated, equal
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC, Client
from podfit.kit.clock import rfc3339

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 10.0, 300.0


class StatusWriter:
    def __init__(self, core: Core, client: Client, updates: PodUpdates) -> None:
        self._clock, self._queue, self._client, self._updates = core.clock, core.queue, client, updates

    async def write(self, record: PodRecord, status: Object, allocated: Allocated | None = None) -> bool:
        """Writes the status. True if a write was necessary."""
        if record.static and record.mirror is None:
            return False
        form = await self._client.server_form()
        if not form.in_words:
            return await self._write(record, record.api_object.get("status") or {}, status)
        # An older server drops fields that it does not know: they are not sent again, and `status.resize` reports the
        # resize.
        undecided = allocated is not None and record.resize.pending is None and not equal(record.desired, allocated)
        step = None if undecided else older.between(record.api_object, status, rfc3339(self._clock.now()))
        before = older.known(record.api_object.get("status") or {})
        if step is not None and await self._write(record, before, step):
            before = older.known(record.api_object.get("status") or {})
        worded = older.in_words(status, before, undecided)
        return await self._write(record, before, worded, dropped=True)

    async def _write(self, record: PodRecord, before: Object, status: Object, dropped: bool = False) -> bool:
        uid = record.api_object["metadata"]["uid"]
        change = status_changes.patch(before, status, uid)
        if change is None:
            return False
        fields = self._without_rejected(record, change["status"])
        if dropped:
            fields = {name: value for name, value in fields.items() if record.dropped_status.get(name, fields) != value}
        if not fields:
            return False
        try:
            with self._updates.status_write(record):
                outcome = await write_status(partial(self._send, record), before, fields)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            if error.code != 409 or not await self._exists(record):
                # The pod is gone, or was replaced by a pod of the same name: the watch will show that.
                log.debug("status of %s not written: %s", record.name, error)
                return False
            outcome = WriteOutcome(None, {"status": error})
        self._keep_rejections(record, fields, outcome)
        if dropped and outcome.answer is not None:
            left = status_changes.patch(older.known(outcome.answer.get("status") or {}), status, uid)
            record.dropped_status = left["status"] if left is not None else {}
        return outcome.answer is not None

    async def _send(self, record: PodRecord, fields: Object) -> Object:
        meta = record.api_object["metadata"]
        change = {"metadata": {"uid": meta["uid"]}, "status": fields}
        answer = await self._client.patch(POD, record.namespace, meta["name"], change, "status", STRATEGIC)
        self._updates.answered(record, answer)
        return answer

    async def _exists(self, record: PodRecord) -> bool:
        meta = record.api_object["metadata"]
        try:
            found = await self._client.find(POD, record.namespace, meta["name"])
        except ApiError:
            return False
        return found is not None and found["metadata"]["uid"] == meta["uid"]

    # --- fields that the server rejects
    def _without_rejected(self, record: PodRecord, fields: Object) -> Object:
        rejected = record.rejected_status
        left_s = rejected.until - self._clock.monotonic() if rejected is not None else 0.0
        if rejected is None or left_s <= 0:
            return fields
        kept = {name: value for name, value in fields.items() if rejected.fields.get(name, fields) != value}
        if len(kept) < len(fields):
            self._queue.enqueue_after(record.uid, left_s)
        return kept

    def _keep_rejections(self, record: PodRecord, fields: Object, outcome: WriteOutcome) -> None:
        before, rejections = record.rejected_status, outcome.rejections
        if not rejections:
            record.rejected_status = None
            return
        tries = before.tries + 1 if before is not None else 1
        pause = min(_RETRY_FIRST_S * 2.0 ** (tries - 1), _RETRY_MOST_S)
        names = {name.partition(".")[0] for name in rejections}
        kept = (
            fields if "status" in names else {name: fields[name] for name in fields if name.rpartition("/")[2] in names}
        )
        record.rejected_status = RejectedStatus(kept, self._clock.monotonic() + pause, tries)
        log.warning(
            "pod %s/%s: the API server rejected parts of its status, next try in %.0f s: %s",
            record.namespace,
            record.name,
            pause,
            "; ".join(f"{name}: {error}" for name, error in rejections.items()),
        )
        self._queue.enqueue_after(record.uid, pause)
