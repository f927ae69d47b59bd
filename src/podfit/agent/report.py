"""Tells the API what is so: one PATCH with only what changed, or nothing at all."""

from __future__ import annotations

import logging
from collections.abc import Callable

from podfit.agent.decide import status as statuses
from podfit.agent.decide.lifecycle import phase
from podfit.agent.decide.status import Facts
from podfit.agent.observe import Snapshot, actual_limits
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.api.kinds import POD
from podfit.api.status import ApiError, Object
from podfit.client.rest import STRATEGIC, Client
from podfit.kit.clock import Clock, rfc3339

log = logging.getLogger(__name__)


class Reporter:
    def __init__(self, client: Client, runtime: Runtime, clock: Clock, host_ip: str) -> None:
        self._client, self._runtime, self._clock = client, runtime, clock
        self.host_ip = host_ip
        self.missed: Callable[[PodRecord, Object], None] = lambda record, after: None
        """Told of the state of a pod that came while its status was written; set by the agent."""
        self.news: Callable[[PodRecord, Object], None] = lambda record, after: None
        """Told when the answer to a status shows what others changed in between; set by the agent."""

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
            resize=record.resize,
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
        return await self.write(record, statuses.build(facts))

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

    async def write(self, record: PodRecord, status: Object) -> bool:
        shown = record.shown
        if record.static and record.mirror is None:
            return False
        before = shown.get("status") or {}
        change = statuses.patch(before, status, shown["metadata"]["uid"])
        if change is None:
            return False
        meta = shown["metadata"]
        record.writing = True
        try:
            answer = await self._client.patch(
                POD, meta.get("namespace") or "default", meta["name"], change, "status", STRATEGIC
            )
            self._accept(record, answer)
        except ApiError as error:
            if error.code in (404, 409):
                # Gone, or another pod of the same name: the watch will say so.
                log.debug("status of %s not written: %s", record.name, error)
                return False
            raise
        finally:
            record.writing = False
            self._catch_up(record)
        return True

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
