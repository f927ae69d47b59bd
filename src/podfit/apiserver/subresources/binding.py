"""Handles pods/binding and the older bindings, with which a scheduler binds a pod to its node, once."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError, aggregate, bad_request, conflict, not_supported, required
from podfit.apiserver.admission.base import CREATE, Attributes
from podfit.apiserver.calls import Call, success
from podfit.apiserver.request import Response
from podfit.apiserver.writing.attempt import precondition_failed
from podfit.apiserver.writing.bodies import received
from podfit.apiserver.writing.options import write_options
from podfit.apiserver.writing.writes import match_namespace, rewrite
from podfit.kit.clock import rfc3339

_BINDING = kind_named("Binding")


async def bind(call: Call) -> Response:
    """POST pods/{name}/binding."""
    options = write_options(call.request.query, "CreateOptions")
    binding = await received(call, _BINDING, options.validation)
    meta = binding.setdefault("metadata", {})
    match_namespace(meta, call.namespace)
    if meta.get("name", "") != call.route.name:
        raise bad_request("name in URL does not match name in Binding object")
    return await _assign(call, binding, call.route.name, options.dry_run)


async def bind_named(call: Call) -> Response:
    """POST bindings: the body names the pod."""
    options = write_options(call.request.query, "CreateOptions")
    binding = await received(call, _BINDING, options.validation)
    return await _assign(call, binding, binding.setdefault("metadata", {}).get("name", ""), options.dry_run)


async def _assign(call: Call, binding: Object, name: str, dry_run: bool) -> Response:
    namespace, chain, accepted = call.namespace, call.parts.writer.chain, call.accepted()
    match_namespace(binding["metadata"], namespace)
    attrs = Attributes(CREATE, POD, "binding", namespace, name, binding, None, call.request.user, dry_run)
    await chain.admit(attrs)
    _check_target(binding)
    await chain.validate(attrs)
    if not name:
        raise bad_request("Name parameter required.")
    now = rfc3339(call.objects.clock.now())
    await rewrite(call.objects, POD, namespace, name, lambda pod: _set_node(pod, binding, now), dry_run)
    return call.answer_value(success(201), 201, accepted)


def _check_target(binding: Object) -> None:
    target = binding.get("target") or {}
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        errors.append(required("target.name"))
    if errors:
        raise ApiError(500, "", aggregate(errors))


def _set_node(pod: Object, binding: Object, now: str) -> None:
    meta, given = pod["metadata"], binding["metadata"]
    name, spec = meta["name"], pod.setdefault("spec", {})
    if given.get("uid") and given["uid"] != meta.get("uid"):
        raise precondition_failed(POD, pod, given["uid"])
    if given.get("resourceVersion") and given["resourceVersion"] != meta.get("resourceVersion"):
        raise precondition_failed(POD, pod, given["resourceVersion"], "ResourceVersion")

    def refuse(why: str) -> ApiError:
        return conflict("pods/binding", name, why)

    if meta.get("deletionTimestamp"):
        raise refuse(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise refuse(f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise refuse(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = binding["target"]["name"]
    for field in ("annotations", "labels"):
        if given.get(field):
            meta[field] = {**(meta.get(field) or {}), **given[field]}
    _set_scheduled(pod, now)


def _set_scheduled(pod: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    conditions = [row for row in status.get("conditions") or [] if row.get("type") != "PodScheduled"]
    before = next((row for row in status.get("conditions") or [] if row.get("type") == "PodScheduled"), None)
    if before is not None and before.get("status") == "True":
        return
    row = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status["conditions"] = [*conditions, row]
