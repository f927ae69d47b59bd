"""DaemonSets: one pod on every node that fits, placed by the scheduler through an affinity to that node."""

from __future__ import annotations

import asyncio

from podfit.api.objects import Object
from podfit.api.pods.placement import node_matches, untolerated
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.deployments.rolling import scaled
from podfit.controllers.workloads.inplace import InPlace, marks_of, wants_in_place
from podfit.controllers.workloads.ownership import Owned, pod_of
from podfit.controllers.workloads.podstate import available_in, is_deleting, is_ready, phase
from podfit.controllers.workloads.sets.history import HASH_LABEL, History, hash_of, template_of
from podfit.controllers.workloads.sizes import differ_in_size_only, is_resized, is_up_to_date
from podfit.kit.backoff import Backoff
from podfit.reconcile import DONE, Engine, Requeue, Result

DAEMON_SET = kind_named("DaemonSet")
_BURST = 250
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ANY_TIME = {"tolerationSeconds": 0}
Key = tuple[str, str]


def with_tolerations(spec: Object) -> Object:
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        added.append({"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"})
    tolerations = list(spec.get("tolerations") or [])
    for toleration in added:
        # Tolerations that differ only in their duration are extended: a daemon stays.
        same = [at for at, other in enumerate(tolerations) if {**other, **_ANY_TIME} == {**toleration, **_ANY_TIME}]
        for at in same:
            tolerations[at] = toleration
        if not same:
            tolerations.append(toleration)
    return {**spec, "tolerations": tolerations}


def bound_to(spec: Object, node: str) -> Object:
    """The pod spec with a required affinity to this node, replacing node names in other required terms."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [field]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def node_of(pod: Object) -> str:
    """The node that a daemon pod is on, or destined for."""
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def should_run(template: Object, node: Object) -> tuple[bool, bool]:
    """Whether a pod should be started on the node, and whether a running one may stay. Pure."""
    spec = with_tolerations(template.get("spec") or {})
    if not node_matches(spec, node):
        return False, False
    taints = (node.get("spec") or {}).get("taints") or []
    tolerations = spec.get("tolerations") or []
    starts = untolerated(taints, tolerations, ("NoSchedule", "NoExecute")) is None
    return starts, untolerated(taints, tolerations, ("NoExecute",)) is None


def surplus(pods: list[Object], update: Object, *, paired: bool) -> list[Object]:
    """The surplus pods on one node: all but the oldest; if `paired` (a surge), one old and one updated pod stay.
    Pure."""
    ordered = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
    if not paired:
        return ordered[1:]
    new = [pod for pod in ordered if _is_of(pod, update)]
    old = [pod for pod in ordered if not _is_of(pod, update)]
    return new[1:] + old[1:]


def uids_of(pods: list[Object]) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in pods}


class DaemonSetController:
    name = "daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=2, clock=context.clock)
        self._sets, self._nodes = context.cache(DAEMON_SET), context.cache(NODE)
        self._owned = Owned(context, DAEMON_SET)
        self._history = History(context, DAEMON_SET)
        self._in_place = InPlace(context, self._owned)
        self._failed = Backoff(1.0, 900.0)
        self._kept_until: dict[tuple[str, str], float] = {}
        self._sets.subscribe(self._changed)
        self._nodes.subscribe(self._node_changed)
        self._owned.wake(self._engine.add)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))
        elif before is not None:
            self._forget(before["metadata"]["uid"])

    def _forget(self, uid: str) -> None:
        self._owned.forget(uid)
        for place in [kept for kept in self._kept_until if kept[0] == uid]:
            del self._kept_until[place]
            self._failed.forget(place)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        # Heartbeats change a node frequently; only fields that decide where daemons run matter.
        if _traits(before) != _traits(after):
            for daemon_set in self._sets:
                self._changed(None, daemon_set)

    async def _reconcile(self, key: Key) -> Result:
        owner = self._sets.get(*key)
        if owner is None or is_deleting(owner):
            return DONE
        selector = LabelSelector.from_object(owner["spec"]["selector"])
        revisions = await self._history.of(owner)
        update = await self._history.current(owner, revisions)
        pods = await self._owned.of(owner, selector)
        later = await self._place(owner, pods, update)
        result = await self._update(owner, await self._owned.of(owner, selector), revisions, update)
        pods = await self._owned.of(owner, selector)
        used = {str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, "")) for pod in pods}
        await self._history.trim(owner, revisions, used | {update["metadata"]["name"]})
        wait_s = await self._report(owner, pods, update)
        waits = [wait for wait in (later, wait_s, result.after_s if isinstance(result, Requeue) else 0.0) if wait]
        return Requeue(min(waits), "a daemon pod is due for a check") if waits else DONE

    async def _place(self, owner: Object, pods: list[Object], update: Object) -> float:
        """Creates missing pods, deletes misplaced ones; returns when to retry failed ones."""
        by_node: dict[str, list[Object]] = {}
        for pod in pods:
            by_node.setdefault(node_of(pod), []).append(pod)
        missing: list[str] = []
        later = 0.0
        for node in self._nodes:
            name = node["metadata"]["name"]
            here = by_node.pop(name, [])
            starts, stays = should_run(owner["spec"]["template"], node)
            live = [pod for pod in here if not is_deleting(pod)]
            for pod in live:
                if phase(pod) == "Failed":
                    wait_s = await self._stop_failed(owner, pod, name)
                    later = min(later, wait_s) if later and wait_s else later or wait_s
                elif phase(pod) == "Succeeded":
                    await self._stop_succeeded(owner, pod, name)
            live = [pod for pod in live if phase(pod) not in ("Failed", "Succeeded")]
            if not stays:
                for pod in live:
                    await self._stop(owner, pod)
            elif len(live) > 1:
                for pod in surplus(live, update, paired=_surges(owner)):
                    await self._stop(owner, pod)
            elif not here and starts:
                missing.append(name)
        for strays in by_node.values():
            for pod in strays:
                if not is_deleting(pod):
                    await self._stop(owner, pod)
        await self._start(owner, missing[:_BURST], update)
        return later

    async def _start(self, owner: Object, nodes: list[str], update: Object) -> None:
        template = template_of(update)
        spec = with_tolerations(template.get("spec") or {})
        labels = {HASH_LABEL: hash_of(update)}
        generation = (owner["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
        if generation:
            labels["pod-template-generation"] = generation
        marks = marks_of(owner, template)
        batch = 1
        while nodes:
            now, nodes = nodes[:batch], nodes[batch:]
            bodies = [
                pod_of({**template, "spec": bound_to(spec, node)}, DAEMON_SET, owner, labels=labels, annotations=marks)
                for node in now
            ]
            results = await asyncio.gather(
                *(self._owned.create(owner, body) for body in bodies), return_exceptions=True
            )
            for result in results:
                if isinstance(result, ApiError):
                    self._context.recorder.record(owner, "Warning", "FailedCreate", f"Error creating: {result}")
                    raise result
                if isinstance(result, BaseException):
                    raise result
                name = result["metadata"]["name"]
                self._context.recorder.record(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
            batch *= 2

    async def _stop(self, owner: Object, pod: Object) -> None:
        await self._owned.delete(pod)
        message = f"Deleted pod: {pod['metadata']['name']}"
        self._context.recorder.record(owner, "Normal", "SuccessfulDelete", message)

    async def _stop_failed(self, owner: Object, pod: Object, node: str) -> float:
        """Deletes a failed pod so that another is started; with a growing delay per node. Returns the delay."""
        place, now = (str(owner["metadata"]["uid"]), node), self._context.clock.monotonic()
        left = self._kept_until.get(place, now) - now
        if left > 0:
            return left
        self._kept_until[place] = now + self._failed.next(place)
        message = f"Found failed daemon pod {_full(pod)} on node {node}, will try to kill it"
        self._context.recorder.record(owner, "Warning", "FailedDaemonPod", message)
        await self._stop(owner, pod)
        return 0.0

    async def _stop_succeeded(self, owner: Object, pod: Object, node: str) -> None:
        """Deletes a pod that has succeeded: daemons run permanently, so another one is started at once."""
        message = f"Found succeeded daemon pod {_full(pod)} on node {node}, will try to delete it"
        self._context.recorder.record(owner, "Normal", "SucceededDaemonPod", message)
        await self._stop(owner, pod)

    async def _update(self, owner: Object, pods: list[Object], revisions: list[Object], update: Object) -> Result:
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return DONE
        live = [pod for pod in pods if not is_deleting(pod)]
        old = [pod for pod in live if not _is_of(pod, update)]
        wanted = sum(should_run(owner["spec"]["template"], node)[0] for node in self._nodes)
        allowed = max(1, scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), wanted, up=True))
        resized: Result = DONE
        if wants_in_place(owner):
            old = await self._relabel(old, revisions, update)
            moving = sorted((pod for pod in live if pod not in old), key=node_of)
            resized = await self._in_place.advance(owner, template_of(update), moving, allowed)
        now, minimum = self._context.clock.now(), int(owner["spec"].get("minReadySeconds", 0))
        available = [pod for pod in live if available_in(pod, minimum, now) == 0.0]
        if _surges(owner):
            surge = scaled(strategy["rollingUpdate"]["maxSurge"], wanted, up=True)
            await self._surge(owner, live, old, update, surge, uids_of(available))
            return resized
        room = allowed - max(0, wanted - len(available))
        for pod in old:
            if pod not in available:
                await self._stop(owner, pod)
            elif room > 0:
                room -= 1
                await self._stop(owner, pod)
        return resized

    async def _surge(
        self, owner: Object, live: list[Object], old: list[Object], update: Object, surge: int, available: set[str]
    ) -> None:
        """Starts the new pod next to the old one, which is deleted as soon as the new one is available."""
        fresh = {node_of(pod): pod["metadata"]["uid"] for pod in live if _is_of(pod, update)}
        room = surge - len(
            {node_of(pod) for pod in old} & {node for node, uid in fresh.items() if uid not in available}
        )
        begin: list[str] = []
        for pod in old:
            place, serves = node_of(pod), pod["metadata"]["uid"] in available
            node = self._nodes.get("", place)
            if place in fresh:
                if fresh[place] in available or not serves:
                    await self._stop(owner, pod)
            elif node is not None and should_run(owner["spec"]["template"], node)[0] and (room > 0 or not serves):
                # An unavailable pod is replaced regardless of the surge limit.
                room -= serves
                begin.append(place)
        await self._start(owner, begin, update)

    async def _relabel(self, old: list[Object], revisions: list[Object], update: Object) -> list[Object]:
        """Gives pods whose resize is applied the newest revision's label; returns those that a resize cannot update."""
        template = template_of(update)
        known = {hash_of(revision): template_of(revision) for revision in revisions}
        others: list[Object] = []
        for pod in old:
            own = known.get(str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, "")))
            if own is None or not differ_in_size_only(own, template):
                others.append(pod)
            elif is_resized(pod, template):
                meta = pod["metadata"]
                change = {"metadata": {"labels": {HASH_LABEL: hash_of(update)}}}
                await self._context.client.patch(POD, meta["namespace"], meta["name"], change)
        return others

    async def _report(self, owner: Object, pods: list[Object], update: Object) -> float:
        now, minimum = self._context.clock.now(), int(owner["spec"].get("minReadySeconds", 0))
        by_node: dict[str, list[Object]] = {}
        for pod in pods:
            if not is_deleting(pod):
                by_node.setdefault(node_of(pod), []).append(pod)
        counts = dict.fromkeys(("desired", "current", "ready", "available", "updated", "misscheduled"), 0)
        waits = []
        for node in self._nodes:
            here = by_node.get(node["metadata"]["name"], [])
            starts, _ = should_run(owner["spec"]["template"], node)
            if not starts:
                counts["misscheduled"] += bool(here)
                continue
            counts["desired"] += 1
            if here:
                counts["current"] += 1
                # During a surge there are two: either serves, and the old one still has to be deleted.
                due = [available_in(pod, minimum, now) for pod in here]
                waits += due
                counts["ready"] += any(map(is_ready, here))
                counts["available"] += 0.0 in due
                counts["updated"] += all(_is_updated(owner, pod, update) for pod in here)
        status: Object = {
            "currentNumberScheduled": counts["current"],
            "numberMisscheduled": counts["misscheduled"],
            "desiredNumberScheduled": counts["desired"],
            "numberReady": counts["ready"],
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        more = {
            "updatedNumberScheduled": counts["updated"],
            "numberAvailable": counts["available"],
            "numberUnavailable": counts["desired"] - counts["available"],
        }
        status.update({field: number for field, number in more.items() if number})
        if status != (owner.get("status") or {}):
            await self._context.client.update(DAEMON_SET, {**owner, "status": status}, "status")
        return min((wait for wait in waits if wait), default=0.0)


def _surges(owner: Object) -> bool:
    strategy = owner["spec"].get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    return (
        strategy.get("type", "RollingUpdate") == "RollingUpdate"
        and scaled(rolling.get("maxSurge", 0), 100, up=True) > 0
    )


def _is_of(pod: Object, revision: Object) -> bool:
    return bool((pod["metadata"].get("labels") or {}).get(HASH_LABEL) == hash_of(revision))


def _is_updated(owner: Object, pod: Object, revision: Object) -> bool:
    return _is_of(pod, revision) and (not wants_in_place(owner) or is_up_to_date(pod, template_of(revision)))


def _traits(node: Object | None) -> object:
    if node is None:
        return None
    spec = node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable")


def _full(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
