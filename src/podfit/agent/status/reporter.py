"""Builds a pod's status from a snapshot, and writes it."""

from __future__ import annotations

from podfit.agent.actuation import confirmation
from podfit.agent.core import Core
from podfit.agent.decide.pod import status as statuses
from podfit.agent.decide.pod.lifecycle import phase
from podfit.agent.decide.pod.status import Facts
from podfit.agent.pods.observe import Snapshot, actual_limits
from podfit.agent.pods.record import PodRecord
from podfit.agent.status.writer import StatusWriter
from podfit.api.objects import Object
from podfit.kit.clock import rfc3339


class Reporter:
    def __init__(self, core: Core, writer: StatusWriter, host_ip: str) -> None:
        self._core, self._writer, self.host_ip = core, writer, host_ip

    async def reject(self, record: PodRecord) -> None:
        """Reports a pod that was not admitted as failed."""
        assert record.rejected is not None
        reason, message = record.rejected
        started = (record.api_object.get("status") or {}).get("startTime") or rfc3339(self._core.clock.now())
        await self._writer.write(record, statuses.rejected(record.pod, reason, message, started, record.qos))

    async def report(self, record: PodRecord, snapshot: Snapshot, initialized: bool) -> bool:
        """Builds and writes the status. True if a write was necessary."""
        limits, pod_limits = await actual_limits(self._core.runtime, snapshot)
        termination = record.termination
        unconfirmed_s = confirmation.grace_left_s(record, self._core.clock.monotonic())
        over = record.finished or (termination is not None and not snapshot.running)
        reported = record.api_object
        facts = Facts(
            pod=reported if reported is record.pod else {**record.pod, **_known_to_the_api(reported)},
            qos=record.qos,
            desired=record.desired,
            allocated=snapshot.allocated,
            sized=record.sized(snapshot.allocated),
            actuated=snapshot.actuated,
            seen=snapshot.seen,
            resize=record.resize.completed() if unconfirmed_s > 0 else record.resize,
            phase=self._phase(record, snapshot, over),
            sandbox=snapshot.sandbox,
            initialized=initialized,
            now=self._core.clock.now(),
            start_time=self.start_time(record),
            host_ip=self.host_ip,
            ips=self._ips(record, snapshot),
            limits=limits,
            pod_limits=pod_limits,
            reason=termination.reason if termination is not None and over else "",
            message=termination.message if termination is not None and over else "",
            disrupted=termination.reason if termination is not None and termination.disrupted and over else "",
            runtime=self._core.runtime.name,
            counts=_counts(reported, snapshot),
        )
        return await self._writer.write(record, statuses.build(facts), snapshot.allocated)

    def start_time(self, record: PodRecord) -> str:
        if not record.start_time:
            known = (record.api_object.get("status") or {}).get("startTime")
            record.start_time = known or rfc3339(self._core.clock.now())
        return record.start_time

    @staticmethod
    def _phase(record: PodRecord, snapshot: Snapshot, over: bool) -> str:
        if record.termination is not None and record.termination.reason and over:
            return "Failed"
        return phase(record.pod, snapshot.seen, over, frozenset(record.restarting))

    def _ips(self, record: PodRecord, snapshot: Snapshot) -> tuple[str, ...]:
        if snapshot.state is None:
            return ()
        return (self.host_ip,) if record.pod["spec"].get("hostNetwork") else snapshot.state.ips


def _known_to_the_api(reported: Object) -> Object:
    return {"metadata": reported["metadata"], "status": reported.get("status") or {}}


def _counts(reported: Object, snapshot: Snapshot) -> dict[str, int]:
    """The restart counts, which only increase, even if the runtime has lost the containers."""
    if all(container.last is not None for container in snapshot.seen.values()):
        return {}
    status = reported.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {
        known["name"]: int(known.get("restartCount") or 0)
        for known in listed
        if known["name"] in snapshot.seen and snapshot.seen[known["name"]].last is None
    }
