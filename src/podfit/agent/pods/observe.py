"""Takes a snapshot of the pod: the spec from the API, the ledger's entries, the runtime's state. No decisions, no
writes."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.pod.reported import reported_end
from podfit.agent.decide.pod.status import remembered
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import EXITED, RUNNING, ContainerState, Limits, NotFound, PodState
from podfit.api.objects import Object
from podfit.api.pods.machines import RUNNING as ON
from podfit.api.resize.states import Actuated, Allocated, every_container


class Snapshot(Struct, frozen=True):
    pod: Object
    qos: str
    allocated: Allocated
    actuated: Actuated
    state: PodState | None
    seen: dict[str, Seen]
    running: dict[str, ContainerState]

    @property
    def sandbox(self) -> bool:
        return self.state is not None and self.state.alive


async def observe(record: PodRecord, ledger: Ledger, runtime: Runtime) -> Snapshot:
    allocated = ledger.allocated(record.uid)
    assert allocated is not None, "only admitted pods are observed"
    state = await runtime.pod(record.uid)
    record.state = state
    seen = _seen(record, state)
    running = {
        name: container.last
        for name, container in seen.items()
        if container.last is not None and container.last.state == RUNNING
    }
    return Snapshot(record.pod, record.qos, allocated, ledger.actuated(record.uid), state, seen, running)


def _seen(record: PodRecord, state: PodState | None) -> dict[str, Seen]:
    attempts: dict[str, list[ContainerState]] = {}
    for attempt in state.containers if state is not None else ():
        attempts.setdefault(attempt.name, []).append(attempt)
    seen: dict[str, Seen] = {}
    for container in every_container(record.pod["spec"]):
        name = container["name"]
        seen[name] = _container(record, container, attempts.get(name, []))
    return seen


def _container(record: PodRecord, container: Object, attempts: list[ContainerState]) -> Seen:
    name = container["name"]
    if len(attempts) > 1:
        attempts = sorted(attempts, key=lambda state: state.attempt)
    # A mirror may still show an earlier version of a static pod.
    last = attempts[-1] if attempts else None if record.static else reported_end(record.pod, container)
    earlier = [state for state in attempts[:-1] if state.state == EXITED]
    running = last is not None and last.state == RUNNING
    started = ready = False
    if running and last is not None and not (record.jobs.running(f"hook:{name}")):
        started, ready = _health(record, container, last.id)
        ready = ready and (last.machine is None or last.machine.power == ON)
    waiting = None if running else record.waiting.get(name)
    if waiting is None and last is not None and last.state == EXITED and name in record.restarting:
        # This container was stopped for a resize. If it were reported as terminated, OnFailure and Never would forbid
        # its restart.
        waiting = ("ContainerCreating", "")
    previous = _with_message(record, earlier[-1]) if earlier else None
    conflict = record.port_conflicts.get(name, "") if running else ""
    latest = _with_message(record, last) if last is not None else None
    return Seen(name, latest, previous, started, ready and not conflict, conflict, waiting)


def _health(record: PodRecord, container: Object, container_id: str) -> tuple[bool, bool]:
    """(started, ready). Until probes have begun, a container has the values last reported in the API; a new one is
    neither."""
    name, probes = container["name"], record.probes
    if probes is not None:
        started = probes.started(name, container_id)
        return started, started and probes.ready(name, container_id)
    if not container.get("startupProbe") and not container.get("readinessProbe"):
        return True, True
    known = remembered(record.api_object.get("status") or {}, name, container_id)
    started = not container.get("startupProbe") or bool(known.get("started"))
    return started, started and (not container.get("readinessProbe") or bool(known.get("ready")))


def _with_message(record: PodRecord, state: ContainerState) -> ContainerState:
    message = record.messages.get(state.id)
    return replace(state, message=message) if message and not state.message else state


async def actual_limits(runtime: Runtime, snapshot: Snapshot) -> tuple[dict[str, Limits], Limits | None]:
    """The current limits in the kernel: by container, and of the pod."""
    found: dict[str, Limits] = {}
    for name, container in snapshot.running.items():
        try:
            found[name] = await runtime.container_limits(container.id)
        except NotFound:
            # The container exited meanwhile; its exit triggers the next pass.
            continue
    pod: Limits | None = None
    if snapshot.sandbox:
        try:
            pod = await runtime.pod_limits(snapshot.pod["metadata"]["uid"])
        except NotFound:
            pod = None
    return found, pod
