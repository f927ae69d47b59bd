"""Builds a pod's status as in Kubernetes. Pure: the same facts give the same status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.pod.pod_conditions import conditions
from podfit.agent.decide.resize import settle
from podfit.agent.decide.resize.conditions import ResizeConditions
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import ContainerState, Limits, LinuxUser
from podfit.api.objects import Object
from podfit.api.pods.machines import PAUSED, RUNNING, SHUTDOWN, SUSPENDED
from podfit.api.pods.migrations import moving
from podfit.api.pods.resources import is_sidecar
from podfit.api.resize.states import Actuated, Allocated, Desired, equal
from podfit.kit.rfc3339 import rfc3339


class Facts(Struct):
    """The input of a status. Immutable."""

    pod: Object
    qos: str
    desired: Desired
    allocated: Allocated
    sized: Sized
    """The pod with its allocated sizes."""
    actuated: Actuated
    seen: Mapping[str, Seen]
    resize: ResizeConditions
    phase: str
    sandbox: bool
    """The pod's namespaces and network exist."""
    initialized: bool
    now: float
    start_time: str
    host_ip: str
    ips: tuple[str, ...] = ()
    limits: Mapping[str, Limits] = {}
    """The limits of running containers in the kernel, by name."""
    pod_limits: Limits | None = None
    reason: str = ""
    message: str = ""
    disrupted: str = ""
    """Reason of DisruptionTarget, if the node evicted the pod."""
    runtime: str = ""
    """The scheme of container ids."""
    counts: Mapping[str, int] = {}
    """Restart counts from the API of containers that the runtime has lost."""
    answers: int = 0
    """The observed generation; derived from the other facts."""

    def __post_init__(self) -> None:
        self.answers = _answered(self)


def _answered(facts: Facts) -> int:
    """The generation that the status may report as observed. A resize that is not decided yet does not count: otherwise
    a client that waits for the generation would take the absence of conditions for a completed resize."""
    generation = int(facts.pod["metadata"].get("generation") or 0)
    pending = facts.resize.pending
    decided = pending is not None and pending.generation >= generation
    if _over(facts) or decided or equal(facts.desired, facts.allocated):
        return generation
    return int((facts.pod.get("status") or {}).get("observedGeneration") or 0)


def build(facts: Facts) -> Object:
    spec = facts.pod["spec"]
    before = facts.pod.get("status") or {}
    status: Object = {
        "observedGeneration": facts.answers,
        "phase": facts.phase,
        "conditions": conditions(facts, before),
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": facts.start_time,
        "qosClass": facts.qos,
    }
    if facts.ips:
        status["podIP"] = facts.ips[0]
        status["podIPs"] = [{"ip": ip} for ip in facts.ips]
    if before.get("nominatedNodeName") and moving(facts.pod) is not None:
        status["nominatedNodeName"] = before["nominatedNodeName"]
    if facts.reason:
        status["reason"] = facts.reason
    if facts.message:
        status["message"] = facts.message
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(facts, container, regular=False) for container in spec["initContainers"]
        ]
    status["containerStatuses"] = [
        _container(facts, container, regular=True) for container in spec.get("containers") or ()
    ]
    if spec.get("ephemeralContainers"):
        status["ephemeralContainerStatuses"] = [
            _ephemeral(facts, container) for container in spec["ephemeralContainers"]
        ]
    _pod_level(facts, status)
    if spec.get("virtualMachine"):
        _machine(facts, before, status)
    return status


_POWER_STATES = {
    RUNNING: ("active", "running"),
    PAUSED: ("paused", "paused"),
    SUSPENDED: ("suspended", "suspended"),
    SHUTDOWN: ("stopped", "shutdown"),
}


def _machine(facts: Facts, before: Mapping[str, Any], status: Object) -> None:
    """The virtual machine's part of the status. Only the node knows a VM's power state; the API server derives the rest
    from its container."""
    observed = facts.seen.get(facts.pod["spec"]["virtualMachine"].get("name", ""))
    if observed is not None and observed.running and observed.last is not None and observed.last.machine is not None:
        state, power = _POWER_STATES.get(observed.last.machine.power, ("", "nostate"))
        known = before.get("virtualMachineStatus") or {}
        status["virtualMachineStatus"] = {**known, "state": state, "powerState": power}


def remembered(status: Mapping[str, Any], name: str, container_id: str) -> Object:
    """The last reported status of the container with this ID; empty if none was reported."""
    for key in ("containerStatuses", "initContainerStatuses"):
        for container_status in status.get(key) or ():
            if container_status["name"] == name and str(container_status.get("containerID") or "").endswith(
                f"//{container_id}"
            ):
                return dict(container_status)
    return {}


def rejected(pod: Object, reason: str, message: str, now: str, qos: str) -> Object:
    """The status of a pod that this node did not admit: none of its containers ever ran."""
    return {
        "observedGeneration": pod["metadata"].get("generation") or 0,
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "startTime": now,
        "qosClass": qos,
    }


def _pod_level(facts: Facts, status: Object) -> None:
    if shown := settle.pod_allocated(facts.sized):
        status["allocatedResources"] = shown
    actual = facts.pod_limits if facts.phase == "Running" else None
    status["resources"] = settle.pod_resources(facts.sized, _actuated_pod(facts), actual)


def _actuated_pod(facts: Facts) -> Sized:
    """The pod with its actuated sizes, which mostly equal the allocated ones."""
    allocated, actuated = facts.allocated, facts.actuated
    if allocated.containers == actuated.containers and allocated.pod == actuated.pod:
        return facts.sized
    # A container that does not run is reported, and counted, with its allocated size.
    running = {name: size for name, size in actuated.containers.items() if name in facts.limits}
    return Sized(facts.pod, Actuated({**allocated.containers, **running}, actuated.pod))


# --- containers ----------------------------------------------------------------------------------------------------


def _container(facts: Facts, container: Object, regular: bool) -> Object:
    name = container["name"]
    observed = facts.seen[name]
    last = observed.last
    shown: Object = {
        "name": name,
        "state": _state(facts, observed, regular),
        "lastState": _last_state(facts, observed),
        "ready": _ready(observed, not regular and not is_sidecar(container)),
        "restartCount": max(last.attempt if last else 0, facts.counts.get(name, 0)),
        "image": (last.image if last else "") or container.get("image") or "",
        "imageID": last.image_id if last else "",
        "started": observed.started,
    }
    if last is not None and last.id:
        shown["containerID"] = f"{facts.runtime}://{last.id}"
    if last is None:
        return shown
    allocated = facts.sized.rendered.get(name, {})
    if requests := allocated.get("requests"):
        shown["allocatedResources"] = dict(requests)
    actuated = facts.actuated.containers.get(name)
    shown["resources"] = settle.container_resources(
        allocated, actuated, facts.limits.get(name) if observed.running else None
    )
    if mounts := container.get("volumeMounts"):
        shown["volumeMounts"] = [_mount(mount) for mount in mounts]
    if observed.running and last.user is not None:
        shown["user"] = {"linux": _user(last.user)}
    return shown


def _ephemeral(facts: Facts, container: Object) -> Object:
    """The status of an ephemeral container: never ready, never restarted, without a size."""
    shown = _container(facts, container, regular=False)
    for key in ("started", "allocatedResources", "resources"):
        shown.pop(key, None)
    return {**shown, "ready": False}


def _user(user: LinuxUser) -> Object:
    shown: Object = {"uid": user.uid, "gid": user.gid}
    if user.groups:
        shown["supplementalGroups"] = list(user.groups)
    return shown


def _mount(mount: Object) -> Object:
    shown = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        shown["readOnly"] = True
        shown["recursiveReadOnly"] = "Disabled"
    return shown


def _ready(observed: Seen, plain_init: bool) -> bool:
    if plain_init:
        return observed.exited and observed.last is not None and observed.last.exit_code == 0
    return observed.ready


_NEVER_RAN: Object = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}
"""The status of a container that did not start before its pod, past its init containers, ended."""


def _state(facts: Facts, observed: Seen, regular: bool) -> Object:
    last = observed.last
    if regular and facts.initialized and _over(facts) and (last is None or observed.created_only):
        return {"terminated": dict(_NEVER_RAN)}
    if _waits(facts, observed) and observed.waiting is not None:
        reason, message = observed.waiting
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    if last is None or observed.created_only:
        # This also applies once init containers are done: a container that has not started waits for the pod's start.
        inits = facts.pod["spec"].get("initContainers")
        return {"waiting": {"reason": "PodInitializing" if inits else "ContainerCreating"}}
    if observed.running:
        return {"running": {"startedAt": rfc3339(last.started_at)}}
    return {"terminated": _terminated(facts, last)}


def _waits(facts: Facts, observed: Seen) -> bool:
    """Whether the container waits for its start or restart; in a finished pod, an exited container does not."""
    return observed.waiting is not None and not observed.running and not (_over(facts) and observed.exited)


def _over(facts: Facts) -> bool:
    return facts.phase in ("Succeeded", "Failed")


def _last_state(facts: Facts, observed: Seen) -> Object:
    if _waits(facts, observed) and observed.exited and observed.last is not None:
        return {"terminated": _terminated(facts, observed.last)}
    if observed.previous is not None:
        return {"terminated": _terminated(facts, observed.previous)}
    return {}


def _terminated(facts: Facts, state: ContainerState) -> Object:
    shown: Object = {
        "exitCode": state.exit_code,
        "reason": state.reason or ("Completed" if state.exit_code == 0 else "Error"),
    }
    if state.message:
        shown["message"] = state.message
    shown["startedAt"] = rfc3339(state.started_at) if state.started_at else None
    shown["finishedAt"] = rfc3339(state.finished_at) if state.finished_at else None
    if state.id:
        shown["containerID"] = f"{facts.runtime}://{state.id}"
    return shown
