"""Derives the status of a pod's virtual machine from that of the container that mirrors it."""

from __future__ import annotations

from podfit.api.objects import Object

READY = "VirtualMachineReady"
_FOLLOWS = "ContainersReady"
_ALWAYS = ("ready", "restartCount")
"""Fields that are shown even if they are false or 0, as in the status of a container."""


def show_machine(new: Object, old: Object) -> None:
    """Sets `status.virtualMachineStatus`, condition VirtualMachineReady, and the node's allocation.

    A node that supports paused and suspended machines writes `state` and `powerState` itself: these values are kept
    until the state of the container changes.
    """
    machine, status = new["spec"]["virtualMachine"], new["status"]
    observed = _of(status, machine["name"])
    if observed is None:
        return
    stored = old.get("status") or {}
    kept = stored.get("virtualMachineStatus") or {}
    given = status.get("virtualMachineStatus") or {}
    shown = _reported(observed)
    written = {key: given[key] for key in ("state", "powerState") if given.get(key, kept.get(key)) != kept.get(key)}
    before = _of(stored, machine["name"]) or {}
    if before.get("state") == observed.get("state"):
        written = {**{key: kept[key] for key in ("state", "powerState") if key in kept}, **written}
    status["virtualMachineStatus"] = {**shown, **written}
    status["conditions"] = _with_ready(status.get("conditions") or [])
    allocated = observed.get("allocatedResources")
    if allocated and allocated != machine.get("resourcesAllocated"):
        new["spec"] = {**new["spec"], "virtualMachine": {**machine, "resourcesAllocated": dict(allocated)}}


def _of(status: Object, name: str) -> Object | None:
    return next(
        (
            container_status
            for container_status in status.get("containerStatuses") or ()
            if container_status.get("name") == name
        ),
        None,
    )


def _reported(observed: Object) -> Object:
    state, power = _states(observed.get("state") or {})
    ended = observed.get("lastState") or {}
    made: Object = {
        "name": observed["name"],
        "virtualMachineId": observed.get("containerID", ""),
        "imageId": observed.get("imageID", ""),
        "image": observed.get("image", ""),
        "state": state,
        "lastTerminationState": _states(ended)[0] if "terminated" in ended else "",
        "powerState": power,
        "ready": observed.get("ready", False),
        "restartCount": observed.get("restartCount", 0),
        "resources": observed.get("resources"),
    }
    return {key: value for key, value in made.items() if value or key in _ALWAYS}


def _states(state: Object) -> tuple[str, str]:
    """The values of `state` and `powerState` in the status."""
    if "running" in state:
        return "active", "running"
    ended = state.get("terminated")
    if ended is not None:
        return ("stopped", "shutdown") if not ended.get("exitCode") else ("error", "crashed")
    return "", "nostate"


def _with_ready(conditions: list[Object]) -> list[Object]:
    followed = next((condition for condition in conditions if condition.get("type") == _FOLLOWS), None)
    if followed is None:
        return conditions
    ready = {**followed, "type": READY}
    others = [condition for condition in conditions if condition.get("type") != READY]
    return conditions if ready in conditions else [*others, ready]
