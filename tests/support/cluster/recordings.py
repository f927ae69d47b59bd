"""Compares our behaviour with recorded scenarios of a Kubernetes node.

Deliberate differences are listed here as rules, each with its reason; no rule depends on a particular scenario.
"""

from __future__ import annotations

import re
from typing import Any

from podfit.api.quantity import Quantity

UNLIMITED_V1 = "9007199254740988Ki"
PAGE = 4096


# --- the fields of a pod that a recording contains -------------------------------------------------------------------


def shown_state(state: dict[str, Any]) -> str:
    if "running" in state:
        return "running"
    if "waiting" in state:
        return f"waiting:{state['waiting'].get('reason', '')}"
    return f"terminated:{state['terminated'].get('reason', '')}({state['terminated']['exitCode']})"


def shown_container(status: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "name": status["name"],
        "state": shown_state(status["state"]),
        "ready": status["ready"],
        "restartCount": status["restartCount"],
    }
    for key in ("allocatedResources", "resources"):
        if key in status:
            shown[key] = status[key]
    if status.get("lastState"):
        shown["lastState"] = shown_state(status["lastState"])
    return shown


def shown_pod(pod: dict[str, Any]) -> dict[str, Any]:
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    resize = [condition for condition in conditions if condition["type"].startswith("PodResize")]
    shown = {
        "generation": pod["metadata"]["generation"],
        "observedGeneration": status.get("observedGeneration"),
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "initContainerStatuses": [
            shown_container(container_status) for container_status in status.get("initContainerStatuses") or ()
        ],
        "containerStatuses": [
            shown_container(container_status) for container_status in status.get("containerStatuses") or ()
        ],
        "resize": [
            {
                key: re.sub(r"usage \(\d+\)", "usage (<bytes>)", str(item[key])) if key == "message" else item[key]
                for key in ("type", "status", "reason", "message", "observedGeneration")
                if item.get(key)
            }
            for item in resize
        ],
        "conditions": {
            condition["type"]: condition["status"]
            for condition in conditions
            if not condition["type"].startswith("PodResize")
        },
    }
    level = {key: status[key] for key in ("allocatedResources", "resources") if key in status}
    if level:
        shown["statusPodLevel"] = level
    return shown


# --- rules: permitted differences, and their reasons ----------------------------------------------------------------


def crashed(container: dict[str, Any]) -> dict[str, Any]:
    """Treats `terminated` and `waiting: CrashLoopBackOff` as equal between two runs of a container: upstream shows
    both."""
    if container["state"] == "waiting:CrashLoopBackOff":
        return {**container, "state": "between runs", "lastState": None}
    if container["state"].startswith("terminated:"):
        return {**container, "state": "between runs", "lastState": None}
    return container


def whole_bytes(pod: dict[str, Any]) -> bool:
    """Whether all sizes are whole numbers of bytes: upstream never completes a resize to another size; podfit does."""
    for resources in (pod.get("spec") or {}).values():
        for kind in ("requests", "limits"):
            text = (resources.get(kind) or {}).get("memory")
            if text and Quantity.parse(text).nanos % 10**9:
                return False
    return True


def all_limited(pod: dict[str, Any], name: str) -> bool:
    if name in ((pod.get("specPodLevel") or {}).get("limits") or {}):
        return True
    return all(name in (item.get("limits") or {}) for item in (pod.get("spec") or {}).values())


def level_resources(pod: dict[str, Any], recorded: dict[str, Any], ours: dict[str, Any]) -> tuple[Any, Any]:
    """Both pod-level statuses without known differences: upstream's memory request is stale, its small CPU values and
    unlimited v1 limits are artefacts, and for an ended pod it shows the remains of a cgroup."""
    if pod["phase"] in ("Succeeded", "Failed"):
        return None, None
    kept: list[dict[str, Any]] = []
    for side in (recorded, ours):
        kept.append({kind: dict((side or {}).get(kind) or {}) for kind in ("requests", "limits")})
    theirs, mine = kept
    theirs["requests"].pop("memory", None)
    mine["requests"].pop("memory", None)
    if theirs["limits"].get("memory") == UNLIMITED_V1:
        del theirs["limits"]["memory"]
        mine["limits"].pop("memory", None)
    for name in ("cpu", "memory"):
        if not all_limited(pod, name):
            # The pod's cgroup has no limit then: upstream keeps reporting the first sum it computed.
            theirs["limits"].pop(name, None)
            mine["limits"].pop(name, None)
    for kind in ("requests", "limits"):
        if "cpu" not in theirs[kind]:
            mine[kind].pop("cpu", None)
        if "memory" in theirs[kind] and "memory" in mine[kind]:
            theirs[kind]["memory"] = _pages(theirs[kind]["memory"])
            mine[kind]["memory"] = _pages(mine[kind]["memory"])
    return theirs, mine


def _pages(text: str) -> int:
    return Quantity.parse(text).value // PAGE


def is_artefact(step: dict[str, Any]) -> bool:
    """Whether the step is a restart for a resize in which upstream could not shrink the pod: cgroup v1 rejects a quota
    below that of a container that is still ending, and upstream compared the pod's memory with the usage of the ended
    container."""
    said = [(event["reason"], event["message"]) for event in step.get("events") or ()]
    restarted = any("resize requires restart" in message for _, message in said)
    return restarted and any(reason == "ResizeError" for reason, _ in said)


def weightless(spec: dict[str, Any]) -> set[str]:
    """Containers without their own CPU request or limit in a pod that has a CPU limit. When the pod is resized,
    upstream gives them the minimum shares; podfit keeps those that they started with, derived from the pod's limit."""
    if "cpu" not in ((spec.get("resources") or {}).get("limits") or {}):
        return set()
    members = [*spec["containers"], *(spec.get("initContainers") or ())]
    sides = ("requests", "limits")
    return {
        member["name"]
        for member in members
        if not any("cpu" in ((member.get("resources") or {}).get(side) or {}) for side in sides)
    }


def unapplied(recorded: dict[str, Any]) -> bool:
    """Whether upstream granted a resize of a terminating pod without applying it. Podfit applies it as long as
    containers run, as the KEP requires (Lifecycle Nuances)."""
    return bool(recorded.get("deleting")) and recorded.get("observedGeneration") != recorded.get("generation")


def _without_resize(shown: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in shown.items() if key not in ("observedGeneration", "statusPodLevel")}
    for key in ("initContainerStatuses", "containerStatuses"):
        sizes = ("allocatedResources", "resources")
        kept[key] = [{name: item[name] for name in item if name not in sizes} for item in shown.get(key) or ()]
    return {**kept, "resize": []}


def differences(recorded: dict[str, Any], pod: dict[str, Any], artefact: bool = False) -> list[str]:
    ours = shown_pod(pod)
    if unapplied(recorded):
        recorded, ours = _without_resize(recorded), _without_resize(ours)
    found = []
    for key in ("generation", "observedGeneration", "phase", "reason", "message", "conditions"):
        if recorded.get(key) != ours.get(key):
            found.append(f"{key}: recorded {recorded.get(key)!r}, ours {ours.get(key)!r}")
    if list(recorded.get("conditions") or {}) != list(ours["conditions"]):
        found.append(f"order of conditions: {list(recorded['conditions'])} vs {list(ours['conditions'])}")
    for key in ("initContainerStatuses", "containerStatuses"):
        reported = [crashed(item) for item in recorded.get(key) or ()]
        shown = [crashed(item) for item in ours.get(key) or ()]
        if reported != shown:
            found.append(f"{key}: recorded {reported}, ours {shown}")
    if recorded["resize"] != ours["resize"] and not (not whole_bytes(recorded) and not ours["resize"]):
        found.append(f"resize: recorded {recorded['resize']}, ours {ours['resize']}")
    theirs, mine = recorded.get("statusPodLevel") or {}, ours.get("statusPodLevel") or {}
    if theirs.get("allocatedResources", {}) != mine.get("allocatedResources", {}):
        found.append(f"pod allocated: {theirs.get('allocatedResources')} vs {mine.get('allocatedResources')}")
    left, right = level_resources(recorded, theirs.get("resources") or {}, mine.get("resources") or {})
    if left != right and not artefact:
        found.append(f"pod resources: recorded {left}, ours {right}")
    return found


def resize_events(said: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The Events about resizes, in order; a repeated failure counts once (podfit retries at other intervals)."""
    kept: list[tuple[str, str, str]] = []
    for pod, reason, message in said:
        message = re.sub(r"usage \(\d+\)", "usage (<bytes>)", message)
        about = reason.startswith("Resize") or reason == "Preempting" or "resize requires restart" in message
        if about and (pod, reason, message) not in kept[-1:]:
            kept.append((pod, reason, message))
    return kept


def by_pod(rows: list[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    grouped: dict[str, list[tuple[str, str]]] = {}
    for pod, reason, message in rows:
        grouped.setdefault(pod, []).append((reason, message))
    return grouped


def recorded_changes(step: dict[str, Any], before: dict[str, dict[str, Any]]) -> dict[str, list[tuple[str, str, int]]]:
    """Changes to cgroups that existed before the step; the first values of a new cgroup belong to its creation."""
    rows = step.get("cgroup_order") or []
    made = {row["who"] for row in rows if row["file"] == "(cgroup)" and row["value"] == "created"}
    grouped: dict[str, list[tuple[str, str, int]]] = {}
    for row in rows:
        pod, _, who = row["who"].partition("/")
        if not who or who == "(sandbox)" or row["value"] == "removed":
            continue
        if row["file"] == "(cgroup)" and who != "(pod)":
            grouped.setdefault(pod, []).append((who, "(cgroup)", 1))
        elif row["who"] not in made:
            value = int(row["value"])
            same = value in (2, (before.get(row["who"]) or {}).get("cpu.shares"))
            if step["do"] == "start node agent" and row["file"] == "cpu.shares" and same:
                # Without its state files upstream first applies empty CPU values to containers: shares drop and return.
                continue
            value = value // PAGE if row["file"].startswith("memory") else value
            grouped.setdefault(pod, []).append((who, row["file"], value))
    return grouped


def patches_of(step: dict[str, Any]) -> int:
    return len(step["body"]) if isinstance(step.get("body"), list) else 1


def check_events(step: dict[str, Any], said: list[tuple[str, str, str]]) -> None:
    recorded = by_pod(
        resize_events([(event["pod"], event["reason"], event["message"]) for event in step.get("events") or ()])
    )
    ours = by_pod(resize_events(said))
    final = (step.get("final") or {}).get("pods", {})
    for pod in recorded.keys() | ours.keys():
        theirs = [_generation_only(item) for item in recorded.get(pod, [])]
        mine = [_generation_only(item) for item in ours.get(pod, [])]
        if not whole_bytes(final.get(pod) or {}):
            mine = [row for row in mine if row[0] != "ResizeCompleted"]
        if is_artefact(step):
            theirs = [their for their in theirs if their[0] != "ResizeError"]
        if unapplied(final.get(pod) or {}):
            mine = [row for row in mine if row[0] != "ResizeCompleted"]
        if "delete at once" in step["do"]:
            # A race: how much of the resize is done before the pod ends differs from run to run.
            mine, theirs = mine[:1], theirs[:1]
        if patches_of(step) > 1:
            # Resizes in quick succession may be applied together, and one that is reverted at once may not be
            # observed at all; the last one that is observed completes.
            assert not mine or mine[-1][0] == "ResizeCompleted"
            assert " 0 ms" in step["do"] or mine[-1:] == theirs[-1:]
            continue
        if step["do"] == "start node agent":
            mine, theirs = _after_start(mine), _after_start(theirs)
        assert mine == theirs, f"{step['do']}: Events of {pod}: {mine} instead of {theirs}"


def _after_start(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The Events that can be compared after a resize while no agent ran. Upstream processes it half a minute later, or
    assumes that it is allocated and reports completion without a start; without its state files it also reports
    completed resizes again. Podfit starts the resize at once."""
    return [event for event in events if event[0] not in ("ResizeStarted", "ResizeCompleted")]


def _generation_only(event: tuple[str, str]) -> tuple[str, str]:
    """Reduces a completion to its generation, which identifies the resize: upstream's message sometimes has old
    sizes."""
    if event[0] == "ResizeCompleted":
        return event[0], event[1].rpartition(',"generation"')[2]
    return event


def check_order(step: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    if patches_of(step) > 1:
        return
    final = (step.get("final") or {}).get("pods", {})
    for pod in theirs.keys() | ours.keys():
        if unapplied(final.get(pod) or {}):
            continue
        left, right = theirs.get(pod, []), ours.get(pod, [])
        if step["do"] == "start node agent":
            # Upstream starts a container that ended meanwhile with the old size, and resizes it afterwards.
            made = {who for who, file, _ in left + right if file == "(cgroup)"}
            left, right = ([row for row in rows if row[0] not in made] for rows in (left, right))
        assert right == left, f"{step['do']}: cgroups of {pod}: {right} instead of {left}"
