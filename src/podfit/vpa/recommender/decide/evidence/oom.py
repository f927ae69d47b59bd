"""Detects out-of-memory kills in changes of pods and in eviction events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity, QuantityError
from podfit.vpa.model.objects.pods import container_status, requests_of
from podfit.vpa.model.times import Seconds, from_rfc3339


@dataclass(frozen=True, slots=True)
class Oom:
    """A container ran out of memory at this limit (or usage), in bytes."""

    namespace: str
    pod: str
    container: str
    instant: Seconds
    memory: int


def ooms_between(old: ObjectView, new: ObjectView) -> list[Oom]:
    """The kills that the Kubernetes autoscaler detects in one change of a pod. `Kills` also detects others."""
    return [
        oom
        for status in (new.get("status") or {}).get("containerStatuses") or ()
        if (oom := _oom_of(old, new, status)) is not None
    ]


def _oom_of(old: ObjectView, new: ObjectView, status: ObjectView) -> Oom | None:
    is_now, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if not killed(is_now.get("terminated")) and not killed(last):
        return None
    name = status.get("name") or ""
    before = container_status(old, name)
    if before is None:
        return None
    was = before.get("state") or {}
    restarted = (status.get("restartCount") or 0) > (before.get("restartCount") or 0)
    if killed(is_now.get("terminated")) and (was.get("terminated") is None or restarted):
        return record(new, name, is_now["terminated"], new)
    # A state is present if its key is, even with an empty value.
    ran = was.get("running") is not None and is_now.get("running") is not None
    if ran and restarted and last is not None and killed(last):
        # The container was killed and restarted between two observations: the older pod has its limit at that time.
        return record(old, name, last, new)
    return None


def killed(terminated: ObjectView | None) -> bool:
    return (terminated or {}).get("reason") == "OOMKilled"


def record(source: ObjectView, container: str, terminated: ObjectView, pod: ObjectView) -> Oom:
    """The kill of a terminated container. `source` is the pod at the time of the kill, whose request counts."""
    kill = killed_at(source, container, from_rfc3339(terminated.get("finishedAt")))
    meta = pod.get("metadata") or {}
    return replace(kill, namespace=meta.get("namespace") or "", pod=meta.get("name") or "")


def killed_at(pod: ObjectView, container: str, instant: Seconds) -> Oom:
    """A kill of a container with the requests in the pod."""
    meta, memory = pod.get("metadata") or {}, requests_of(pod, container).get("memory")
    held = memory.value if memory else 0
    return Oom(meta.get("namespace") or "", meta.get("name") or "", container, instant, held)


def ooms_of_eviction(event: ObjectView) -> list[Oom]:
    """The containers whose memory usage made the node evict a pod, each with that usage."""
    target = event.get("involvedObject") or {}
    if event.get("reason") != "Evicted" or target.get("kind") != "Pod":
        return []
    meta = event.get("metadata") or {}
    notes = meta.get("annotations") or {}
    lists = [
        notes[name].split(",") if name in notes else []
        for name in ("offending_containers", "offending_containers_usage", "starved_resource")
    ]
    if len({len(entries) for entries in lists}) != 1:
        return []
    instant = from_rfc3339(meta.get("creationTimestamp"))
    found = _starved(zip(*lists, strict=True))
    return [Oom(target.get("namespace") or "", target.get("name") or "", name, instant, used) for name, used in found]


def _starved(rows: Any) -> Iterator[tuple[str, int]]:
    for container, usage, resource in rows:
        if resource != "memory":
            continue
        try:
            yield container, Quantity.parse(usage).value
        except QuantityError:
            continue
