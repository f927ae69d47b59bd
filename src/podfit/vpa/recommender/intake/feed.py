"""Updates the recommender's model of the cluster from the API server.

Pods are processed as they change. Autoscalers are processed once a pass, because their selection also depends on other
objects. A deleted pod is dropped at the end of the pass, so that its last out-of-memory event still counts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, VPA_CHECKPOINT
from podfit.api.selectors import LabelSelector
from podfit.client.cache import key_of
from podfit.vpa.model.objects.labels import labels_from
from podfit.vpa.model.objects.pods import containers, labels_of, phase_of
from podfit.vpa.model.objects.programs import program_of
from podfit.vpa.model.objects.readable import UNREADABLE
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.observe import trims
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.targets import OWNED_BY, Targets, Unsupported
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.conflicts import Rivals
from podfit.vpa.recommender.decide.evidence.kills import Kills
from podfit.vpa.recommender.decide.evidence.oom import Oom, ooms_between, ooms_of_eviction
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, PodId, UnknownTarget, Vpa, VpaId
from podfit.vpa.recommender.intake.throttle import cpu_limits, set_limits
from podfit.vpa.recommender.similar import Similar
from podfit.vpa.runtimes.floors import Heaps

log = logging.getLogger(__name__)

OOM_QUEUE = 5000
NOT_PENDING = "status.phase!=Pending"
GC_EVERY_S = 3600.0
Seen = tuple[int, LabelSelector | None, str | None]


class Feed:
    def __init__(self, caches: Caches, targets: Targets, cluster: ClusterState, config: RecommenderConfig) -> None:
        self._caches, self._targets, self._config = caches, targets, config
        self.cluster = cluster
        self.similar = Similar(cluster)
        self.heaps = Heaps()
        self.pods = caches.follow_pods(NOT_PENDING, by_namespace=config.memory_saver, trim=trims.pod_with_programs)
        self.evictions = caches.follow(EVENT, fieldSelector="reason=Evicted")
        self.checkpoints = caches.follow(VPA_CHECKPOINT)
        self.ooms: deque[Oom] = deque(maxlen=OOM_QUEUE)
        self._kills = Kills()
        self.earlier_ooms: list[Oom] = []
        """Kills that pods had reported before this recommender started, until `count_earlier` counts or drops them."""
        self._started_up = False
        self._unowned: set[PodId] = set()
        """Pods of Jobs that are not in the cache yet."""
        self.gone: set[PodId] = set()
        """Pods that were deleted since the last pass; they are kept until the end of the next."""
        self._seen: dict[VpaId, Seen] = {}
        self._rivals: Rivals | None = None
        self._collected = float("-inf")
        self._started = caches.clock.now()
        self.refused_checkpoints: dict[VpaId, str] = {}

    def start(self) -> None:
        """Subscribes to the caches; they must be synced."""
        self.pods.subscribe(self._on_pod)
        self.evictions.subscribe(self._on_eviction)
        self._started_up = True

    # --- pods

    def _on_pod(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            assert before is not None
            self.gone.add(key_of(before))
            return
        if before is None or not _counts_the_same(before, after):
            self.add_pod(after)
        if before is None or before.get("status") is not after.get("status"):
            self._note_kills(before, after)
        self._note_limits(before, after)

    def _note_limits(self, before: Object | None, after: Object) -> None:
        limits = cpu_limits(after)
        pod = self.cluster.pod(key_of(after)) if before is None or cpu_limits(before) != limits else None
        if pod is not None:
            set_limits(pod, limits, self._caches.clock.now())

    def _note_kills(self, before: Object | None, after: Object) -> None:
        if self._config.model.miss_oom_kills:
            self.ooms.extend(ooms_between(before, after) if before is not None else ())
            return
        found = self._kills.seen(key_of(after), before, after, younger=self._started_up)
        (self.ooms if self._started_up else self.earlier_ooms).extend(found)

    def note_counters(self, oom_ends: Mapping[tuple[str, str, str], int]) -> None:
        """Records the kills that nodes counted, by namespace, pod and container."""
        now = self._caches.clock.now()
        for (namespace, name, container), count in () if self._config.model.miss_oom_kills else oom_ends.items():
            pod = self.pods.get(namespace, name)
            if pod is not None:
                self.ooms.extend(self._kills.count_by_node((namespace, name), container, count, pod, now))

    def count_earlier(self, known: Callable[[Oom], bool]) -> None:
        """Counts the kills that pods reported before this recommender started, except those that are `known`."""
        self.ooms.extend(oom for oom in self.earlier_ooms if not known(oom))
        self.earlier_ooms.clear()

    def add_pod(self, pod: Object) -> None:
        id = key_of(pod)
        if id[0] in self._caches.ignored:
            return
        self.gone.discard(id)
        labels = self._labels(id, pod)
        if self._config.memory_saver and not self.cluster.matching(id[0], labels):
            return
        self.cluster.add_pod(id, labels, phase_of(pod))
        for container in containers(pod):
            self.cluster.add_container(id, container.get("name") or "")
        known = self.cluster.pod(id)
        assert known is not None
        self.similar.note(known, containers(pod))
        self.heaps.note(id, containers(pod))

    def _labels(self, id: PodId, pod: Object) -> Mapping[str, str]:
        labels = self._targets.labels_of(pod)
        if self._targets.owner_unknown(pod):
            self._unowned.add(id)
            known = self.cluster.pod(id)
            owner = labels_from(known.label_text).get(OWNED_BY) if known is not None else None
            return {**labels, OWNED_BY: owner} if owner is not None else labels
        return labels

    def _on_eviction(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None:
            self.ooms.extend(oom for oom in ooms_of_eviction(after) if oom.instant >= self._started - 60.0)

    # --- autoscalers

    def sync_vpas(self) -> None:
        waiting, self._unowned = self._unowned, set()
        for pod in [pod for id in waiting if (pod := self.pods.get(*id)) is not None]:
            self.add_pod(pod)
        alive: set[VpaId] = set()
        for vpa in self._caches.watched_vpas():
            if self._config.handles(vpa):
                id = key_of(vpa)
                alive.add(id)
                self._sync(id, vpa)
        for id in [id for id in self.cluster.vpas if id not in alive]:
            self.cluster.delete_vpa(id)
            self._seen.pop(id, None)
            self._rivals = None

    def _sync(self, id: VpaId, vpa: Object) -> None:
        selector: LabelSelector | None = None
        problem: str | None = None
        try:
            if UNREADABLE in vpa:
                raise Unsupported(f"Cannot read {vpa[UNREADABLE]}")
            selector = self._targets.resolve(vpa)
        except Unsupported as error:
            problem = str(error)
        except (ValueError, TypeError, AttributeError) as error:
            problem = f"Cannot read targetRef. Reason: {error}"
        seen = (hash(vpa["metadata"].get("resourceVersion")), selector, problem)
        if self._seen.get(id) == seen:
            return
        known = self.cluster.vpas.get(id)
        changed = known is None or (selector is not None and known.selector != selector)
        past = dict(known.initial) if known is not None else {}
        if known is not None and changed:
            # Checkpointed state stays valid if only the selector changed (or its target was missing).
            known.initial.clear()
        made = self.cluster.add_vpa(vpa, selector, problem)
        if changed:
            made.initial.update(past)
            self._add_unseen_pods(id[0])
        self._seen[id] = seen
        self._rivals = None

    @property
    def rivals(self) -> Rivals:
        if self._rivals is None:
            self._rivals = Rivals(self.cluster.vpas.values())
        return self._rivals

    def _add_unseen_pods(self, namespace: str) -> None:
        if self._config.memory_saver:
            for pod in self.pods.by("namespace", namespace):
                if self.cluster.pod(key_of(pod)) is None:
                    self.add_pod(pod)
                    self._note_limits(None, pod)

    def load_checkpoints(self, wanted: Callable[[Vpa, str], bool]) -> None:
        """Loads the `wanted` checkpoints into their autoscalers. Invalid ones are logged."""
        for checkpoint in self.checkpoints:
            spec = checkpoint.get("spec") or {}
            id = (checkpoint["metadata"].get("namespace", ""), spec.get("vpaObjectName") or "")
            vpa = self.cluster.vpas.get(id)
            if vpa is None or not wanted(vpa, spec.get("containerName") or ""):
                continue
            try:
                self.cluster.load_checkpoint(checkpoint)
            except (CheckpointError, UnknownTarget) as error:
                self.refused_checkpoints[id] = f"Checkpoint {checkpoint['metadata']['name']} cannot be used: {error}"
                log.warning("checkpoint %s/%s: %s", *key_of(checkpoint), error)

    def checkpointed(self) -> dict[tuple[str, str], Seconds]:
        """The time of the newest checkpoint, by namespace and container."""
        found: dict[tuple[str, str], Seconds] = {}
        for checkpoint in self.checkpoints:
            container = (checkpoint.get("spec") or {}).get("containerName") or ""
            key = (checkpoint["metadata"].get("namespace", ""), container)
            with suppress(ValueError, TypeError, AttributeError):
                written = from_rfc3339((checkpoint.get("status") or {}).get("lastUpdateTime"))
                found[key] = max(found.get(key, NEVER), written)
        return found

    # --- expiry

    def forget_gone(self) -> None:
        for id in self.gone:
            self.cluster.delete_pod(id)
            self._kills.forget(id)
            self.heaps.forget(id)
        self.gone.clear()

    def collect_garbage(self, now: Seconds) -> None:
        """Drops aggregates that can get no more samples, and checkpointed data that is too old; at most once an
        hour."""
        self.cluster.stamp_created(now)
        if now - self._collected < GC_EVERY_S and now >= self._collected:
            return
        self._collected = now
        self.cluster.collect_garbage(now, [id for id, pod in self.cluster.pods.items() if not pod.finished])
        self.cluster.expire_initial(now)
        self.similar.forget(now)

    def label_names(self) -> set[str]:
        """All label names in use, of pods and selectors."""
        found: set[str] = set()
        for pod in self.cluster.pods.values():
            found.update(labels_from(pod.label_text))
        for vpa in self.cluster.vpas.values():
            found.update(requirement.key for requirement in vpa.selector.requirements)
        return found


def _counts_the_same(before: Object, after: Object) -> bool:
    """Whether `add_pod` would have the same effect for both versions of a pod."""
    if labels_of(before) != labels_of(after):
        return False
    if before.get("status") is not after.get("status") and phase_of(before) != phase_of(after):
        return False
    if before.get("spec") is after.get("spec"):
        return True
    was, now = containers(before), containers(after)
    return was is now or [program_of(container) for container in was] == [program_of(container) for container in now]
