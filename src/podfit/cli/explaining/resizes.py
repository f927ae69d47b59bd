"""Explains why a resize is pending, rejected or complete: the node's numbers, and the pods that hold its resources."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import pod_requests
from podfit.api.pods.room import has_ended, held, room_on, units
from podfit.api.registry.kinds import NODE, POD
from podfit.api.resize.conditions import DEFERRED, ERROR, INFEASIBLE
from podfit.cli.containers import oom_kills, oom_lines
from podfit.cli.node_side import states, story
from podfit.cli.printing.amounts import RESOURCES, amount_text, number, quantity
from podfit.cli.printing.output import table
from podfit.cli.printing.wording import size_text
from podfit.cli.resizing.shortages import shortage_on
from podfit.cli.resizing.stages import ResizeStage, seen_by_node, step_of
from podfit.client import Client

HOLDERS = 8


async def explain_resize(client: Client, pod: Object) -> tuple[list[str], dict[str, Any]]:
    rows, from_node = await states(client, pod)
    step = seen_by_node(step_of(pod), rows) if from_node else step_of(pod)
    node_name = pod["spec"].get("nodeName")
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    found: dict[str, Any] = {"pod": name}
    rows_of_room: list[str] = []
    if node_name and step.reason in (DEFERRED, INFEASIBLE):
        node = await client.get(NODE, "", node_name)
        pods = (await client.list(POD, fieldSelector=f"spec.nodeName={node_name}"))["items"]
        step = step_of(pod, shortage_on(pod, node, pods))
        rows_of_room, found["room"] = room(pod, node, pods)
    found |= {"stage": step.stage, "reason": step.reason, "why": step.why, "states": rows}
    lines = [_headline(pod, step), *_gaps(rows), *rows_of_room]
    lines.append(_advice(pod, step))
    chapters = await story(client, pod) or ()
    found["oomKills"] = [kill.data() for kill in oom_kills(pod, chapters)]
    return [*lines, *oom_lines(pod, chapters)], found


def _headline(pod: Object, step: ResizeStage) -> str:
    name = pod["metadata"]["name"]
    if has_ended(pod):
        return f"pod/{name} has ended ({pod['status']['phase']}): there is nothing to resize."
    if not pod["spec"].get("nodeName"):
        return f"pod/{name} is not on a node yet: it will start with the size in its spec."
    if step.done:
        return f"pod/{name}: resize complete: spec, allocation and cgroup agree."
    return f"pod/{name}: {step.stage}, {step.reason or 'in progress'}" + (f": {step.why}." if step.why else ".")


def _gaps(rows: list[Object]) -> list[str]:
    lines = []
    for row in rows:
        for later, earlier in (("allocated", "desired"), ("actuated", "allocated"), ("actual", "actuated")):
            one, other = row.get(earlier), row.get(later)
            if one is not None and other is not None and _differ(one, other):
                lines.append(f"  {row['name']}: {earlier} {size_text(one)}, but {later} {size_text(other)}")
    return lines


def _differ(one: Object, other: Object) -> bool:
    """Whether two states differ in resources that both have: the kernel has no memory requests."""
    for kind in ("requests", "limits"):
        mine, theirs = one.get(kind) or {}, other.get(kind) or {}
        if any(number(name, mine[name]) != number(name, theirs[name]) for name in mine.keys() & theirs.keys()):
            return True
    return False


def room(pod: Object, node: Object, pods: list[Object]) -> tuple[list[str], dict[str, Any]]:
    """For each resource that is short, the pods that hold it on the node, largest first."""
    whole = room_on(node, pods, pod)
    allocatable, used, needs = _numbers(whole.allocatable), _numbers(whole.used), _numbers(pod_requests(pod))
    others = [other for other in pods if other["metadata"]["uid"] != pod["metadata"]["uid"] and not has_ended(other)]
    lines, numbers = [], {}
    for resource in RESOURCES:
        holders = {_key(other): _numbers(held(other)).get(resource, 0) for other in others}
        free = allocatable.get(resource, 0) - used.get(resource, 0)
        wanted = needs.get(resource, 0)
        counts = {"needs": wanted, "free": free, "allocatable": allocatable.get(resource, 0)}
        numbers[resource] = {name: quantity(resource, count) for name, count in counts.items()}
        if wanted <= free:
            continue
        texts = [
            amount_text(resource, amount) for amount in (wanted, allocatable.get(resource, 0), free, wanted - free)
        ]
        name = node["metadata"]["name"]
        lines.append(
            f"{resource}: the pod needs {texts[0]}; node {name} has {texts[1]}, {texts[2]} free: {texts[3]} short"
        )
        largest = sorted(holders.items(), key=lambda item: -item[1])[:HOLDERS]
        priorities = {_key(other): str(other["spec"].get("priority") or 0) for other in others}
        rows = [["  " + key, amount_text(resource, amount), priorities[key]] for key, amount in largest if amount]
        if rows:
            lines.append(table(rows, ["  HELD BY", resource.upper(), "PRIORITY"]))
    return lines, numbers


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _numbers(amounts: Any) -> dict[str, int]:
    return {name: units(name, amount) for name, amount in amounts.items()}


def _advice(pod: Object, step: ResizeStage) -> str:
    if step.done or not pod["spec"].get("nodeName") or has_ended(pod):
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
