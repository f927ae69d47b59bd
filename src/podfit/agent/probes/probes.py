"""Runs liveness, readiness and startup probes with Kubernetes' thresholds and delays around `check`.

Each probe of a running container has a task; pods without probes have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from podfit.agent.decide.pod.status import remembered
from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.record import PodRecord
from podfit.agent.probes.check import check
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import ContainerState
from podfit.api.objects import Object
from podfit.api.resize.states import all_containers
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks

KINDS = ("startupProbe", "livenessProbe", "readinessProbe")
PROBE_TYPES = {"startupProbe": "Startup", "livenessProbe": "Liveness", "readinessProbe": "Readiness"}
SUCCESSFUL, FAILED = "successful", "failed"


@dataclass(slots=True)
class _Result:
    container_id: str
    good: bool
    """The current verdict."""
    successes: int = 0
    failures: int = 0


class Probes:
    def __init__(
        self,
        record: PodRecord,
        runtime: Runtime,
        events: Events,
        clock: Clock,
        enqueue: Callable[[str], None],
    ) -> None:
        self._record, self._runtime, self._events, self._clock, self._enqueue = record, runtime, events, clock, enqueue
        self._tasks = Tasks(f"probes-{record.uid}")
        self._following: dict[str, str] = {}
        self._running: dict[str, list[asyncio.Task[None]]] = {}
        self._begun: dict[str, asyncio.Event] = {}
        """Set once the container's startup probe has succeeded: the others wait for it."""
        self._results: dict[tuple[str, str], _Result] = {}
        self.counts: dict[tuple[str, str, str], int] = {}
        """The number of results (successful, failed) by container and kind of probe."""
        self._containers = {container["name"]: container for container in all_containers(record.pod["spec"])}

    # --- read by the passes
    def started(self, name: str, container_id: str) -> bool:
        return self._good(name, container_id, "startupProbe")

    def ready(self, name: str, container_id: str) -> bool:
        return self._good(name, container_id, "readinessProbe")

    def _good(self, name: str, container_id: str, kind: str) -> bool:
        if not self._spec(name).get(kind):
            return True
        result = self._results.get((name, kind))
        return result is not None and result.container_id == container_id and result.good

    def _spec(self, name: str) -> Object:
        """The container's spec. Empty for an ephemeral container, which has no probes."""
        return self._containers.get(name, {})

    def unhealthy(self, running: Mapping[str, ContainerState]) -> list[str]:
        return [name for name, state in running.items() if self._failed(name, state.id)]

    def _failed(self, name: str, container_id: str) -> str:
        for kind in ("startupProbe", "livenessProbe"):
            result = self._results.get((name, kind))
            if result is None or result.container_id != container_id or result.good:
                continue
            if result.failures >= int(self._containers[name][kind].get("failureThreshold") or 3):
                return kind
        return ""

    def failed_kind(self, name: str) -> str:
        container_id = self._following.get(name, "")
        return PROBE_TYPES.get(self._failed(name, container_id), "Liveness").lower()

    def grace_s(self, name: str) -> float:
        """The grace period of a container that failed its probe: the probe's own, or the pod's."""
        kind = self._failed(name, self._following.get(name, ""))
        own = self._containers[name].get(kind, {}).get("terminationGracePeriodSeconds")
        return float(own) if own is not None else self._record.grace_s

    # --- following containers
    def follow(self, running: Mapping[str, ContainerState]) -> None:
        for name in [name for name in self._following if name not in running]:
            self._leave(name)
        for name, state in running.items():
            if self._following.get(name) == state.id:
                continue
            self._leave(name)
            self._begin(name, state)

    def _begin(self, name: str, state: ContainerState) -> None:
        """Begins to probe a container. One that was running while no agent was is assumed to be in its last reported
        state."""
        spec = self._spec(name)
        known = remembered(self._record.api_object.get("status") or {}, name, state.id)
        good = {"livenessProbe": True, "readinessProbe": known.get("ready"), "startupProbe": known.get("started")}
        self._following[name] = state.id
        self._begun[name] = asyncio.Event()
        kinds = [kind for kind in KINDS if spec.get(kind)]
        for kind in kinds:
            self._results[name, kind] = _Result(state.id, bool(good[kind]))
        if "startupProbe" not in kinds or good["startupProbe"]:
            self._begun[name].set()
        self._running[name] = [
            self._tasks.start(self._probe(spec, kind, state, self._begun[name]), f"{kind}-{name}") for kind in kinds
        ]

    def _leave(self, name: str) -> None:
        self._following.pop(name, None)
        for task in self._running.pop(name, []):
            task.cancel()

    def stop(self) -> None:
        for name in list(self._following):
            self._leave(name)

    async def _probe(self, container: Object, kind: str, state: ContainerState, begun: asyncio.Event) -> None:
        probe, name = container[kind], container["name"]
        result = self._results[name, kind]
        ran = max(0.0, self._clock.now() - state.started_at)
        await self._clock.sleep(max(float(probe.get("initialDelaySeconds") or 0) - ran, 0.0))
        if kind != "startupProbe":
            await begun.wait()
        period = float(probe.get("periodSeconds") or 10)
        while kind != "startupProbe" or not begun.is_set():
            self._note(container, kind, result, await check(self._runtime, container, probe, state.id, self._ip()))
            if kind == "startupProbe" and result.good:
                begun.set()
                return
            if kind != "readinessProbe" and self._failed(name, state.id) == kind:
                # The container will be restarted: its probes end here.
                return
            await self._clock.sleep(period)

    def _ip(self) -> str:
        state = self._record.state
        return state.ips[0] if state is not None and state.ips else "127.0.0.1"

    def _note(self, container: Object, kind: str, result: _Result, error: str | None) -> None:
        """Counts one result; enqueues the pod if the verdict changed."""
        probe = container[kind]
        key = (container["name"], kind, SUCCESSFUL if error is None else FAILED)
        self.counts[key] = self.counts.get(key, 0) + 1
        if error is None:
            result.successes, result.failures = result.successes + 1, 0
            if not result.good and result.successes >= int(probe.get("successThreshold") or 1):
                result.good = True
                self._enqueue(self._record.uid)
            return
        result.successes, result.failures = 0, result.failures + 1
        message = f"{PROBE_TYPES[kind]} probe failed: {error}"
        self._events.emit(self._record.pod, WARNING, "Unhealthy", message, container["name"])
        if result.failures == int(probe.get("failureThreshold") or 3):
            result.good = False
            self._enqueue(self._record.uid)
