"""Builds the conditions of a pod's status. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.resize.conditions import merged
from podfit.api.objects import Object
from podfit.api.pods.resources import is_sidecar
from podfit.api.resize.conditions import IN_PROGRESS, PENDING
from podfit.kit.rfc3339 import rfc3339

if TYPE_CHECKING:
    from podfit.agent.decide.pod.status import Facts

_OWNED = (PENDING, IN_PROGRESS)


def conditions(facts: Facts, before: Mapping[str, Any]) -> list[Object]:
    ours = facts.resize.to_json()
    if facts.disrupted:
        ours.append(
            _condition(facts, "DisruptionTarget", True, "TerminationByKubelet", facts.message or facts.disrupted)
        )
    ready, why = _containers_ready(facts)
    ours += [
        _condition(facts, "PodReadyToStartContainers", facts.sandbox),
        _initialized(facts),
        _pod_ready(facts, ready, why),
        _condition(facts, "ContainersReady", ready, *why),
        _condition(facts, "PodScheduled", True),
    ]
    return merged(ours, before.get("conditions") or (), _OWNED, rfc3339(facts.now))


def _condition(facts: Facts, type: str, status: bool, reason: str = "", message: str = "") -> Object:
    shown: Object = {
        "type": type,
        "observedGeneration": facts.answers,
        "status": "True" if status else "False",
        "lastProbeTime": None,
    }
    if reason:
        shown["reason"] = reason
    if message:
        shown["message"] = message
    return shown


def _initialized(facts: Facts) -> Object:
    if facts.initialized:
        done = ("PodCompleted",) if facts.phase == "Succeeded" else ()
        return _condition(facts, "Initialized", True, *done)
    waiting = [
        container["name"]
        for container in facts.pod["spec"].get("initContainers") or ()
        if not _init_done(facts.seen[container["name"]], is_sidecar(container))
    ]
    return _condition(
        facts, "Initialized", False, "ContainersNotInitialized", _listed("containers with incomplete status", waiting)
    )


def _init_done(observed: Seen, sidecar: bool) -> bool:
    return (
        observed.started if sidecar else observed.exited and observed.last is not None and observed.last.exit_code == 0
    )


def _listed(words: str, names: list[str]) -> str:
    return f"{words}: [{' '.join(names)}]"


def _containers_ready(facts: Facts) -> tuple[bool, tuple[str, ...]]:
    if facts.phase == "Succeeded":
        return False, ("PodCompleted",)
    if facts.phase == "Failed":
        return False, ("PodFailed",)
    spec = facts.pod["spec"]
    counted = [container for container in spec.get("initContainers") or () if is_sidecar(container)] + (
        spec.get("containers") or []
    )
    unready = [container["name"] for container in counted if not facts.seen[container["name"]].ready]
    if unready:
        conflicts = "".join(f"; {name}: {facts.seen[name].conflict}" for name in unready if facts.seen[name].conflict)
        return False, ("ContainersNotReady", _listed("containers with unready status", unready) + conflicts)
    return True, ()


def _pod_ready(facts: Facts, ready: bool, why: tuple[str, ...]) -> Object:
    if ready and (required := facts.pod["spec"].get("readinessGates")):
        before = {
            condition["type"]: condition["status"]
            for condition in (facts.pod.get("status") or {}).get("conditions") or ()
        }
        gates = [gate["conditionType"] for gate in required]
        closed = [gate for gate in gates if before.get(gate) != "True"]
        if closed:
            message = ", ".join(
                f'the status of pod readiness gate "{gate}" is not "True", but {before.get(gate, "False")}'
                if gate in before
                else f'corresponding condition of pod readiness gate "{gate}" does not exist.'
                for gate in closed
            )
            return _condition(facts, "Ready", False, "ReadinessGatesNotReady", message)
    return _condition(facts, "Ready", ready, *why)
