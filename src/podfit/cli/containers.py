"""A pod's containers according to its status: their states, and OOM kills. Pure.

Only fields of the API are read, so that all of it works with any kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.cli.printing.amounts import amount_text, memory_text, number
from podfit.cli.printing.output import age

OOM = "OOMKilled"
_FIELDS = (
    ("initContainers", "initContainerStatuses"),
    ("containers", "containerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
)


@dataclass(frozen=True)
class Container:
    """A container of the spec with its status (empty before the node has reported one)."""

    field: str
    spec: Object
    status: Object

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def label(self) -> str:
        """The name, with its role if it is not a regular container."""
        if self.field == "containers":
            return self.name
        sidecar = self.spec.get("restartPolicy") == "Always"
        role = "sidecar" if sidecar else "init" if self.field == "initContainers" else "ephemeral"
        return f"{self.name} ({role})"

    @property
    def restarts(self) -> int:
        return int(self.status.get("restartCount") or 0)

    def limit(self, resource: str) -> str | None:
        resources = self.status.get("resources") or self.spec.get("resources") or {}
        found = (resources.get("limits") or {}).get(resource)
        return None if found is None else str(found)


def containers_of(pod: Object) -> Iterator[Container]:
    status = pod.get("status") or {}
    for field, reported in _FIELDS:
        known = {container_status["name"]: container_status for container_status in status.get(reported) or ()}
        for spec in pod["spec"].get(field) or ():
            yield Container(field, spec, known.get(spec["name"]) or {})


def state_words(state: Object | None) -> str:
    """`Running since 3m`, `Waiting: CrashLoopBackOff`, `OOMKilled 12s ago (exit code 137)`."""
    state = state or {}
    if (running := state.get("running")) is not None:
        return f"Running since {age(running.get('startedAt'))}"
    if (waiting := state.get("waiting")) is not None:
        return f"Waiting: {waiting.get('reason') or 'unknown'}"
    if (ended := state.get("terminated")) is not None:
        when = f" {age(ended['finishedAt'])} ago" if ended.get("finishedAt") else ""
        return f"{ended.get('reason') or 'Terminated'}{when} ({_exit(ended)})"
    return "-"


def _exit(ended: Object) -> str:
    return f"signal {ended['signal']}" if ended.get("signal") else f"exit code {ended.get('exitCode', 0)}"


@dataclass(frozen=True)
class OomKill:
    """The last time a container was killed for memory."""

    container: Container
    at: str
    limit_then: str | None
    """None if it had none, or the container was resized since and no node has recorded it."""
    running: bool

    @property
    def limit_now(self) -> str | None:
        return self.container.limit("memory")

    @property
    def raised(self) -> bool:
        before, now = self.limit_then, self.limit_now
        return before is not None and (now is None or number("memory", now) > number("memory", before))

    def data(self) -> dict[str, Any]:
        return {
            "container": self.container.name,
            "finishedAt": self.at,
            "memoryLimitThen": self.limit_then,
            "memoryLimitNow": self.limit_now,
            "restartCount": self.container.restarts,
        }


def oom_ended(status: Object) -> Object | None:
    """The last termination of the container, if it was an OOM kill."""
    for field in ("state", "lastState"):
        ended = (status.get(field) or {}).get("terminated")
        if ended is not None:
            return dict(ended) if ended.get("reason") == OOM else None
    return None


def oom_kills(pod: Object, story: Sequence[Object] = ()) -> list[OomKill]:
    """The OOM kills of a pod's containers. `story`: the node's record, if available, which contains the limit at the
    time of a kill even after a resize."""
    found = []
    for container in containers_of(pod):
        ended = oom_ended(container.status)
        if ended is None:
            continue
        at = str(ended.get("finishedAt") or "")
        then = _recorded_limit(story, container.name) if _resized_since(pod, at) else container.limit("memory")
        running = "running" in (container.status.get("state") or {})
        found.append(OomKill(container, at, then, running))
    return found


def _resized_since(pod: Object, at: str) -> bool:
    written = pod["metadata"].get("managedFields") or ()
    return any(entry.get("subresource") == "resize" and str(entry.get("time") or "") > at for entry in written)


def _recorded_limit(story: Sequence[Object], container: str) -> str | None:
    for chapter in reversed(story):
        if chapter.get("what") == "OOM-killed" and chapter.get("why") == container:
            limit = (chapter.get("numbers") or {}).get("memory_limit")
            return None if limit is None else str(limit)
    return None


def oom_lines(pod: Object, story: Sequence[Object] = ()) -> list[str]:
    """A sentence for each OOM-killed container: when, at which limit, its restarts, and what to do."""
    return [f"{_description(kill)} {_help(pod, kill)}" for kill in oom_kills(pod, story)]


def _description(kill: OomKill) -> str:
    limit = kill.limit_then or kill.limit_now
    if limit is None:
        where = "without a memory limit of its own: the pod or the node ran out of memory"
    elif kill.limit_then is None:
        where = f"(its memory limit is {_memory(limit)} now)"
    else:
        where = f"at its memory limit of {_memory(limit)}"
    times = f"{kill.container.restarts} restart{'s' if kill.container.restarts != 1 else ''}"
    return f"Container {kill.container.name} was OOM-killed {age(kill.at)} ago {where} ({times})."


def _help(pod: Object, kill: OomKill) -> str:
    if kill.raised:
        now = kill.limit_now
        return f"Its limit is {_memory(now)} now." if now is not None else "It has no memory limit now."
    limit = kill.limit_then or kill.limit_now
    if limit is None:
        return "Give it a memory request and limit that cover its usage."
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return "Create the pod again with a higher memory limit."
    return f"Raise the limit: {resize_command(pod, kill.container, number('memory', limit) * 2)}"


def _memory(amount: str) -> str:
    return memory_text(number("memory", amount))


def resize_command(pod: Object, container: Container, memory: int) -> str:
    """The command that raises the limit. If request and limit are equal, both are raised, so the QoS class stays."""
    resources = container.spec.get("resources") or {}
    requested, most = ((resources.get(kind) or {}).get("memory") for kind in ("requests", "limits"))
    size = amount_text("memory", memory)
    equal = requested is not None and most is not None and number("memory", requested) == number("memory", most)
    flag = f"--memory {size}" if equal else f"--limits memory={size}"
    meta = pod["metadata"]
    several = len(pod["spec"].get("containers") or ()) > 1 or container.field != "containers"
    words = [f"podfit resize {meta['name']}", f"-c {container.name}" if several else "", flag]
    if meta.get("namespace") not in (None, "default"):
        words.append(f"-n {meta['namespace']}")
    return " ".join(word for word in words if word)
