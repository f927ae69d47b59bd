"""What the agent knows of one pod while it runs. Everything here can be found again after a restart: from the API, the
ledger and the runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from podfit.agent.decide.conditions import ResizeConditions
from podfit.agent.decide.sized import Sized
from podfit.agent.decide.states import Actuated, Allocated, Desired, Object, all_containers, desired_of, shared
from podfit.agent.metrics import CREATE, KILL, SYNC, TERMINATED, UPDATE
from podfit.agent.runtimes.base import PodState
from podfit.agent.story import Story
from podfit.api.resources import Amounts, qos_class

if TYPE_CHECKING:
    from podfit.agent.life.probes import Probes

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_BACKOFF_FIRST_S, _BACKOFF_MOST_S, _BACKOFF_RESET_S = 10.0, 300.0, 600.0


@dataclass(slots=True)
class CrashBackoff:
    """How long a container that keeps ending has to wait: 10 s, 20 s … 5 min; forgotten after 10 min of running."""

    step_s: float = 0.0
    counted: str = ""
    """The id of the container whose end was counted last."""
    since: float = 0.0
    """When (monotonic) it ended."""

    def ended(self, container_id: str, ran_s: float, at: float) -> None:
        self.counted, self.since = container_id, at
        if ran_s >= _BACKOFF_RESET_S:
            self.step_s = 0.0
        elif self.step_s == 0.0:
            # The first end is forgiven: it restarts at once, and the next within reach waits.
            self.step_s = -_BACKOFF_FIRST_S
        else:
            self.step_s = _BACKOFF_FIRST_S if self.step_s < 0 else min(self.step_s * 2, _BACKOFF_MOST_S)

    def reset(self) -> None:
        """A new size is a new try: it starts at once, and the waiting begins anew."""
        self.step_s = -_BACKOFF_FIRST_S

    @property
    def wait_s(self) -> float:
        return max(self.step_s, 0.0)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why and how fast a pod is being ended."""

    grace_s: float
    reason: str = ""
    """Set when the node itself ends it (Preempting, DeadlineExceeded, Evicted …); the pod fails with it."""
    message: str = ""
    disrupted: bool = False
    gone: bool = False
    """No longer in the API: there is nobody to report to."""


@dataclass(frozen=True, slots=True)
class RejectedStatus:
    """Fields of the status that the API server rejected: not sent again as they are before `until`."""

    fields: Mapping[str, object]
    until: float
    """Monotonic."""
    tries: int = 1


@dataclass(slots=True)
class PodRecord:
    uid: str
    pod: Object
    story: Story
    static: bool = False
    """From a file of this node; the API only has a mirror of it."""
    mirror: Object | None = None
    admitted: bool = False
    rejected: tuple[str, str] | None = None
    coming: bool = False
    """It is being migrated to this node, and still belongs to another."""
    left: bool = False
    """It was being migrated away when it ceased to be this node's."""
    stayed: str = ""
    """The migration (by its time) after whose failure the runtime was asked to keep the VM."""
    moving_since: tuple[str, float] | None = None
    """The migration (by its time) that is under way, and since when (monotonic) this agent knows of it."""
    adopted: bool = False
    """It was running already when the agent started."""
    resize: ResizeConditions = field(default_factory=ResizeConditions)
    state: PodState | None = None
    ending: Ending | None = None
    finished: bool = False
    """Its work is over and the runtime holds nothing of it any more."""
    untold: bool = False
    """Finished, but the API does not know yet."""
    used: Amounts = field(default_factory=dict)
    backoff: dict[str, CrashBackoff] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    """Containers whose end is in the story: name → id of the one that ended last."""
    restarting: Mapping[str, str] = field(default_factory=dict)
    """Containers ended for a resize, to be started again: name → id of the one that is ended. Set by `restarts`."""
    jobs: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Long work on this pod that no pass waits for: stops, pulls, hooks."""
    waiting: dict[str, tuple[str, str]] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    """Containers that could not be started, and when (monotonic) they may be tried again."""
    handler: str = ""
    """Of its RuntimeClass: which runtime has its sandbox and its images."""
    images: dict[tuple[str, str], str] = field(default_factory=dict)
    """Images that are here for containers about to start: name and image → id."""
    probes: Probes | None = None
    port_conflicts: dict[str, str] = field(default_factory=dict)
    """Why a container's declared port cannot be its own, by container; see `portconflicts`."""
    ports_checked: dict[str, str] = field(default_factory=dict)
    """Containers whose declared ports need no further check: name → id."""
    memory_wait: asyncio.Task[None] | None = None
    failures: int = 0
    """Actuations of the present promise that failed in a row."""
    retry_at: float = 0.0
    """Not before this (monotonic) is a failed actuation tried again."""
    failed: object = None
    """The promise whose actuation failed last."""
    doubtful: bool = False
    """The pod's cgroup may be half-way between two plans."""
    before_resize: Actuated | None = None
    """What was actuated before the resize that the runtime has not answered yet."""
    unanswered_since: float | None = None
    """Since when (monotonic) the kernel has a resize that the runtime has not answered."""
    stop_grace_s: float = 0.0
    """The grace its containers were last told when the pod ends."""
    shown_ending: object = None
    """What was last reported of a pod on its way out, see `closing`."""
    removed: bool = False
    """Nothing of it is left on this node."""
    messages: dict[str, str] = field(default_factory=dict)
    """Termination messages by container id."""
    written: str = ""
    """The resourceVersion of our own last write, to tell our echo from news."""
    writing: bool = False
    """A status of ours is on its way, and its echo may come before its answer."""
    early: Object | None = None
    """What came meanwhile and may be that echo."""
    rejected_status: RejectedStatus | None = None
    dropped_status: Object = field(default_factory=dict)
    """Fields that the API server left out of the status that it was last sent: it does not know them."""
    start_time: str = ""
    started_at: float | None = None
    """The same in monotonic time, which does not jump."""
    qos: str = ""
    probed: bool = False
    """Whether a container has a probe, which no change of the pod adds or takes away."""
    counted: tuple[Object, Allocated] | None = None
    """The state of pod and promise that `used` was taken from."""
    ooms: Mapping[str, int] = field(default_factory=dict)
    """How many earlier containers of a name ended for want of memory."""
    passed: int = 0
    """The generation that the last pass worked on."""
    _read: tuple[Object, Desired] | None = None
    """A spec, and what it asks for."""
    _sized: Sized | None = None

    def __post_init__(self) -> None:
        self.qos = (self.pod.get("status") or {}).get("qosClass") or qos_class(self.pod)
        self.probed = any(one.get(kind) for one in all_containers(self.pod["spec"]) for kind in _PROBES)

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace") or "default")

    @property
    def who(self) -> str:
        """As a kubelet names a pod in its messages."""
        return f"{self.name}_{self.namespace}({self.uid})"

    @property
    def desired(self) -> Desired:
        """What the spec asks for, read once for each state of it."""
        read, spec = self._read, self.pod["spec"]
        if read is None or read[0] is not spec:
            read = self._read = (spec, desired_of(self.pod, read[1] if read is not None else None))
        return read[1]

    def sized(self, sizes: Desired | Allocated) -> Sized:
        """The pod with these sizes in its spec; kept until others are asked for, the pod changes, or it is at rest."""
        kept = self._sized
        if kept is None or not kept.stands_for(self.pod, sizes):
            kept = self._sized = Sized(self.pod, sizes, asked=shared(sizes, self.desired))
        return kept

    def rest(self) -> None:
        """A pass is over; the next works out what it needs. Most of a thousand pods do nothing most of the time."""
        self._sized = None

    def answered(self, pod: Object) -> None:
        """The pod with the status we wrote and the spec that was read already."""
        if self._read is not None and self._read[0] is self.pod["spec"]:
            self._read = (pod["spec"], self._read[1])
        if self._sized is not None and self._sized.origin is self.pod:
            self._sized = self._sized.of(pod)
        self.pod = pod

    def echoed(self, pod: Object) -> None:
        """The same state of the pod as we have, in another copy that is kept anyway."""
        if self.counted is not None and self.counted[0] is self.pod:
            self.counted = (pod, self.counted[1])
        self.answered(pod)

    def next_pass(self) -> str:
        """What a pass that begins now is, as the metric of its duration says it."""
        before, self.passed = self.passed, self.generation
        if self.finished:
            return TERMINATED
        if self.ending is not None:
            return KILL
        if self.state is None or not before:
            return CREATE
        return SYNC if before == self.passed else UPDATE

    @property
    def generation(self) -> int:
        return int(self.pod["metadata"].get("generation") or 0)

    @property
    def grace_s(self) -> float:
        return float(self.pod["spec"].get("terminationGracePeriodSeconds") or 0)

    @property
    def shown(self) -> Object:
        """The object in the API that shows this pod."""
        return self.mirror if self.static and self.mirror is not None else self.pod

    @property
    def terminal(self) -> bool:
        """Succeeded or failed: holds nothing any more."""
        return self.rejected is not None or self.finished

    @property
    def holds(self) -> bool:
        """Whether what it was promised is still taken."""
        ending = self.ending
        return not self.finished and self.rejected is None and (ending is None or not ending.gone)

    def job(self, name: str) -> bool:
        task = self.jobs.get(name)
        return task is not None and not task.done()
