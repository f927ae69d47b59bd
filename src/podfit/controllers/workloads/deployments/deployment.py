"""Deployments: one ReplicaSet per template; rolls out from the old ones to the new one within surge and unavailability.

With `podfit.dev/resize-policy: InPlace` a change of sizes alone creates no new ReplicaSet: the running one gets the new
template and resizes its pods. The former template is kept as a ReplicaSet without pods, so that history and
`kubectl rollout undo` still work; an undo is in place, too.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError, go_quote, is_namespace_going
from podfit.controllers.context import ControllerContext
from podfit.controllers.owners import controller_of
from podfit.controllers.workloads.deployments.hashing import template_hash
from podfit.controllers.workloads.deployments.progress import Start, deployment_status, is_complete, not_made
from podfit.controllers.workloads.deployments.revisions import (
    DESIRED,
    HASH_LABEL,
    MAXIMUM,
    REVISION,
    aim_of,
    bare_template,
    by_age,
    count,
    find_new,
    find_resizable,
    replicas_of,
    revision_of,
    set_annotations,
)
from podfit.controllers.workloads.deployments.rolling import Size, bounds, new_size, old_sizes, proportional
from podfit.controllers.workloads.inplace import BATCH, wants_in_place
from podfit.controllers.workloads.ownership import Owned, owner_reference
from podfit.controllers.workloads.podstate import is_active, is_deleting
from podfit.controllers.workloads.sizes import is_up_to_date
from podfit.reconcile import DONE, Engine, Requeue, Result

DEPLOYMENT, REPLICA_SET = kind_named("Deployment"), kind_named("ReplicaSet")
Key = tuple[str, str]


class DeploymentController:
    name = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=8, clock=context.clock)
        self._deployments = context.cache(DEPLOYMENT)
        self._sets = context.cache(REPLICA_SET)
        self._pods = context.cache(POD)
        self._owned = Owned(context, DEPLOYMENT, REPLICA_SET)
        self._deployments.subscribe(self._changed)
        self._owned.wake(self._engine.add)
        context.informers.waking(POD).owned_by(REPLICA_SET.kind, self._pod_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add((after["metadata"]["namespace"], after["metadata"]["name"]))
        elif before is not None:
            self._owned.forget(before["metadata"]["uid"])

    def _pod_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        """Enqueues the Deployment: a resize is visible only in the pod, not in its ReplicaSet's counts."""
        replica_set = self._sets.get(*key)
        owner = controller_of(replica_set) if replica_set is not None and wants_in_place(replica_set) else None
        if owner is not None and owner.get("kind") == DEPLOYMENT.kind:
            self._engine.add((key[0], owner["name"]))

    async def _reconcile(self, key: Key) -> Result:
        deployment = self._deployments.get(*key)
        if deployment is None:
            return DONE
        selector = LabelSelector.from_object(deployment["spec"]["selector"])
        sets = await self._owned.of(deployment, selector)
        paused = bool(deployment["spec"].get("paused"))
        new, start = self._existing(deployment, sets), Start.NOTHING
        if not is_deleting(deployment):
            if new is None and not paused:
                new = await self._make(deployment, sets)
                if new is not None:
                    sets.append(new)
                    start = Start.MADE
            elif new is not None:
                start = Start.NOTHING if paused or _has_sizes(new, deployment) else Start.RESIZING
                new = await self._refresh(deployment, new, sets, paused)
            if new is not None:
                deployment = await self._note_revision(deployment, revision_of(new))
            await self._advance(
                deployment,
                new,
                [replica_set for replica_set in sets if new is None or _uid(replica_set) != _uid(new)],
                paused,
            )
            await self._clean_up(deployment, new, sets)
        return await self._report(deployment, new, await self._owned.of(deployment, selector), start)

    # --- the ReplicaSet of the current template
    def _existing(self, deployment: Object, sets: list[Object]) -> Object | None:
        if wants_in_place(deployment):
            return find_resizable(deployment, sets) or find_new(deployment, sets)
        return find_new(deployment, sets)

    async def _make(self, deployment: Object, sets: list[Object], *, revision: int = 0) -> Object | None:
        template = deployment["spec"]["template"]
        revision = revision or max((revision_of(replica_set) for replica_set in sets), default=0) + 1
        limits = bounds(deployment["spec"])
        total = sum(map(replicas_of, sets))
        size = new_size(replicas_of(deployment), limits.surge, 0, total)
        if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            size = 0 if any(map(_has_pods, sets)) else replicas_of(deployment)
        body = self._set_body(
            deployment,
            template,
            size,
            revision,
            limits.surge,
            int((deployment.get("status") or {}).get("collisionCount", 0)),
        )
        try:
            made = await self._owned.create(deployment, body)
        except ApiError as error:
            if error.code == 409 and error.reason == "AlreadyExists":
                return await self._collided(deployment, body)
            if not is_namespace_going(error):
                await self._report_creation_failure(deployment, body["metadata"]["name"], error)
            raise
        self._report_scaled(deployment, made, 0, size)
        return made

    async def _report_creation_failure(self, deployment: Object, name: str, error: ApiError) -> None:
        message = f"Failed to create new replica set {go_quote(name)}: {error}"
        status = not_made(deployment, message, self._context.clock.now())
        if status != (deployment.get("status") or {}):
            await self._context.client.update(DEPLOYMENT, {**deployment, "status": status}, "status")
        self._context.recorder.record(deployment, "Warning", "ReplicaSetCreateError", message)

    async def _collided(self, deployment: Object, body: Object) -> Object | None:
        """Handles an existing name: our own set that the cache does not show yet is returned; after a hash collision
        the count of collisions is incremented, so that the next pass uses another name."""
        meta = deployment["metadata"]
        found = await self._context.client.find(REPLICA_SET, meta["namespace"], body["metadata"]["name"])
        owner = controller_of(found) if found else None
        ours = found is not None and owner is not None and owner["uid"] == meta["uid"]
        if found and ours and bare_template(found["spec"]["template"]) == bare_template(body["spec"]["template"]):
            return found
        status = {**(deployment.get("status") or {})}
        status["collisionCount"] = int(status.get("collisionCount", 0)) + 1
        await self._context.client.update(DEPLOYMENT, {**deployment, "status": status}, "status")
        return None

    def _set_body(
        self, deployment: Object, template: Object, size: int, revision: int, surge: int, salt: int
    ) -> Object:
        name = template_hash(bare_template(template), salt)
        labels = (template.get("metadata") or {}).get("labels") or {}
        labelled = {
            **template,
            "metadata": {**(template.get("metadata") or {}), "labels": {**labels, HASH_LABEL: name}},
        }
        selector = deployment["spec"]["selector"]
        matched = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: name}}
        meta = deployment["metadata"]
        spec = {"replicas": size, "selector": matched, "template": labelled}
        if deployment["spec"].get("minReadySeconds"):
            spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{meta['name']}-{name}",
                "namespace": meta["namespace"],
                "labels": {**labels, HASH_LABEL: name},
                "annotations": set_annotations(deployment, {}, revision, replicas_of(deployment) + surge),
                "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
            },
            "spec": spec,
        }

    async def _refresh(self, deployment: Object, new: Object, sets: list[Object], paused: bool) -> Object:
        """Updates the new set's annotations and, in place, its template."""
        newest = max((revision_of(replica_set) for replica_set in sets if _uid(replica_set) != _uid(new)), default=0)
        revision = max(revision_of(new), newest + 1)
        template = deployment["spec"]["template"]
        other_size = not _has_sizes(new, deployment)
        if other_size and not paused:
            await self._keep_former(deployment, new, sets)
            revision = max(revision, revision_of(new) + 1)
        maximum = replicas_of(deployment) + bounds(deployment["spec"]).surge
        current = new["metadata"].get("annotations") or {}
        annotations = set_annotations(deployment, current, revision, maximum)
        if wants_in_place(deployment):
            annotations[BATCH] = str(max(1, bounds(deployment["spec"]).unavailable))
        change: Object = {}
        if annotations != current:
            gone = {key: None for key in current if key not in annotations}
            change["metadata"] = {"annotations": {**annotations, **gone}}
        spec: Object = {}
        if other_size and not paused:
            hashed = new["spec"]["template"]["metadata"]["labels"][HASH_LABEL]
            labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: hashed}
            spec["template"] = {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}
        if int(new["spec"].get("minReadySeconds", 0)) != int(deployment["spec"].get("minReadySeconds", 0)):
            spec["minReadySeconds"] = int(deployment["spec"].get("minReadySeconds", 0))
        if spec:
            change["spec"] = spec
        return await self._update_set(new, change) if change else new

    async def _update_set(self, replica_set: Object, change: Object) -> Object:
        body = {
            **replica_set,
            "metadata": {**replica_set["metadata"]},
            "spec": {**replica_set["spec"], **(change.get("spec") or {})},
        }
        annotations = (change.get("metadata") or {}).get("annotations")
        if annotations is not None:
            body["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        return await self._context.client.update(REPLICA_SET, body)

    async def _keep_former(self, deployment: Object, new: Object, sets: list[Object]) -> None:
        """Stores the previous template as a set without pods, before the template is changed in place."""
        former = bare_template(new["spec"]["template"])
        wanted = bare_template(deployment["spec"]["template"])
        for replica_set in sets:
            if (
                _uid(replica_set) != _uid(new)
                and not replicas_of(replica_set)
                and bare_template(replica_set["spec"]["template"]) in (former, wanted)
            ):
                await self._owned.delete(replica_set)
        past = {**deployment, "spec": {**deployment["spec"], "template": former}}
        salt = revision_of(new) + 1_000_000
        body = self._set_body(past, former, 0, revision_of(new), 0, salt)
        try:
            await self._owned.create(deployment, body)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _note_revision(self, deployment: Object, revision: int) -> Object:
        meta = deployment["metadata"]
        if (meta.get("annotations") or {}).get(REVISION) == str(revision):
            return deployment
        noted = {**meta, "annotations": {**(meta.get("annotations") or {}), REVISION: str(revision)}}
        # Through the status subresource, where a change of annotations does not increase the generation. The update
        # fails if the Deployment has changed: the decisions so far apply to this version only.
        return await self._context.client.update(DEPLOYMENT, {**deployment, "metadata": noted}, "status")

    # --- size of each set
    async def _advance(self, deployment: Object, new: Object | None, old: list[Object], paused: bool) -> None:
        live = [replica_set for replica_set in old if replicas_of(replica_set) or count(replica_set, "replicas")]
        if paused or self._was_rescaled(deployment, [replica_set for replica_set in [new, *live] if replica_set]):
            await self._rescale(deployment, new, old)
            return
        if new is None:
            return
        if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            await self._recreate(deployment, new, old)
            return
        limits, wanted = bounds(deployment["spec"]), replicas_of(deployment)
        total = replicas_of(new) + sum(map(replicas_of, live))
        size = new_size(wanted, limits.surge, replicas_of(new), total)
        if size != replicas_of(new):
            await self._resize_set(deployment, new, size)
            return
        fitted = _size(new)
        sizes = old_sizes(wanted, limits.unavailable, fitted, [_size(replica_set) for replica_set in by_age(live)])
        for replica_set in live:
            if replica_set["metadata"]["name"] in sizes:
                await self._resize_set(deployment, replica_set, sizes[replica_set["metadata"]["name"]])

    def _was_rescaled(self, deployment: Object, sets: list[Object]) -> bool:
        """Whether the Deployment's replicas changed while more than one set has pods."""
        alive = [replica_set for replica_set in sets if replicas_of(replica_set)]
        wanted = str(replicas_of(deployment))
        return any(
            (replica_set["metadata"].get("annotations") or {}).get(DESIRED, wanted) != wanted for replica_set in alive
        )

    async def _rescale(self, deployment: Object, new: Object | None, old: list[Object]) -> None:
        wanted = replicas_of(deployment)
        alive = [replica_set for replica_set in [new, *old] if replica_set and replicas_of(replica_set)]
        if len(alive) <= 1:
            target = alive[0] if alive else new or max(old, key=revision_of, default=None)
            if target is not None and (replicas_of(target) != wanted or self._was_rescaled(deployment, [target])):
                await self._resize_set(deployment, target, wanted)
            return
        surge = bounds(deployment["spec"]).surge if wanted else 0
        aims = {replica_set["metadata"]["name"]: aim_of(replica_set) for replica_set in alive}
        sizes = proportional(
            wanted + surge if wanted else 0, [_size(replica_set) for replica_set in by_age(alive)], aims
        )
        for replica_set in alive:
            await self._resize_set(
                deployment, replica_set, sizes.get(replica_set["metadata"]["name"], replicas_of(replica_set))
            )

    async def _recreate(self, deployment: Object, new: Object, old: list[Object]) -> None:
        for replica_set in old:
            if replicas_of(replica_set):
                await self._resize_set(deployment, replica_set, 0)
        if not any(map(_has_pods, old)) and replicas_of(new) != replicas_of(deployment):
            await self._resize_set(deployment, new, replicas_of(deployment))

    async def _resize_set(self, deployment: Object, replica_set: Object, size: int) -> None:
        before = replicas_of(replica_set)
        surge = bounds(deployment["spec"]).surge
        annotations = {
            **(replica_set["metadata"].get("annotations") or {}),
            DESIRED: str(replicas_of(deployment)),
            MAXIMUM: str(replicas_of(deployment) + surge),
        }
        if size == before and annotations == (replica_set["metadata"].get("annotations") or {}):
            return
        meta = replica_set["metadata"]
        change = {
            "metadata": {"annotations": annotations, "resourceVersion": meta["resourceVersion"]},
            "spec": {"replicas": size},
        }
        await self._context.client.patch(REPLICA_SET, meta["namespace"], meta["name"], change)
        self._report_scaled(deployment, replica_set, before, size)

    def _report_scaled(self, deployment: Object, replica_set: Object, before: int, size: int) -> None:
        if size != before:
            way = "up" if size > before else "down"
            message = f"Scaled {way} replica set {replica_set['metadata']['name']} from {before} to {size}"
            self._context.recorder.record(deployment, "Normal", "ScalingReplicaSet", message)

    async def _clean_up(self, deployment: Object, new: Object | None, sets: list[Object]) -> None:
        if not deployment["spec"].get("paused") and not is_complete(deployment):
            # Until a rollout has ended, it may be rolled back to any former revision.
            return
        limit = int(deployment["spec"].get("revisionHistoryLimit", 10))
        spent = [
            replica_set
            for replica_set in sets
            if (new is None or _uid(replica_set) != _uid(new))
            and not replicas_of(replica_set)
            and not count(replica_set, "replicas")
            and not is_deleting(replica_set)
            and count(replica_set, "observedGeneration") >= int(replica_set["metadata"].get("generation", 0))
        ]
        spent.sort(key=revision_of)
        for replica_set in spent[: max(0, len(spent) - limit)]:
            await self._owned.delete(replica_set)

    async def _report(self, deployment: Object, new: Object | None, sets: list[Object], start: Start) -> Result:
        now = self._context.clock.now()
        status, deadline = deployment_status(deployment, new, sets, now, self._updated(deployment, new), start)
        if status != (deployment.get("status") or {}):
            await self._context.client.update(DEPLOYMENT, {**deployment, "status": status}, "status")
        if deadline is not None and deadline > now:
            return Requeue(deadline - now + 1, "the rollout must progress by then")
        return DONE

    def _updated(self, deployment: Object, new: Object | None) -> int:
        """The number of pods with the newest template; for in-place updates, of pods that have it applied."""
        if new is None or not wants_in_place(deployment):
            return count(new, "replicas") if new else 0
        pods = [pod for pod in self._pods.by("controller", _uid(new)) if is_active(pod)]
        made = sum(is_up_to_date(pod, deployment["spec"]["template"]) for pod in pods)
        return min(made, count(new, "replicas"))


def _uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def _has_sizes(new: Object, deployment: Object) -> bool:
    """Whether the set has exactly the Deployment's template; otherwise it is to be resized in place."""
    return bare_template(new["spec"]["template"]) == bare_template(deployment["spec"]["template"])


def _has_pods(replica_set: Object) -> bool:
    """Whether the set has pods, including terminating ones, whose resources are not free until they are gone."""
    return bool(replicas_of(replica_set) or count(replica_set, "replicas") or count(replica_set, "terminatingReplicas"))


def _size(replica_set: Object) -> Size:
    # The status may not show terminating pods yet: those beyond the requested size no longer count as available.
    return Size(
        replica_set["metadata"]["name"],
        replicas_of(replica_set),
        min(replicas_of(replica_set), count(replica_set, "availableReplicas")),
    )
