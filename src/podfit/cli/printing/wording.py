"""Words conditions and Events for users: what a condition means and what to do, and Events without their JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.resize.conditions import DEFERRED, ERROR, IN_PROGRESS, INFEASIBLE, PENDING
from podfit.cli.printing.amounts import RESOURCES, amount_text, number, pair_text

ADVICE = {
    (PENDING, DEFERRED): "It is retried when resources are freed: free some on the node, or request less.",
    (PENDING, INFEASIBLE): "This node can never do it: request less, or replace the pod.",
    (IN_PROGRESS, ""): "Nothing to do: the node is applying it.",
    (IN_PROGRESS, ERROR): "It is retried; a memory limit below usage waits until usage falls.",
    ("PodScheduled", "Unschedulable"): "`podfit explain pod` shows what each node lacks.",
    ("PodScheduled", "SchedulingGated"): "Remove spec.schedulingGates to schedule the pod.",
    ("Ready", "ContainersNotReady"): "A container is not ready: see its state and the Events below.",
}


def sized_words(message: str) -> str:
    """An Event's message with sizes in place of JSON: `Pod resize started: c cpu 100m/200m memory 32Mi/64Mi`."""
    head, brace, tail = message.partition(": {")
    if not brace:
        return message
    try:
        fields = json.loads("{" + tail)
        sizes = [
            f"{container['name']} {size_text(container['resources'])}" for container in fields.get("containers") or ()
        ]
    except (ValueError, KeyError, TypeError):
        return message
    words = f"{head}: {'; '.join(sizes)}"
    return f"{words} ({fields['error']})" if fields.get("error") else words


def size_text(resources: ObjectView | None) -> str:
    """A size as request/limit of each resource: `cpu 100m/200m memory 32Mi/64Mi`."""
    parts = [f"{resource} {pair_text(resources, resource)}" for resource in RESOURCES]
    return " ".join(part for part in parts if not part.endswith(" -")) or "nothing requested"


def condition_words(condition: ObjectView) -> str:
    """A condition in one line: the state, the original reason and message, what to do."""
    kind, reason = condition.get("type") or "", condition.get("reason") or ""
    message = str(condition.get("message") or "")
    words = f"{kind}={condition.get('status')}"
    cause = ": ".join(part for part in (reason, message) if part)
    advice = ADVICE.get((str(kind), str(reason))) if notable(condition) else None
    return " ".join(part for part in (words, f"({cause})" if cause else "", advice or "") if part)


def notable(condition: ObjectView) -> bool:
    """Whether the condition reports a problem or progress."""
    if condition.get("type") in (PENDING, IN_PROGRESS, "DisruptionTarget"):
        return condition.get("status") == "True"
    return condition.get("status") != "True"


def node_notable(condition: ObjectView) -> bool:
    """Whether a node's condition reports a problem: Ready is not True, or there is pressure."""
    return condition.get("status") != ("True" if condition.get("type") == "Ready" else "False")


_CHANGES = {"cpu_shares": "cpu.shares {}", "cpu_quota_us": "cpu quota {} µs", "exit_code": "exit code {}"}


def chapter_words(numbers: ObjectView | None) -> str:
    """The amounts of one entry of the node's record, in one line."""
    parts = []
    for key, value in (numbers or {}).items():
        if isinstance(value, Mapping) and ("requests" in value or "limits" in value):
            parts.append(size_text(value))
        elif key == "sizes" and isinstance(value, Mapping):
            parts += [f"{name} {size_text(size)}" for name, size in value.items()]
        elif key == "requests" and isinstance(value, Mapping):
            parts.append(
                " ".join(
                    f"{resource} {amount_text(resource, number(resource, value[resource]))}"
                    for resource in RESOURCES
                    if resource in value
                )
            )
        elif key in ("memory_bytes", "memory_limit"):
            parts.append(f"memory limit {_limit(value)}")
        elif key == "cpu_quota_us" and value == -1:
            parts.append("cpu limit none")
        else:
            parts.append(_CHANGES.get(key, f"{key.replace('_', ' ')} {{}}").format(value))
    return ", ".join(parts)


def _limit(value: Any) -> str:
    amount = number("memory", value)
    return "none" if amount < 0 else amount_text("memory", amount)
