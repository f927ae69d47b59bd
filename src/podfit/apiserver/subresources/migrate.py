"""Handles pods/migrate, which moves a pod to another node. See podfit.api.pods.migrations for the steps.

A user posts a Binding that names the target. The two nodes post the same Binding with their step as an annotation;
podfit.api.pods.migrations decides which node may report which step in which phase.
"""

from __future__ import annotations

import msgspec

from podfit.api.objects import Object
from podfit.api.pods.migrations import (
    ANNOTATION,
    CONDITION,
    MOVED,
    REQUESTED,
    SUBRESOURCE,
    Migration,
    MigrationStep,
    advanced,
    migration_of,
    moving,
)
from podfit.api.pods.placement import untolerated
from podfit.api.pods.resources import pod_requests
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.api.resize.conditions import IN_PROGRESS, reported
from podfit.api.status import bad_request, conflict, field_not_found, required, unprocessable
from podfit.apiserver.admission.base import CREATE, Attributes
from podfit.apiserver.auth.node import node_name_of
from podfit.apiserver.calls import Call, success
from podfit.apiserver.request import Response
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.writing.attempt import precondition_failed
from podfit.apiserver.writing.bodies import received
from podfit.apiserver.writing.options import write_options
from podfit.apiserver.writing.writes import match_namespace, rewrite
from podfit.kit.clock import rfc3339

_BINDING, _RUNTIME_CLASS = kind_named("Binding"), kind_named("RuntimeClass")
_KEEP_OUT = ("NoSchedule", "NoExecute")


async def migrate(call: Call) -> Response:
    """POST pods/{name}/migrate."""
    accepted, options = call.accepted(), write_options(call.request.query, "CreateOptions")
    binding = await received(call, _BINDING, options.validation)
    meta, name, namespace = binding.setdefault("metadata", {}), call.route.name, call.namespace
    match_namespace(meta, namespace)
    if meta.get("name", "") != name:
        raise bad_request("name in URL does not match name in Binding object")
    chain = call.parts.writer.chain
    attrs = Attributes(CREATE, POD, SUBRESOURCE, namespace, name, binding, None, call.request.user, options.dry_run)
    await chain.admit(attrs)
    await chain.validate(attrs)
    node, step = node_name_of(call.request.user), _step_of(binding)

    def change(pod: Object) -> None:
        if meta.get("uid") and meta["uid"] != pod["metadata"].get("uid"):
            raise precondition_failed(POD, pod, meta["uid"])
        found = _requested(call.objects, pod, binding) if node is None else _stepped(pod, step, node)
        _write(pod, found, rfc3339(call.objects.clock.now()))

    await rewrite(call.objects, POD, namespace, name, change, options.dry_run)
    return call.answer_value(success(201), 201, accepted)


def _step_of(binding: Object) -> MigrationStep:
    text = (binding["metadata"].get("annotations") or {}).get(ANNOTATION) or '{"phase":""}'
    try:
        return msgspec.json.decode(text, type=MigrationStep)
    except msgspec.DecodeError as error:
        raise bad_request(f"annotation {ANNOTATION}: {error}") from None


def _stepped(pod: Object, step: MigrationStep, node: str) -> Migration:
    name, now = pod["metadata"]["name"], migration_of(pod)
    if now is None or not now.under_way:
        raise conflict("pods/migrate", name, f"pod {name} is not being migrated")
    found = advanced(now, step, node)
    if isinstance(found, str):
        raise conflict("pods/migrate", name, found)
    return found


# --- a new migration
def _requested(objects: Objects, pod: Object, binding: Object) -> Migration:
    meta, spec, target = pod["metadata"], pod.get("spec") or {}, (binding.get("target") or {}).get("name") or ""
    name, source = meta["name"], spec.get("nodeName") or ""
    if not target:
        raise unprocessable("Binding", name, [required("target.name")])
    why = _unmovable(pod)
    if why:
        raise conflict("pods/migrate", name, why)
    node = objects.get(NODE, "", target)
    if node is None:
        raise unprocessable("Binding", name, [field_not_found("target.name", target)])
    why = _unfit(objects, pod, node)
    if why:
        raise conflict("pods/migrate", name, why)
    return Migration(REQUESTED, source, target, rfc3339(objects.clock.now()))


def _unmovable(pod: Object) -> str:
    """Why this pod cannot move now; "" if it can."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    name = meta["name"]
    if meta.get("deletionTimestamp"):
        return f"pod {name} is being deleted"
    if not spec.get("runtimeClassName"):
        return f"pod {name} is not a virtual machine: containers cannot be migrated"
    if not spec.get("nodeName") or status.get("phase") != "Running":
        return f"pod {name} is not running"
    if (now := moving(pod)) is not None:
        return f'pod {name} is being migrated to node "{now.target}" already'
    if reported(pod, IN_PROGRESS) is not None:
        return f"pod {name} is being resized; migrate it when that is done"
    return ""


def _unfit(objects: Objects, pod: Object, node: Object) -> str:
    """Why the node cannot take the pod; "" if it can."""
    name, spec = node["metadata"]["name"], pod["spec"]
    status, where = node.get("status") or {}, f'node "{name}"'
    if spec["nodeName"] == name:
        return f"pod {pod['metadata']['name']} runs on {where} already"
    ready: Object = next(
        (condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"), {}
    )
    if ready.get("status") != "True":
        return f"{where} is not ready"
    if (node.get("spec") or {}).get("unschedulable"):
        return f"{where} is unschedulable"
    taint = untolerated((node.get("spec") or {}).get("taints") or [], spec.get("tolerations") or [], _KEEP_OUT)
    if taint is not None:
        return f"{where} has the taint {taint['key']}, which the pod does not tolerate"
    runtime_class = objects.get(_RUNTIME_CLASS, "", spec["runtimeClassName"])
    handler = (runtime_class or {}).get("handler", spec["runtimeClassName"])
    handlers = [offered.get("name") for offered in status.get("runtimeHandlers") or ()]
    if handler not in handlers:
        return f'{where} has no runtime for the handler "{handler}"'
    return _shortage(objects, pod, status, name)


def _shortage(objects: Objects, pod: Object, status: Object, name: str) -> str:
    """Why the node has no room for the pod; "" if it has. As in the scheduler, the node's pods and those migrating to
    it are counted with their overhead."""
    free = {key: Quantity.parse(str(text)) for key, text in (status.get("allocatable") or {}).items()}
    others = [other for other in objects.list(POD) if _is_bound_to(other, name)]
    for other in others:
        for key, amount in pod_requests(other, use_status=True).items():
            free[key] = free.get(key, Quantity(0)) - amount
    for key, amount in pod_requests(pod, use_status=True).items():
        if amount.nanos > 0 and free.get(key, Quantity(0)).nanos < amount.nanos:
            left = free.get(key, Quantity(0))
            return f'node "{name}" has not enough {key}: the pod needs {amount}, and {left} is free'
    if "pods" in free and free["pods"].nanos < (len(others) + 1) * Quantity.parse("1").nanos:
        return f'node "{name}" has too many pods'
    return ""


def _is_bound_to(pod: Object, node: str) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    if (pod.get("spec") or {}).get("nodeName") == node:
        return True
    coming = moving(pod)
    return coming is not None and coming.target == node


# --- the write
def _write(pod: Object, migration: Migration, now: str) -> None:
    meta, status = pod["metadata"], pod.setdefault("status", {})
    meta["annotations"] = {**(meta.get("annotations") or {}), ANNOTATION: migration.text()}
    if migration.under_way:
        status["nominatedNodeName"] = migration.target
    else:
        status.pop("nominatedNodeName", None)
    if migration.phase == MOVED:
        pod["spec"]["nodeName"] = migration.target
    conditions = status.get("conditions") or []
    before = next((condition for condition in conditions if condition.get("type") == CONDITION), None)
    word = "True" if migration.under_way else "False"
    row = {"type": CONDITION, "status": word, "reason": migration.phase, "lastProbeTime": None}
    row["lastTransitionTime"] = before["lastTransitionTime"] if before and before.get("status") == word else now
    if migration.message:
        row["message"] = migration.message
    status["conditions"] = [*(condition for condition in conditions if condition.get("type") != CONDITION), row]
