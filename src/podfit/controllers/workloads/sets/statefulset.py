"""StatefulSets: pods with a stable ordinal and name, created and replaced in order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.deployments.rolling import scaled
from podfit.controllers.workloads.inplace import InPlace, marks_of, wants_in_place
from podfit.controllers.workloads.ownership import Owned, pod_of
from podfit.controllers.workloads.podstate import available_in, is_deleting, is_ready, phase
from podfit.controllers.workloads.sets.history import HASH_LABEL, History, hash_of, template_of
from podfit.controllers.workloads.sets.setclaims import SetClaims
from podfit.controllers.workloads.sizes import differ_in_size_only, is_resized, is_up_to_date
from podfit.reconcile import DONE, Engine, Requeue, Result

STATEFUL_SET = kind_named("StatefulSet")
_NAME = re.compile(r"(.*)-([0-9]+)", re.DOTALL)
Key = tuple[str, str]
_BURST = 500
"""Pods that one pass creates."""


@dataclass
class Revisions:
    current: Object
    update: Object
    templates: dict[str, Object]
    """The templates of all stored revisions, by the value of the pods' revision label."""


def ordinal(pod: Object) -> int:
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return int(found.group(2)) if found else -1


def is_member(owner: Object, pod: Object) -> bool:
    """Whether the pod has one of the set's names. Others are not its replicas, whatever their labels."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    return found is not None and found.group(1) == owner["metadata"]["name"]


def _marks(revision: Object) -> tuple[str, str]:
    """The pod's label value for the revision: the name, or the hash if an older version of podfit created it."""
    return revision["metadata"]["name"], hash_of(revision)


def allowed_missing(owner: Object) -> int:
    """The number of pods that may be unavailable during an update; a percentage is rounded down, to one at least."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return max(1, scaled(rolling.get("maxUnavailable", 1), int(owner["spec"].get("replicas", 1)), up=False))


def next_out(extra: list[Object], available: Callable[[Object], bool]) -> list[Object]:
    """The pods that an ordered set deletes now, of `extra` (pods beyond the wanted number, highest ordinal first): the
    first one, or none while it terminates, or while both it and a lower one are unavailable."""
    sick = [at for at, pod in enumerate(extra) if is_deleting(pod) or not available(pod)]
    waits = bool(extra) and (is_deleting(extra[0]) or (0 in sick and sick != [0]))
    return [] if waits else extra[:1]


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=4, clock=context.clock)
        self._sets = context.cache(STATEFUL_SET)
        self._owned = Owned(context, STATEFUL_SET, is_member=is_member)
        self._history = History(context, STATEFUL_SET)
        self._in_place = InPlace(context, self._owned)
        self._claims = SetClaims(context)
        self._sets.subscribe(self._changed)
        self._owned.wake(self._engine.add)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))

    async def _reconcile(self, key: Key) -> Result:
        owner = self._sets.get(*key)
        if owner is None or is_deleting(owner):
            return DONE
        pods = await self._owned.of(owner, LabelSelector.from_object(owner["spec"]["selector"]))
        revisions = await self._revisions(owner)
        result = await self._advance(owner, pods, revisions)
        pods = await self._owned.of(owner, LabelSelector.from_object(owner["spec"]["selector"]))
        wait_s = await self._report(owner, pods, revisions)
        if isinstance(result, Requeue):
            return result
        return Requeue(wait_s, "a pod becomes available") if wait_s else DONE

    async def _revisions(self, owner: Object) -> Revisions:
        known = await self._history.of(owner)
        update = await self._history.current(owner, known)
        name = (owner.get("status") or {}).get("currentRevision")
        current = next((revision for revision in known if revision["metadata"]["name"] == name), update)
        pods = await self._owned.of(owner, None)
        used = {str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, "")) for pod in pods}
        await self._history.trim(owner, known, used | {current["metadata"]["name"], update["metadata"]["name"]})
        templates = {mark: template_of(revision) for revision in [*known, update] for mark in _marks(revision)}
        return Revisions(current, update, templates)

    async def _advance(self, owner: Object, pods: list[Object], revisions: Revisions) -> Result:
        """Creates, replaces and deletes pods: one step at a time if the set is ordered, everything at once if
        parallel."""
        spec = owner["spec"]
        start = int((spec.get("ordinals") or {}).get("start", 0))
        wanted = range(start, start + int(spec.get("replicas", 1)))
        by_ordinal = {ordinal(pod): pod for pod in pods}
        ordered = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        made = 0
        for number in wanted:
            pod = by_ordinal.get(number)
            if pod is not None and phase(pod) in ("Failed", "Succeeded") and not is_deleting(pod):
                self._report_recreated(owner, pod)
                await self._delete(owner, pod)
                return DONE
            if pod is None:
                await self._create(owner, number, revisions)
                made += 1
                if ordered:
                    return DONE
                if made == _BURST:
                    return Requeue(0.0, "more pods are to be created")
            elif ordered and (is_deleting(pod) or not self._available(owner, pod)):
                return await self._resize(owner, pods, revisions)
        extra = sorted((pod for pod in pods if ordinal(pod) not in wanted), key=ordinal, reverse=True)
        leaving = next_out(extra, lambda pod: self._available(owner, pod)) if ordered else extra
        for pod in leaving:
            if not is_deleting(pod):
                await self._claims.retire(owner, pod, ordinal(pod))
                await self._delete(owner, pod)
        if ordered and extra:
            return DONE
        return await self._update(owner, {number: by_ordinal.get(number) for number in wanted}, revisions)

    def _available(self, owner: Object, pod: Object) -> bool:
        return available_in(pod, int(owner["spec"].get("minReadySeconds", 0)), self._context.clock.now()) == 0.0

    async def _update(self, owner: Object, pods: dict[int, Object | None], revisions: Revisions) -> Result:
        """Replaces, or resizes in place, pods of an older revision. `pods` by ordinal; None: it was just created."""
        if (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") != "RollingUpdate":
            return DONE
        resized = await self._resize(owner, [pod for pod in pods.values() if pod is not None], revisions)
        for pod in self._outdated(owner, pods, revisions):
            await self._delete(owner, pod)
        return resized

    def _outdated(self, owner: Object, pods: dict[int, Object | None], revisions: Revisions) -> list[Object]:
        """The pods to replace now, highest ordinal first, within the partition.

        One after the other, whatever the state of lower ones, and none before the one above it is available; with
        maxUnavailable, that many at once, and unavailable ones in any case.
        """
        rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        start = int((owner["spec"].get("ordinals") or {}).get("start", 0))
        serving = {number: pod is not None and self._serves(owner, pod) for number, pod in pods.items()}
        room = allowed_missing(owner) - sum(not serves for serves in serving.values())
        chosen: list[Object] = []
        for number, pod in sorted(pods.items(), reverse=True):
            if number < start + int(rolling.get("partition", 0)):
                break
            old = pod is not None and not is_deleting(pod) and self._is_old(owner, pod, revisions)
            if rolling.get("maxUnavailable") is None:
                if pod is not None and old:
                    return [pod]
                if not serving[number]:
                    break
            elif pod is not None and old and (room > 0 or not serving[number]):
                chosen.append(pod)
                room -= serving[number]
        return chosen

    def _serves(self, owner: Object, pod: Object) -> bool:
        return not is_deleting(pod) and self._available(owner, pod)

    def _is_old(self, owner: Object, pod: Object, revisions: Revisions) -> bool:
        return not self._has(pod, revisions.update) and not self._resizable(owner, pod, revisions)

    @staticmethod
    def _has(pod: Object, revision: Object) -> bool:
        return (pod["metadata"].get("labels") or {}).get(HASH_LABEL) in _marks(revision)

    def _resizable(self, owner: Object, pod: Object, revisions: Revisions) -> bool:
        """Whether this pod's own revision differs from the newest only in sizes, and its owner resizes in place."""
        if not wants_in_place(owner):
            return False
        if self._has(pod, revisions.update):
            return not is_up_to_date(pod, template_of(revisions.update))
        # Not only the current revision: a second change may arrive while pods are being changed to the first.
        own = revisions.templates.get(str((pod["metadata"].get("labels") or {}).get(HASH_LABEL, "")))
        return own is not None and differ_in_size_only(own, template_of(revisions.update))

    async def _resize(self, owner: Object, pods: list[Object], revisions: Revisions) -> Result:
        """Resizes pods that differ in size only; a pod whose resize is applied gets the newest revision's label."""
        if not wants_in_place(owner):
            return DONE
        partition = int(((owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0))
        start = int((owner["spec"].get("ordinals") or {}).get("start", 0))
        template = template_of(revisions.update)
        chosen = []
        for pod in sorted(pods, key=ordinal, reverse=True):
            if ordinal(pod) < start + partition or is_deleting(pod):
                continue
            if self._has(pod, revisions.update):
                chosen.append(pod)
            elif self._resizable(owner, pod, revisions):
                chosen.append(pod)
                if is_resized(pod, template):
                    meta = pod["metadata"]
                    change = {"metadata": {"labels": {HASH_LABEL: revisions.update["metadata"]["name"]}}}
                    await self._context.client.patch(POD, meta["namespace"], meta["name"], change)
        return await self._in_place.advance(owner, template, chosen, allowed_missing(owner))

    # --- pods
    async def _create(self, owner: Object, number: int, revisions: Revisions) -> None:
        partition = int(((owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0))
        start = int((owner["spec"].get("ordinals") or {}).get("start", 0))
        revision = revisions.current if number < start + partition else revisions.update
        name = f"{owner['metadata']['name']}-{number}"
        claims = await self._claims.make(owner, number)
        body = self._body(owner, name, number, revision, claims)
        try:
            await self._owned.create(owner, body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            self._context.recorder.record(
                owner,
                "Warning",
                "FailedCreate",
                f"Create Pod {name} in StatefulSet {owner['metadata']['name']} failed error: {error}",
            )
            raise
        self._context.recorder.record(
            owner,
            "Normal",
            "SuccessfulCreate",
            f"Create Pod {name} in StatefulSet {owner['metadata']['name']} successful",
        )

    def _body(self, owner: Object, name: str, number: int, revision: Object, claims: list[Object]) -> Object:
        labels = {
            "apps.kubernetes.io/pod-index": str(number),
            HASH_LABEL: revision["metadata"]["name"],
            "statefulset.kubernetes.io/pod-name": name,
        }
        template = template_of(revision)
        marks = marks_of(owner, template)
        body = pod_of(template, STATEFUL_SET, owner, name=name, labels=labels, annotations=marks)
        spec = {**body["spec"], "hostname": name}
        if owner["spec"].get("serviceName"):
            spec["subdomain"] = owner["spec"]["serviceName"]
        if claims:
            names = {claim["name"] for claim in claims}
            spec["volumes"] = [
                *(volume for volume in spec.get("volumes") or [] if volume["name"] not in names),
                *claims,
            ]
        return {**body, "spec": spec}

    def _report_recreated(self, owner: Object, pod: Object) -> None:
        failed = phase(pod) == "Failed"
        reason = "RecreatingFailedPod" if failed else "RecreatingTerminatedPod"
        where, name = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}", pod["metadata"]["name"]
        message = f"StatefulSet {where} is recreating {'failed' if failed else 'terminated'} Pod {name}"
        self._context.recorder.record(owner, "Warning" if failed else "Normal", reason, message)

    async def _delete(self, owner: Object, pod: Object) -> None:
        name, set_name = pod["metadata"]["name"], owner["metadata"]["name"]
        await self._owned.delete(pod)
        message = f"Delete Pod {name} in StatefulSet {set_name} successful"
        self._context.recorder.record(owner, "Normal", "SuccessfulDelete", message)

    async def _report(self, owner: Object, pods: list[Object], revisions: Revisions) -> float:
        now, minimum = self._context.clock.now(), int(owner["spec"].get("minReadySeconds", 0))
        live = [pod for pod in pods if not is_deleting(pod)]
        # A terminating pod counts as available as long as it is ready.
        waits = [available_in(pod, minimum, now) for pod in pods]
        updated = [
            pod for pod in live if self._has(pod, revisions.update) and not self._resizable(owner, pod, revisions)
        ]
        status: Object = {
            "observedGeneration": owner["metadata"].get("generation", 0),
            "replicas": len(pods),
            "currentRevision": revisions.current["metadata"]["name"],
            "updateRevision": revisions.update["metadata"]["name"],
            "collisionCount": 0,
            "availableReplicas": sum(wait == 0.0 for wait in waits),
        }
        counts = {
            "readyReplicas": sum(map(is_ready, pods)),
            "currentReplicas": sum(self._has(pod, revisions.current) for pod in live),
            "updatedReplicas": len(updated),
        }
        replicas = int(owner["spec"].get("replicas", 1))
        rolls = (owner["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
        if rolls and len(updated) == replicas == len(pods) == counts["readyReplicas"]:
            # All pods have the newest revision, which thus becomes the current one.
            status["currentRevision"] = status["updateRevision"]
            counts["currentReplicas"] = counts["updatedReplicas"]
        status.update({field: number for field, number in counts.items() if number})
        if status != (owner.get("status") or {}):
            await self._context.client.update(STATEFUL_SET, {**owner, "status": status}, "status")
        return min((wait for wait in waits if wait), default=0.0)
