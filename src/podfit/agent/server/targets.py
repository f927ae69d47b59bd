"""Resolves the pod and container of a request, with Kubernetes' error messages; independent of any HTTP library."""

from __future__ import annotations

from podfit.agent.agent import Agent
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import CREATED, EXITED, RUNNING, ContainerState
from podfit.api.objects import Object
from podfit.kit.web.routes import Refusal

_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}


def find_pod(agent: Agent, namespace: str, name: str, uid: str = "") -> PodRecord:
    record = agent.find(namespace, name)
    if record is None or (uid and uid not in _uids(record)):
        raise Refusal(404, f'pod "{name}" does not exist')
    return record


def _uids(record: PodRecord) -> set[str]:
    """The uids of a pod in requests. A static pod is addressed by its mirror's uid: the API has no other."""
    return {record.uid, str(record.api_object["metadata"].get("uid") or "")}


def container_spec(record: PodRecord, name: str) -> Object | None:
    spec = record.pod["spec"]
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            if container["name"] == name:
                return dict(container)
    return None


async def attempts(agent: Agent, record: PodRecord, name: str) -> list[ContainerState]:
    """The attempts of one container, oldest first."""
    state = await agent.runtime.pod(record.uid)
    found = [container for container in state.containers if container.name == name] if state is not None else []
    return sorted(found, key=lambda candidate: candidate.attempt)


async def running_container(agent: Agent, record: PodRecord, name: str) -> ContainerState:
    """The running container, for exec and attach."""
    known = await attempts(agent, record, name)
    if not known or known[-1].state != RUNNING:
        raise Refusal(500, f'container not found ("{name}")')
    return known[-1]


async def logged_container(agent: Agent, record: PodRecord, name: str, previous: bool) -> ContainerState:
    """The container whose log is read: the newest attempt or, with `previous`, the last attempt that ended before
    it."""
    if container_spec(record, name) is None:
        raise Refusal(404, f'container "{name}" not found in pod "{record.name}"')
    known = await attempts(agent, record, name)
    if previous:
        ended = [candidate for candidate in known if candidate.state == EXITED]
        # If a container waits to be restarted, its newest exit is the previous one; if it is finished, an earlier exit
        # is.
        waits = record.waiting.reason(name) == "CrashLoopBackOff"
        over = bool(ended) and known[-1] is ended[-1] and not waits
        candidates = ended[:-1] if over else ended
        if not candidates:
            raise Refusal(400, f'previous terminated container "{name}" in pod "{record.name}" not found')
        return candidates[-1]
    if not known or known[-1].state == CREATED:
        if len(known) > 1:
            return known[-2]
        raise Refusal(400, _not_started(record, name))
    return known[-1]


def _not_started(record: PodRecord, name: str) -> str:
    if record.terminal:
        return f'container "{name}" in pod "{record.name}" is not available'
    reason = record.waiting.reason(name) or _shown_reason(record, name)
    return f'container "{name}" in pod "{record.name}" is waiting to start: {_WAITING.get(reason, reason)}'


def _shown_reason(record: PodRecord, name: str) -> str:
    """The reason why the container waits, as in its pod's status."""
    status = record.api_object.get("status") or {}
    for container_status in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if container_status["name"] == name and "waiting" in container_status["state"]:
            return str(container_status["state"]["waiting"]["reason"])
    return "ContainerCreating"
