"""The agent's state of one pod. After a restart all of it is restored from the API, the ledger and the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from podfit.agent.decide.resize.conditions import ResizeConditions
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.metrics import CREATE, KILL, SYNC, TERMINATED, UPDATE
from podfit.agent.pods.jobs import Jobs
from podfit.agent.pods.story import Story
from podfit.agent.pods.termination import Termination
from podfit.agent.pods.waiting import WaitingReasons
from podfit.agent.runtimes.values import PodState
from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts, qos_class
from podfit.api.resize.states import Actuated, Allocated, Desired, all_containers, desired_of, shared

if TYPE_CHECKING:
    from podfit.agent.probes.probes import Probes

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_BACKOFF_FIRST_S, _BACKOFF_MOST_S, _BACKOFF_RESET_S = 10.0, 300.0, 600.0


@dataclass(slots=True)
class CrashBackoff:
    """The delay before a crashed container is restarted: 10 s, 20 s … 5 min; reset after 10 min of running."""

    step_s: float = 0.0
    counted: str = ""
    """The ID of the container whose exit was counted last."""
    since: float = 0.0
    """The time (monotonic) at which that container exited."""

    def ended(self, container_id: str, ran_s: float, at: float) -> None:
        self.counted, self.since = container_id, at
        if ran_s >= _BACKOFF_RESET_S:
            self.step_s = 0.0
        elif self.step_s == 0.0:
            # After the first crash the container restarts at once; the next restart waits.
            self.step_s = -_BACKOFF_FIRST_S
        else:
            self.step_s = _BACKOFF_FIRST_S if self.step_s < 0 else min(self.step_s * 2, _BACKOFF_MOST_S)

    def reset(self) -> None:
        """The next start is immediate, and the backoff begins with its first step again."""
        self.step_s = -_BACKOFF_FIRST_S

    @property
    def wait_s(self) -> float:
        return max(self.step_s, 0.0)


@dataclass(frozen=True, slots=True)
class RejectedStatus:
    """Fields of the status that the API server rejected: not sent again unchanged before `until`."""

    fields: Mapping[str, object]
    until: float
    """The time (monotonic) before which the fields are not sent again unchanged."""
    tries: int = 1


@dataclass(slots=True)
class PodRecord:
    """Each field has one owner, the module named above it, and is assigned there only: a test checks it.

    The roster sets what a record is created with."""

    # --- roster/roster.py
    uid: str
    # --- roster/updates.py
    pod: Object
    """The pod's object in the API."""
    # --- roster/roster.py
    story: Story
    static: bool = False
    """Whether the pod comes from a file of this node; the API has only a mirror of it."""
    coming: bool = False
    """Whether the pod is being migrated to this node; it still belongs to another one."""
    adopted: bool = False
    """Whether the pod was running before the agent started."""
    left: bool = False
    """Whether the pod was being migrated away when it ceased to belong to this node."""
    # --- roster/updates.py
    mirror: Object | None = None
    """The object in the API that represents a static pod."""
    written: str = ""
    """The resourceVersion of our own last status write."""
    writing: bool = False
    """Whether a status write of ours is in progress; the watch may deliver it before the response arrives."""
    held_update: Object | None = None
    """The state that the watch delivered during that write: it may be the write itself."""
    # --- pods/termination.py
    termination: Termination | None = None
    # --- pods/conditions.py
    resize: ResizeConditions = field(default_factory=ResizeConditions)
    # --- pods/observe.py
    state: PodState | None = None
    # --- allocation/admission.py
    admitted: bool = False
    rejected: tuple[str, str] | None = None
    """The reason and message of the rejection."""
    # --- allocation/allocations.py
    used: Amounts = field(default_factory=dict)
    """The resources that the pod occupies on the node."""
    counted: tuple[Object, Allocated] | None = None
    """The states of object and allocation that `used` was computed from."""
    # --- actuation/attempts.py
    failures: int = 0
    """Consecutive failed actuations of the current allocation."""
    retry_at: float = 0.0
    """A failed actuation is not retried before this (monotonic)."""
    failed: object = None
    """The allocation whose actuation failed last."""
    unverified: bool = False
    """Whether the pod's cgroup may be half-way between two plans."""
    # --- actuation/confirmation.py
    before_resize: Actuated | None = None
    """The actuated size before the resize that the runtime has not confirmed yet."""
    unconfirmed_since: float | None = None
    """Since when (monotonic) the kernel has a resize that the runtime has not confirmed."""
    # --- actuation/restarts.py
    restarting: Mapping[str, str] = field(default_factory=dict)
    """Containers stopped for a resize, to be restarted: name → id of the stopped one."""
    # --- actuation/memory_waits.py
    memory_wait: asyncio.Task[None] | None = None
    # --- backoff.py
    backoff: dict[str, CrashBackoff] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    """Containers that could not be started, and when (monotonic) the next attempt is allowed."""
    # --- containers/exits.py
    exits: Mapping[str, str] = field(default_factory=dict)
    """Containers whose exit is in the story: name → ID of the container that exited last."""
    ooms: Mapping[str, int] = field(default_factory=dict)
    """The number of earlier containers of a name that were OOM-killed."""
    messages: dict[str, str] = field(default_factory=dict)
    """Termination messages by container ID."""
    # --- containers/port_conflicts.py
    port_conflicts: dict[str, str] = field(default_factory=dict)
    """The reason why a container's declared port is unavailable, by container."""
    ports_checked: dict[str, str] = field(default_factory=dict)
    """Containers whose declared ports need no further check: name → id."""
    # --- images/pulls.py
    images: dict[tuple[str, str], str] = field(default_factory=dict)
    """Images that are present for containers about to start: name and image → id."""
    # --- furnish/runtimeclasses.py
    class_handler: str = ""
    """The handler that the pod's RuntimeClass names."""
    # --- containers/probing.py
    probes: Probes | None = None
    # --- migration/departure.py
    stayed: str = ""
    """The migration (identified by its time) after whose failure the runtime was instructed to keep the VM."""
    moving_since: tuple[str, float] | None = None
    """The migration (identified by its time) in progress, and the time (monotonic) at which this agent learned of
    it."""
    # --- status/writer.py
    rejected_status: RejectedStatus | None = None
    dropped_status: Object = field(default_factory=dict)
    """Fields that the API server dropped from the last status: it does not know them."""
    # --- status/reporter.py
    start_time: str = ""
    # --- phases/deadline.py
    started_at: float | None = None
    """The start time as monotonic time, which does not jump."""
    # --- phases/containers/terminate.py
    finished: bool = False
    """Whether the pod's work is done and the runtime holds nothing of it."""
    unreported: bool = False
    """Whether the pod is finished, but not yet reported as such in the API."""
    stop_grace_s: float = 0.0
    """The grace period of the last stop of the pod's containers."""
    reported_termination: object = None
    """The status that was last reported while the pod terminates."""
    # --- phases/finalizer.py
    removed: bool = False
    """No resource of the pod remains on this node."""
    # --- objects of their own, changed through their methods
    jobs: Jobs = field(default_factory=Jobs)
    waiting: WaitingReasons = field(default_factory=WaitingReasons)
    # --- this module
    qos: str = ""
    probed: bool = False
    """Whether a container has a probe, which no update of the pod changes."""
    passed: int = 0
    """The generation of the last pass."""
    _read: tuple[Object, Desired] | None = None
    """A spec, and the sizes that it requests."""
    _sized: Sized | None = None

    def __post_init__(self) -> None:
        self.qos = (self.pod.get("status") or {}).get("qosClass") or qos_class(self.pod)
        self.probed = any(container.get(kind) for container in all_containers(self.pod["spec"]) for kind in _PROBES)

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace") or "default")

    @property
    def who(self) -> str:
        """The name of the pod in the kubelet's messages."""
        return f"{self.name}_{self.namespace}({self.uid})"

    @property
    def desired(self) -> Desired:
        """The sizes that the spec requests, read once per state of it."""
        read, spec = self._read, self.pod["spec"]
        if read is None or read[0] is not spec:
            read = self._read = (spec, desired_of(self.pod, read[1] if read is not None else None))
        return read[1]

    def sized(self, sizes: Desired | Allocated) -> Sized:
        """The pod with these sizes in its spec; cached until others are requested, the pod changes, or it is at
        rest."""
        kept = self._sized
        if kept is None or not kept.stands_for(self.pod, sizes):
            kept = self._sized = Sized(self.pod, sizes, as_requested=shared(sizes, self.desired))
        return kept

    def rest(self) -> None:
        """Drops cached values after a pass; the next pass recomputes them. Most of a thousand pods are idle most of the
        time."""
        self._sized = None

    def with_status(self, pod: Object) -> None:
        """Sets another state of the pod with the same spec: values read from the spec stay valid."""
        if self._read is not None and self._read[0] is self.pod["spec"]:
            self._read = (pod["spec"], self._read[1])
        if self._sized is not None and self._sized.origin is self.pod:
            self._sized = self._sized.of(pod)
        self.pod = pod

    def same_state(self, pod: Object) -> None:
        """Replaces the pod's state by the cache's copy of the same state: sharing it saves memory."""
        if self.counted is not None and self.counted[0] is self.pod:
            self.counted = (pod, self.counted[1])
        self.with_status(pod)

    def next_pass(self) -> str:
        """The kind of the next pass, as the metric of its duration labels it."""
        before, self.passed = self.passed, self.generation
        if self.finished:
            return TERMINATED
        if self.termination is not None:
            return KILL
        if self.state is None or not before:
            return CREATE
        return SYNC if before == self.passed else UPDATE

    @property
    def handler(self) -> str:
        """The runtime handler of the pod's sandbox and images."""
        return self.state.config.handler if self.state is not None else self.class_handler

    @property
    def generation(self) -> int:
        return int(self.pod["metadata"].get("generation") or 0)

    @property
    def grace_s(self) -> float:
        return float(self.pod["spec"].get("terminationGracePeriodSeconds") or 0)

    @property
    def api_object(self) -> Object:
        """The object in the API that represents this pod."""
        return self.mirror if self.static and self.mirror is not None else self.pod

    @property
    def terminal(self) -> bool:
        """Whether the pod succeeded or failed, and so holds no resources."""
        return self.rejected is not None or self.finished

    @property
    def holds(self) -> bool:
        """Whether the pod's allocation still counts against the node."""
        termination = self.termination
        return not self.finished and self.rejected is None and (termination is None or not termination.gone)
