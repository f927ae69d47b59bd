"""Handles pods/eviction: a deletion that is subject to disruption budgets."""

from __future__ import annotations

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind, kind_named
from podfit.api.selectors import LabelSelector, SelectorError
from podfit.api.status import ApiError, bad_request, forbidden, too_many_requests
from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.apiserver.admission.base import CREATE, Attributes
from podfit.apiserver.calls import Call, success
from podfit.apiserver.request import Response
from podfit.apiserver.verbs.delete import remove
from podfit.apiserver.writing import deletes
from podfit.apiserver.writing.bodies import received
from podfit.apiserver.writing.options import checked_delete_options, write_options
from podfit.apiserver.writing.writes import RETRIES, match_namespace, rewrite
from podfit.kit.clock import rfc3339
from podfit.store.backend import Mismatch

EVICTION = Kind("policy", "v1", "Eviction", "evictions", True)
_BUDGET = kind_named("PodDisruptionBudget")
_MOST_DISRUPTED = 2000
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(call: Call) -> Response:
    accepted = call.accepted()
    options = write_options(call.request.query, "CreateOptions")
    call.request.body = await call.offload(lambda: _in_one_version(call.request.body))
    eviction = await received(call, EVICTION, options.validation)
    meta, name, namespace = eviction.setdefault("metadata", {}), call.route.name, call.namespace
    match_namespace(meta, namespace)
    if meta.get("name", "") != name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = checked_delete_options(dict(eviction.get("deleteOptions") or {}))
    if options.dry_run:
        wanted["dryRun"] = ["All"]
    dry_run = bool(wanted.get("dryRun"))
    chain = call.parts.writer.chain
    attrs = Attributes(CREATE, POD, "eviction", namespace, name, eviction, None, call.request.user, dry_run)
    await chain.admit(attrs)
    await chain.validate(attrs)
    pod = call.objects.decoded(call.objects.required(POD, namespace, name))
    if not _needs_no_budget(pod):
        await _ask_budget(call, pod, dry_run)
    if not dry_run:
        deletes.check_preconditions(POD, pod, wanted)
        await _mark_disrupted(call, namespace, name)
        if wanted.get("preconditions"):
            # Writing the condition has created a new revision.
            wanted["preconditions"] = {key: value for key, value in wanted["preconditions"].items() if key == "uid"}
    await remove(call, POD, namespace, name, wanted)
    return call.answer_value(success(201), 201, accepted)


def _is_true(condition: Object) -> bool:
    return condition.get("status") == "True"


async def _mark_disrupted(call: Call, namespace: str, name: str) -> None:
    """Adds the condition with the reason for the deletion."""
    row = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(call.objects.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def mark(pod: Object) -> None:
        status = pod.setdefault("status", {})
        rows = list(status.get("conditions") or ())
        at = next((at for at, other in enumerate(rows) if other.get("type") == row["type"]), len(rows))
        since = {"lastTransitionTime": rows[at].get("lastTransitionTime")} if rows[at:] and _is_true(rows[at]) else {}
        status["conditions"] = [*rows[:at], {**row, **since}, *rows[at + 1 :]]

    await rewrite(call.objects, POD, namespace, name, mark, dry_run=False)


def _in_one_version(body: bytes) -> bytes:
    """Changes the version of an Eviction in policy/v1beta1 to policy/v1; any other body is returned as it is."""
    if b"policy/v1beta1" not in body:
        return body
    try:
        value = parse(body)
    except GoSyntaxError:
        return body
    if isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == ("policy/v1beta1", "Eviction"):
        value["apiVersion"] = "policy/v1"
        return msgspec.json.encode(value)
    return body


def _needs_no_budget(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


async def _ask_budget(call: Call, pod: Object, dry_run: bool) -> None:
    budgets = _budgets_of(call, pod)
    if len(budgets) > 1:
        why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", why)
    if not budgets or _spares(budgets[0], pod):
        return
    name, namespace = budgets[0]["metadata"]["name"], pod["metadata"]["namespace"]
    for _ in range(RETRIES):
        record = call.objects.required(_BUDGET, namespace, name)
        budget = call.objects.served(_BUDGET, record)
        _charge(budget, pod["metadata"]["name"], rfc3339(call.objects.clock.now()))
        if dry_run:
            return
        try:
            await call.objects.put(_BUDGET, record.key, budget, record.modified)
            return
        except Mismatch:
            continue
    raise too_many_requests(_VIOLATES, 10)


def _budgets_of(call: Call, pod: Object) -> list[Object]:
    labels, found = pod["metadata"].get("labels") or {}, []
    for budget in call.objects.list(_BUDGET, pod["metadata"]["namespace"]):
        try:
            selector = LabelSelector.from_object((budget.get("spec") or {}).get("selector"))
        except SelectorError:
            continue
        if selector.matches(labels):
            found.append(budget)
    return found


def _spares(budget: Object, pod: Object) -> bool:
    """Whether an unhealthy pod may be evicted without being charged to the budget."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _charge(budget: Object, pod: str, now: str) -> None:
    """Subtracts one allowed disruption from the budget, in place; raises if none is left."""
    status, name = budget.setdefault("status", {}), budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudget", name, "pdb disruptions allowed is negative", "policy")
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget", name, why, "policy")
    if allowed == 0:
        needed, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refusal(_sync_failure(status, name) or _shortage(name, needed, has))
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = now
    if allowed == 1:
        _set_insufficient(status, budget["metadata"].get("generation", 0), now)


def _shortage(name: str, needed: int, has: int) -> str:
    return f"The disruption budget {name} needs {needed} healthy pods and has {has} currently"


def _sync_failure(status: Object, name: str) -> str:
    for row in status.get("conditions") or []:
        if row.get("type") == "DisruptionAllowed" and row.get("reason") == "SyncFailed":
            why = row.get("message", "")
            return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
    return ""


def _set_insufficient(status: Object, generation: int, now: str) -> None:
    row = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": now,
    }
    others = [other for other in status.get("conditions") or [] if other.get("type") != "DisruptionAllowed"]
    status["conditions"] = [*others, row]


def _refusal(why: str, retry_after_s: int = 0) -> ApiError:
    return too_many_requests(_VIOLATES, retry_after_s, [{"reason": "DisruptionBudget", "message": why}])
