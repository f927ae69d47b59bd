"""The recommender's model of the cluster: pods, their containers, aggregates and the autoscalers that use them.

Input is one event at a time (samples, out-of-memory kills, pods and autoscalers added and removed); output is
aggregates per autoscaler. Everything is indexed by namespace, so an event never scans the cluster. No clock and no I/O:
instants are parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podfit.api.selectors import EQUALS, NOTHING, LabelSelector
from podfit.vpa.model.objects.labels import label_text, labels_from
from podfit.vpa.model.objects.policy import container_policy
from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate, RowContainer
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState, load_aggregate
from podfit.vpa.recommender.decide.histograms.container import ContainerState, OomRefused

PodId = tuple[str, str]
VpaId = tuple[str, str]


class UnknownTarget(KeyError):
    """The pod or container of a sample is unknown, or no longer known."""


class AggregateKey(NamedTuple):
    namespace: str
    container: str
    labels: str


@dataclass(slots=True)
class Pod:
    id: PodId
    label_text: str
    """Labels are stored only as canonical text: it is the aggregates' key, and a third of a dict's size."""
    phase: str
    containers: dict[str, ContainerState] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


@dataclass(slots=True)
class Vpa:
    """An autoscaler: its latest object, the aggregates it uses, and the state from its checkpoints."""

    id: VpaId
    object: Mapping[str, Any]
    selector: LabelSelector
    aggregates: dict[AggregateKey, AggregateState] = field(default_factory=dict)
    initial: dict[str, AggregateState] = field(default_factory=dict)
    pods: set[PodId] = field(default_factory=set)
    unsupported: str | None = None
    """Why its configuration cannot be used, for the ConfigUnsupported condition."""

    def states(self) -> list[tuple[str, AggregateState]]:
        """All usage data of its containers, by name; a name may occur several times."""
        return [*((key.container, state) for key, state in self.aggregates.items()), *self.initial.items()]


class ClusterState:
    """The model of a cluster. With a fleet, all numbers are in its arrays and whole scrapes can be ingested; without
    one, each object has its own numbers."""

    def __init__(self, config: Config, fleet: Fleet | None = None) -> None:
        self.config = config
        self.fleet = fleet
        if fleet is not None:
            fleet.lost_row = self._row_again
        self._by_handle: dict[int, tuple[Pod, str]] | None = None
        self.vpas: dict[VpaId, Vpa] = {}
        self._aggregates_in: dict[str, dict[AggregateKey, AggregateState]] = {}
        self._unstamped: list[AggregateState] = []
        """New aggregates, until `stamp_created` sets their creation time."""
        self._pods_in: dict[str, dict[PodId, Pod]] = {}
        self._vpas_in: dict[str, dict[VpaId, Vpa]] = {}
        self._vpas_by_label: dict[tuple[str, str, str], dict[VpaId, Vpa]] = {}
        """Autoscalers by namespace and one label that their selector requires; those that require none are under an
        empty label."""

    @property
    def pods(self) -> dict[PodId, Pod]:
        """All pods. The dictionary is rebuilt on each call, which is too slow for every event."""
        return {id: pod for pods in self._pods_in.values() for id, pod in pods.items()}

    @property
    def aggregates(self) -> dict[AggregateKey, AggregateState]:
        """All aggregates. The dictionary is rebuilt on each call, which is too slow for every event."""
        return {key: state for states in self._aggregates_in.values() for key, state in states.items()}

    @property
    def aggregates_known(self) -> int:
        return sum(map(len, self._aggregates_in.values()))

    def pod(self, id: PodId) -> Pod | None:
        return self._pods_in.get(id[0], {}).get(id)

    # --- pods and containers --------------------------------------------------------------------------------------

    def add_pod(self, id: PodId, labels: Mapping[str, str], phase: str) -> None:
        """Adds or updates a pod. If its labels changed, its containers count for other aggregates from now on."""
        text = label_text(labels)
        pod = self.pod(id)
        if pod is None:
            pod = Pod(id, text, phase)
            self._pods_in.setdefault(id[0], {})[id] = pod
            for vpa in self.matching(id[0], labels):
                vpa.pods.add(id)
        elif pod.label_text != text:
            pod.label_text = text
            self._match_pod(pod, labels)
            for container in pod.containers:
                self._bind(pod, container)
        pod.phase = phase

    def delete_pod(self, id: PodId) -> None:
        """Deletes a pod. Its aggregates are kept, because they are the history."""
        pod = self._pods_in.get(id[0], {}).pop(id, None)
        if pod is None:
            return
        for vpa in self._vpas_in.get(id[0], {}).values():
            vpa.pods.discard(id)
        for state in pod.containers.values():
            if isinstance(state, RowContainer):
                state.release()

    def add_container(self, pod_id: PodId, container: str) -> None:
        """Adds a container. Raises UnknownTarget if the pod is unknown."""
        pod = self._pod(pod_id)
        if container not in pod.containers:
            aggregate = self._aggregate_of(pod, container)
            made = (
                RowContainer(aggregate.fleet, aggregate.row)
                if isinstance(aggregate, RowAggregate)
                else ContainerState()
            )
            pod.containers[container] = made

    def add_cpu(self, pod_id: PodId, container: str, millicores: int, instant: Seconds) -> bool:
        """Adds a CPU sample. False if it was rejected (negative, repeated or out of order)."""
        pod, state = self._container(pod_id, container)
        return state.add_cpu(self._target(pod, container), millicores, instant)

    def add_memory(self, pod_id: PodId, container: str, amount: int, instant: Seconds) -> bool:
        pod, state = self._container(pod_id, container)
        return state.add_memory(self._target(pod, container), amount, instant)

    def record_oom(self, pod_id: PodId, container: str, instant: Seconds, requested: int) -> int:
        """Records an out-of-memory kill, and returns the bytes that it counts as. Raises OomRefused if it is too old,
        UnknownTarget if the container is unknown."""
        pod, state = self._container(pod_id, container)
        try:
            return state.record_oom(self._target(pod, container), requested, instant)
        except OomRefused as error:
            where = f"{{{{{pod_id[0]} {pod_id[1]}}} {container}}}"
            raise OomRefused(f"error while recording OOM for {where}, Reason: {error}") from error

    def aggregate_of(self, pod_id: PodId, container: str) -> AggregateState | None:
        """The aggregate that a container's samples are added to; None for an unknown container."""
        pod = self.pod(pod_id)
        return self._target(pod, container) if pod is not None and container in pod.containers else None

    def aggregate(self, key: AggregateKey) -> AggregateState | None:
        return self._aggregates_in.get(key.namespace, {}).get(key)

    def has_aggregate(self, key: AggregateKey) -> bool:
        return self.aggregate(key) is not None

    # --- autoscalers ----------------------------------------------------------------------------------------------

    def add_vpa(self, object: Mapping[str, Any], selector: LabelSelector | None, unsupported: str | None = None) -> Vpa:
        """Adds or updates an autoscaler. If its selector changed, it starts over, because earlier pods may not belong
        to it.

        Without a selector (the target cannot be resolved) it matches nothing.
        """
        meta = object.get("metadata") or {}
        id = (meta.get("namespace") or "", meta.get("name") or "")
        vpa = self.vpas.get(id)
        if selector is None and vpa is not None and self.config.survive_missing_target:
            selector = vpa.selector
        selector = selector or NOTHING
        if vpa is not None and vpa.selector != selector:
            self.delete_vpa(id)
            vpa = None
        if vpa is None:
            vpa = self.vpas[id] = Vpa(id, object, selector)
            self._vpas_in.setdefault(id[0], {})[id] = vpa
            self._vpas_by_label.setdefault(_handle(vpa), {})[id] = vpa
            self._match_vpa(vpa)
        vpa.object, vpa.unsupported = object, unsupported
        for key, state in vpa.aggregates.items():
            state.apply_policy(container_policy(object, key.container))
        return vpa

    def delete_vpa(self, id: VpaId) -> None:
        vpa = self.vpas.pop(id, None)
        if vpa is not None:
            del self._vpas_in[id[0]][id]
            del self._vpas_by_label[_handle(vpa)][id]
            for state in vpa.initial.values():
                _release(state)

    def load_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Adds a checkpoint to its autoscaler's history. Raises CheckpointError or UnknownTarget."""
        namespace = checkpoint["metadata"].get("namespace") or ""
        spec = checkpoint.get("spec") or {}
        vpa = self.vpas.get((namespace, spec.get("vpaObjectName") or ""))
        if vpa is None:
            raise UnknownTarget(f"cannot load checkpoint to missing VPA object {namespace}/{spec.get('vpaObjectName')}")
        container = spec.get("containerName") or ""
        state = self._kept(load_aggregate(checkpoint.get("status") or {}, self.config))
        state.apply_policy(container_policy(vpa.object, container))
        _release(vpa.initial.get(container))
        vpa.initial[container] = state

    def merged(self, vpa: Vpa) -> dict[str, AggregateState]:
        """All usage data of an autoscaler by container name, including its checkpoints."""
        found: dict[str, AggregateState] = {}
        for container, state in vpa.states():
            into = found.get(container)
            if into is None:
                into = found[container] = AggregateState(self.config)
                into.apply_policy(container_policy(vpa.object, container))
            into.merge(state)
        return found

    def for_recommendation(self, vpa: Vpa) -> dict[str, AggregateState]:
        return {name: state for name, state in self.merged(vpa).items() if not state.scaling_off}

    def for_checkpoint(self, vpa: Vpa, now: Seconds) -> dict[str, AggregateState]:
        """Merged usage data without the peaks of open windows, which would be counted twice after a restart."""
        found = self.merged(vpa)
        for id in vpa.pods:
            for name, state in self._pod(id).containers.items():
                if name in found and now < state.window_end:
                    found[name].subtract_peak(state.peak, state.window_end)
        return found

    def stamp_created(self, created: Seconds) -> None:
        """Sets the creation time of aggregates that have none: the time at which they were first seen."""
        unstamped, self._unstamped = self._unstamped, []
        for state in unstamped:
            if state.created == NEVER:
                state.created = created

    # --- expiry ---------------------------------------------------------------------------------------------------

    def collect_garbage(self, now: Seconds, contributive: Iterable[PodId]) -> None:
        """Drops aggregates that have expired, and those without samples that no pod can add to any more."""
        active = set()
        for id in contributive:
            pod = self._pod(id)
            active |= {AggregateKey(id[0], container, pod.label_text) for container in pod.containers}
        self._by_handle = None
        for namespace, states in self._aggregates_in.items():
            vpas = self._vpas_in.get(namespace, {}).values()
            clocks = {} if self.config.expire_samples_without_metrics else self._clocks(vpas, now)
            for key in [
                key for key, state in states.items() if self._is_expired(key, state, clocks.get(key, now), active)
            ]:
                _release(states.pop(key))
                for vpa in vpas:
                    vpa.aggregates.pop(key, None)

    def _is_expired(self, key: AggregateKey, state: AggregateState, clock: Seconds, active: set[AggregateKey]) -> bool:
        if state.empty and not self.config.expire_samples_without_metrics:
            return key not in active
        return state.expired(clock) or (state.empty and key not in active)

    def _clocks(self, vpas: Iterable[Vpa], now: Seconds) -> dict[AggregateKey, Seconds]:
        """The instants from which the age of autoscalers' aggregates counts."""
        found: dict[AggregateKey, Seconds] = {}
        for vpa in vpas:
            clocks = self.sample_clocks(vpa, now)
            for key in vpa.aggregates:
                found[key] = min(found.get(key, now), clocks[key.container])
        return found

    def expire_initial(self, now: Seconds) -> None:
        """Drops checkpointed state that is too old. Upstream keeps it forever."""
        for vpa in self.vpas.values():
            clocks = {} if self.config.expire_samples_without_metrics else self.sample_clocks(vpa, now)
            for name, state in list(vpa.initial.items()):
                if not state.empty and state.expired(clocks.get(name, now)):
                    _release(vpa.initial.pop(name))

    def sample_clocks(self, vpa: Vpa, now: Seconds) -> dict[str, Seconds]:
        """The instant from which the age of a container's samples counts, by container: its newest sample.

        While no samples arrive this instant does not advance, so nothing expires. For a container that the running pods
        no longer have, it is the real time.
        """
        newest: dict[str, Seconds] = {}
        for name, state in vpa.states():
            newest[name] = max(newest.get(name, NEVER), state.last)
        running = self.running_containers(vpa)
        return {name: min(now, last) if not running or name in running else now for name, last in newest.items()}

    def running_containers(self, vpa: Vpa) -> set[str]:
        """The names of the running containers in its pods."""
        pods = [pod for id in vpa.pods if (pod := self.pod(id)) is not None and not pod.finished]
        return {name for pod in pods for name in pod.containers}

    # --- relations ------------------------------------------------------------------------------------------------

    def _pod(self, id: PodId) -> Pod:
        pod = self.pod(id)
        if pod is None:
            raise UnknownTarget(f"pod {id[0]}/{id[1]} is not known")
        return pod

    def _container(self, id: PodId, container: str) -> tuple[Pod, ContainerState]:
        pod = self._pod(id)
        state = pod.containers.get(container)
        if state is None:
            raise UnknownTarget(f"container {container} of pod {id[0]}/{id[1]} is not known")
        return pod, state

    def _aggregate_of(self, pod: Pod, container: str) -> AggregateState:
        states = self._aggregates_in.setdefault(pod.id[0], {})
        key = AggregateKey(pod.id[0], container, pod.label_text)
        state = states.get(key)
        if state is None:
            state = states[key] = self._new_aggregate()
            self._unstamped.append(state)
            labels = labels_from(pod.label_text)
            for vpa in self.matching(pod.id[0], labels):
                self._use(vpa, key, state)
        return state

    def _target(self, pod: Pod, container: str) -> AggregateState:
        """The aggregate for a container's samples; a new one if the old one was dropped in the meantime."""
        states = self._aggregates_in.get(pod.id[0], {})
        known = len(states)
        state = self._aggregate_of(pod, container)
        if len(states) != known:
            self._bind(pod, container)
        return state

    def _new_aggregate(self) -> AggregateState:
        return AggregateState(self.config) if self.fleet is None else RowAggregate(self.fleet)

    def _kept(self, loaded: AggregateState) -> AggregateState:
        """Moves loaded data into the storage in use."""
        if self.fleet is None:
            return loaded
        state = RowAggregate(self.fleet, loaded.created)
        for into, source in ((state.cpu, loaded.cpu), (state.memory, loaded.memory)):
            into.reference = source.reference
            for bucket, weight in enumerate(source.weights):
                if weight:
                    into.weights[bucket] = weight
            into.low, into.high, into.total = source.low, source.high, source.total
        state.first, state.last, state.count = loaded.first, loaded.last, loaded.count
        return state

    def _bind(self, pod: Pod, container: str) -> int:
        """Makes a container's samples count for the aggregate of its pod's labels."""
        aggregate, state = self._aggregate_of(pod, container), pod.containers[container]
        if isinstance(aggregate, RowAggregate) and isinstance(state, RowContainer):
            aggregate.fleet.row[state.handle] = aggregate.row
            return aggregate.row
        return -1

    def _row_again(self, handle: int) -> int:
        """Creates a new aggregate for a container that outlived its previous one; the next sample needs it."""
        if self._by_handle is None or handle not in self._by_handle:
            self._by_handle = {
                state.handle: (pod, name)
                for pod in self.pods.values()
                for name, state in pod.containers.items()
                if isinstance(state, RowContainer)
            }
        pod, name = self._by_handle[handle]
        return self._bind(pod, name)

    def _use(self, vpa: Vpa, key: AggregateKey, state: AggregateState) -> None:
        state.apply_policy(container_policy(vpa.object, key.container))
        vpa.aggregates[key] = state

    def _match_vpa(self, vpa: Vpa) -> None:
        if vpa.selector.nothing:
            return
        for key, state in self._aggregates_in.get(vpa.id[0], {}).items():
            if vpa.selector.matches(labels_from(key.labels)):
                self._use(vpa, key, state)
        pods = self._pods_in.get(vpa.id[0], {})
        vpa.pods = {id for id, pod in pods.items() if vpa.selector.matches(labels_from(pod.label_text))}

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[Vpa]:
        """The autoscalers that select these labels, found through the index."""
        keys = [(namespace, "", ""), *((namespace, key, value) for key, value in labels.items())]
        groups = [self._vpas_by_label[key] for key in keys if key in self._vpas_by_label]
        return [vpa for group in groups for vpa in group.values() if vpa.selector.matches(labels)]

    def _match_pod(self, pod: Pod, labels: Mapping[str, str]) -> None:
        for vpa in self._vpas_in.get(pod.id[0], {}).values():
            if vpa.selector.matches(labels):
                vpa.pods.add(pod.id)
            else:
                vpa.pods.discard(pod.id)


def _handle(vpa: Vpa) -> tuple[str, str, str]:
    for requirement in vpa.selector.requirements:
        if requirement.operator == EQUALS:
            return vpa.id[0], requirement.key, requirement.values[0]
    return vpa.id[0], "", ""


def _release(state: AggregateState | None) -> None:
    if isinstance(state, RowAggregate):
        state.release()
