"""Applies recommended sizes to running pods and templates: in place for running pods, and only after confirmation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.cli.recommending.patching.patches import Change
from podfit.client import Client
from podfit.client.rest import STRATEGIC
from podfit.vpa.observe.caches import WELL_KNOWN
from podfit.vpa.report.decide.sizing import ContainerSizes
from podfit.vpa.runtimes.heaps import heap_of

Echo = Callable[[str], None]
BEST_EFFORT = "BestEffort"


@dataclass(slots=True)
class ApplyOutcome:
    resized: int = 0
    templates: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """One write: to a pod's `/resize`, or to a workload."""

    what: str
    kind: Any
    namespace: str
    name: str
    subresource: str
    patch: Object


def steps(changed: Sequence[Change], templates: bool) -> tuple[list[ApplyStep], list[str]]:
    """The changes to send, and the skipped ones with their reason. Templates are changed only with `templates` if that
    recreates pods.
    """
    made: list[ApplyStep] = []
    left: list[str] = []
    for change in changed:
        patch = change.template
        by_template = patch is not None and change.resizes_by_itself
        if not by_template:
            for pod in change.workload.pods:
                step, why = _of_pod(change, pod)
                made += [step] if step is not None else []
                left += why
        if patch is None:
            continue
        if change.rolls_out and not templates:
            left.append(f"{change.key}: the template stays, because its change would recreate the pods (--template)")
            continue
        kind = WELL_KNOWN[change.key.kind]
        made.append(ApplyStep(f"{change.key} template", kind, change.key.namespace, change.key.name, "", patch))
    return made, left


def _of_pod(change: Change, pod: Mapping[str, Any]) -> tuple[ApplyStep | None, list[str]]:
    name = pod["metadata"]["name"]
    if (pod.get("status") or {}).get("qosClass") == BEST_EFFORT:
        return None, [f"pod/{name}: not resized in place: it has no requests, and its QoS class {BEST_EFFORT} stays"]
    containers: dict[str, list[dict[str, Any]]] = {}
    left: list[str] = []
    for field_name, listed in change.containers.items():
        for patch in listed:
            container = _named(pod, field_name, patch["name"])
            if container is None:
                continue
            held = _too_small_in_place(container, change.sizes[field_name, patch["name"]])
            if held:
                left.append(f"pod/{name}: {patch['name']}: {held}")
                continue
            containers.setdefault(field_name, []).append(patch)
    if not containers:
        return None, left
    return ApplyStep(f"pod/{name}", POD, change.key.namespace, name, "resize", {"spec": containers}), left


def _named(pod: Mapping[str, Any], field_name: str, name: str) -> Mapping[str, Any] | None:
    listed = (pod.get("spec") or {}).get(field_name) or ()
    return next((row for row in listed if row.get("name") == name), None)


def _too_small_in_place(container: Mapping[str, Any], sizes: ContainerSizes) -> str:
    """The reason why a running container must not shrink (its heap was sized for more memory); "" if it may."""
    heap, limit = heap_of(container), sizes.limits.get("memory")
    if heap is None or limit is None:
        return ""
    from podfit.cli.printing.amounts import number

    before = number("memory", ((container.get("resources") or {}).get("limits") or {}).get("memory"))
    most = heap.may_grow_to(before)
    if not before or limit >= before or limit >= most:
        return ""
    return f"not shrunk in place: {heap.words}, which is up to {math.ceil(most / (1 << 20))}Mi until it restarts"


async def apply(client: Client, made: Sequence[ApplyStep], dry: bool, echo: Echo) -> ApplyOutcome:
    outcome = ApplyOutcome()
    query = {"dryRun": "All"} if dry else {}
    for step in made:
        try:
            await client.patch(step.kind, step.namespace, step.name, step.patch, step.subresource, STRATEGIC, **query)
        except ApiError as error:
            outcome.refused.append(f"{step.what}: refused: {error}")
            continue
        if step.subresource:
            outcome.resized += 1
        else:
            outcome.templates += 1
        echo(f"{step.what} {'resized' if step.subresource else 'changed'}{' (server dry run)' if dry else ''}")
    return outcome
