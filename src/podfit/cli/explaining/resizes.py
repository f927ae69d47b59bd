"""Why a resize waits, was refused or is done: the numbers of the node, and who holds its room."""

from __future__ import annotations

from typing import Any

from podfit.api.kinds import NODE, POD
from podfit.api.resize_verdicts import DEFERRED, INFEASIBLE, PENDING
from podfit.api.resources import Amounts, pod_requests
from podfit.api.status import Object
from podfit.cli.amounts import RESOURCES, amount_text, number, quantity
from podfit.cli.containers import oom_kills, oom_lines
from podfit.cli.node_side import states, story
from podfit.cli.output import table
from podfit.cli.stages import ERROR, Progress, condition, progress, seen_by_node
from podfit.cli.usage import amounts_of
from podfit.cli.wording import size_text
from podfit.client import Client

HOLDERS = 8


async def explain_resize(client: Client, pod: Object) -> tuple[list[str], dict[str, Any]]:
    rows, from_node = await states(client, pod)
    step = seen_by_node(progress(pod), rows) if from_node else progress(pod)
    node_name = pod["spec"].get("nodeName")
    lines = [_headline(pod, step), *_gaps(rows)]
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    found: dict[str, Any] = {"pod": name, "stage": step.stage, "reason": step.reason, "why": step.why, "states": rows}
    if node_name and step.reason in (DEFERRED, INFEASIBLE):
        node = await client.get(NODE, "", node_name)
        pods = (await client.list(POD, fieldSelector=f"spec.nodeName={node_name}"))["items"]
        rows_of_room, numbers = room(pod, node, pods)
        lines += rows_of_room
        found["room"] = numbers
    lines.append(_advice(pod, step))
    chapters = await story(client, pod) or ()
    found["oomKills"] = [kill.data() for kill in oom_kills(pod, chapters)]
    return [*lines, *oom_lines(pod, chapters)], found


def _headline(pod: Object, step: Progress) -> str:
    name = pod["metadata"]["name"]
    if _ended(pod):
        return f"pod/{name} has ended ({pod['status']['phase']}): there is nothing to resize."
    if not pod["spec"].get("nodeName"):
        return f"pod/{name} is not on a node yet: it will start with the size in its spec."
    if step.done:
        return f"pod/{name}: resize complete: spec, allocation and cgroup agree."
    return f"pod/{name}: {step.stage}, {step.reason or 'in progress'}" + (f": {step.why}." if step.why else ".")


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _gaps(rows: list[Object]) -> list[str]:
    lines = []
    for row in rows:
        for later, earlier in (("allocated", "desired"), ("actuated", "allocated"), ("actual", "actuated")):
            one, other = row.get(earlier), row.get(later)
            if one is not None and other is not None and _differ(one, other):
                lines.append(f"  {row['name']}: {earlier} {size_text(one)}, but {later} {size_text(other)}")
    return lines


def _differ(one: Object, other: Object) -> bool:
    """Only what both sides name counts: the kernel does not know memory requests."""
    for kind in ("requests", "limits"):
        mine, theirs = one.get(kind) or {}, other.get(kind) or {}
        if any(number(name, mine[name]) != number(name, theirs[name]) for name in mine.keys() & theirs.keys()):
            return True
    return False


def room(pod: Object, node: Object, pods: list[Object]) -> tuple[list[str], dict[str, Any]]:
    """Who holds the node's room, largest first, for each resource that is short."""
    allocatable = amounts_of((node.get("status") or {}).get("allocatable"))
    uid = pod["metadata"]["uid"]
    others = [one for one in pods if one["metadata"]["uid"] != uid and not _ended(one)]
    needs, lines = _numbers(pod_requests(pod)), []
    numbers: dict[str, Any] = {}
    for resource in RESOURCES:
        held = {_key(one): _numbers(_held(one)).get(resource, 0) for one in others}
        free = allocatable.get(resource, 0) - sum(held.values())
        wanted = needs.get(resource, 0)
        counts = {"needs": wanted, "free": free, "allocatable": allocatable.get(resource, 0)}
        numbers[resource] = {name: quantity(resource, count) for name, count in counts.items()}
        if wanted <= free:
            continue
        texts = [amount_text(resource, one) for one in (wanted, allocatable.get(resource, 0), free, wanted - free)]
        name = node["metadata"]["name"]
        lines.append(
            f"{resource}: the pod needs {texts[0]}; node {name} has {texts[1]}, {texts[2]} free: {texts[3]} short"
        )
        largest = sorted(held.items(), key=lambda item: -item[1])[:HOLDERS]
        priorities = {_key(one): str(one["spec"].get("priority") or 0) for one in others}
        rows = [["  " + key, amount_text(resource, amount), priorities[key]] for key, amount in largest if amount]
        if rows:
            lines.append(table(rows, ["  HELD BY", resource.upper(), "PRIORITY"]))
    return lines, numbers


def _held(pod: Object) -> Amounts:
    """What its node has promised it. A resize that waits holds nothing there."""
    if condition(pod, PENDING) is not None:
        status = {**pod["status"], "conditions": [{"type": PENDING, "reason": INFEASIBLE}]}
        pod = {**pod, "status": status}
    return pod_requests(pod, use_status=True)


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _numbers(amounts: Any) -> dict[str, int]:
    return {name: amount.milli if name == "cpu" else amount.value for name, amount in amounts.items()}


def _advice(pod: Object, step: Progress) -> str:
    if step.done or not pod["spec"].get("nodeName") or _ended(pod):
        return ""
    if step.reason == DEFERRED:
        return "Retried as soon as a pod on the node shrinks or ends, by priority. Free some, or request less."
    if step.reason == INFEASIBLE:
        return "Not retried: request less, or delete the pod so that its replacement is scheduled elsewhere."
    if step.reason == ERROR:
        return (
            "The node retries. A memory limit below usage is applied when usage has fallen below it, never by a kill."
        )
    return "`podfit describe pod` shows what the node has done so far."
