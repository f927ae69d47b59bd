"""Writes pod status: one PATCH with only what changed, or nothing at all.

A field that the API server rejects does not hold up the others. It is left out until it changes, and tried again from
time to time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from podfit.agent.answers import patience_s
from podfit.agent.decide import older
from podfit.agent.decide import status as statuses
from podfit.agent.decide.lifecycle import phase
from podfit.agent.decide.states import Allocated, equal
from podfit.agent.decide.status import Facts
from podfit.agent.observe import Snapshot, actual_limits
from podfit.agent.record import PodRecord, RejectedStatus
from podfit.agent.runtimes.base import Runtime
from podfit.agent.status_writes import Outcome, write_status
from podfit.api.kinds import POD
from podfit.api.status import ApiError, Object
from podfit.client.rest import STRATEGIC, Client
from podfit.kit.clock import Clock, rfc3339

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 10.0, 300.0


class Reporter:
    def __init__(self, client: Client, runtime: Runtime, clock: Clock, host_ip: str) -> None:
        self._client, self._runtime, self._clock = client, runtime, clock
        self.host_ip = host_ip
        self.missed: Callable[[PodRecord, Object], None] = lambda record, after: None
        """Told of the state of a pod that came while its status was written; set by the agent."""
        self.news: Callable[[PodRecord, Object], None] = lambda record, after: None
        """Told when the answer to a status shows what others changed in between; set by the agent."""
        self.look_after: Callable[[str, float], None] = lambda uid, seconds: None
        """Asks for another look at the pod after so long; set by the agent."""

    async def report(self, record: PodRecord, snapshot: Snapshot, initialized: bool) -> bool:
        """True when something had to be written."""
        limits, pod_limits = await actual_limits(self._runtime, snapshot)
        ending = record.ending
        over = record.finished or (ending is not None and not snapshot.running)
        shown = record.shown
        facts = Facts(
            pod=shown if shown is record.pod else {**record.pod, **_seen_by_the_api(shown)},
            qos=record.qos,
            desired=record.desired,
            allocated=snapshot.allocated,
            sized=record.sized(snapshot.allocated),
            actuated=snapshot.actuated,
            seen=snapshot.seen,
            resize=record.resize.completed() if patience_s(record, self._clock.monotonic()) > 0 else record.resize,
            phase=self._phase(record, snapshot, over),
            sandbox=snapshot.sandbox,
            initialized=initialized,
            now=self._clock.now(),
            start_time=self.start_time(record),
            host_ip=self.host_ip,
            ips=self._ips(record, snapshot),
            limits=limits,
            pod_limits=pod_limits,
            reason=ending.reason if ending is not None and over else "",
            message=ending.message if ending is not None and over else "",
            disrupted=ending.reason if ending is not None and ending.disrupted and over else "",
            runtime=self._runtime.name,
            counts=_counts(shown, snapshot),
        )
        return await self.write(record, statuses.build(facts), snapshot.allocated)

    def start_time(self, record: PodRecord) -> str:
        if not record.start_time:
            known = (record.shown.get("status") or {}).get("startTime")
            record.start_time = known or rfc3339(self._clock.now())
        return record.start_time

    @staticmethod
    def _phase(record: PodRecord, snapshot: Snapshot, over: bool) -> str:
        if record.ending is not None and record.ending.reason and over:
            return "Failed"
        return phase(record.pod, snapshot.seen, over, frozenset(record.restarting))

    def _ips(self, record: PodRecord, snapshot: Snapshot) -> tuple[str, ...]:
        if snapshot.state is None:
            return ()
        return (self.host_ip,) if record.pod["spec"].get("hostNetwork") else snapshot.state.ips

    async def write(self, record: PodRecord, status: Object, allocated: Allocated | None = None) -> bool:
        if record.static and record.mirror is None:
            return False
        form = await self._client.server_form()
        if not form.in_words:
            return await self._write(record, record.shown.get("status") or {}, status)
        # An older server: what it drops of a status is not sent again, and a resize has its word.
        undecided = allocated is not None and record.resize.pending is None and not equal(record.desired, allocated)
        step = None if undecided else older.between(record.shown, status, rfc3339(self._clock.now()))
        before = older.known(record.shown.get("status") or {})
        if step is not None and await self._write(record, before, step):
            before = older.known(record.shown.get("status") or {})
        worded = older.in_words(status, before, undecided)
        return await self._write(record, before, worded, dropped=True)

    async def _write(self, record: PodRecord, before: Object, status: Object, dropped: bool = False) -> bool:
        shown = record.shown
        change = statuses.patch(before, status, shown["metadata"]["uid"])
        if change is None:
            return False
        fields = self._without_rejected(record, change["status"])
        if dropped:
            fields = {name: value for name, value in fields.items() if record.dropped_status.get(name, fields) != value}
        if not fields:
            return False
        record.writing = True
        try:
            outcome = await write_status(partial(self._send, record), before, fields)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            if error.code == 409 and await self._is_there(record):
                outcome = Outcome(None, {"status": error})
            else:
                # Gone, or another pod of the same name: the watch will say so.
                log.debug("status of %s not written: %s", record.name, error)
                return False
        finally:
            record.writing = False
            self._catch_up(record)
        self._note_rejections(record, fields, outcome)
        if dropped and outcome.answer is not None:
            left = statuses.patch(older.known(outcome.answer.get("status") or {}), status, shown["metadata"]["uid"])
            record.dropped_status = left["status"] if left is not None else {}
        return outcome.answer is not None

    async def _send(self, record: PodRecord, fields: Object) -> Object:
        meta = record.shown["metadata"]
        change = {"metadata": {"uid": meta["uid"]}, "status": fields}
        answer = await self._client.patch(POD, record.namespace, meta["name"], change, "status", STRATEGIC)
        self._accept(record, answer)
        return answer

    async def _is_there(self, record: PodRecord) -> bool:
        meta = record.shown["metadata"]
        try:
            found = await self._client.find(POD, record.namespace, meta["name"])
        except ApiError:
            return False
        return found is not None and found["metadata"]["uid"] == meta["uid"]

    def _without_rejected(self, record: PodRecord, fields: Object) -> Object:
        rejected = record.rejected_status
        left_s = rejected.until - self._clock.monotonic() if rejected is not None else 0.0
        if rejected is None or left_s <= 0:
            return fields
        kept = {name: value for name, value in fields.items() if rejected.fields.get(name, fields) != value}
        if len(kept) < len(fields):
            self.look_after(record.uid, left_s)
        return kept

    def _note_rejections(self, record: PodRecord, fields: Object, outcome: Outcome) -> None:
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
        reasons = "; ".join(f"{name}: {error}" for name, error in rejections.items())
        log.warning(
            "pod %s/%s: the API server rejected parts of its status, next try in %.0f s: %s",
            record.namespace,
            record.name,
            pause,
            reasons,
        )
        self.look_after(record.uid, pause)

    def _catch_up(self, record: PodRecord) -> None:
        early, record.early = record.early, None
        if early is not None:
            self.missed(record, early)

    def _accept(self, record: PodRecord, answer: Object) -> None:
        record.written = answer["metadata"].get("resourceVersion", "")
        if record.static:
            record.mirror = answer
        elif newer(record.pod, answer):
            return
        elif (early := record.early) is not None and early["metadata"].get("resourceVersion") == record.written:
            # The echo was compared with what we have when it came, and its copy is kept anyway.
            record.early = None
            record.answered(early)
        elif only_status_differs(record.pod, answer):
            record.answered(answer)
        else:
            # Somebody changed the pod before our status came, and the watch will bring nothing newer than this.
            self.news(record, answer)


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


def _seen_by_the_api(shown: Object) -> Object:
    return {"metadata": shown["metadata"], "status": shown.get("status") or {}}


def _counts(shown: Object, snapshot: Snapshot) -> dict[str, int]:
    """Restart counts only grow, also when the runtime has lost the containers they counted."""
    if all(one.last is not None for one in snapshot.seen.values()):
        return {}
    status = shown.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {
        one["name"]: int(one.get("restartCount") or 0)
        for one in listed
        if one["name"] in snapshot.seen and snapshot.seen[one["name"]].last is None
    }
