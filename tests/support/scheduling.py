"""Nodes and pods for tests of the scheduler, a board that contains them, and a client that records writes."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.scheduler.decide.board import Board, Placed, Refused
from podfit.scheduler.decide.explain import snapshot_of
from podfit.scheduler.decide.fit.rules import Rules

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def node(name: str, cpu: str = "4", memory: str = "8Gi", zone: str = "", **spec: Any) -> Object:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    amounts = {"cpu": cpu, "memory": memory, "pods": "10"}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"allocatable": amounts}}


def pod(name: str, cpu: str = "1", memory: str = "1Gi", on: str = "", app: str = "a", **spec: Any) -> Object:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}}
    placed = {"nodeName": on} if on else {}
    return {"metadata": meta, "spec": {"containers": containers, **placed, **spec}, "status": {}}


def board(nodes: list[Object], pods: list[Object] | None = None, **rules: Any) -> Board:
    return Board(snapshot_of(nodes, pods or []), Rules(deterministic=True, **rules))


def chosen(where: Board, what: Object) -> str:
    verdict = where.place(what)
    assert isinstance(verdict, Placed), verdict
    return verdict.node


def refused(where: Board, what: Object) -> Refused:
    verdict = where.place(what)
    assert isinstance(verdict, Refused)
    return verdict


class RecordedWrites:
    """A fake client: records writes, and raises the error that `refusals` has for the path of one."""

    shares = True

    def __init__(self, **refusals: Exception) -> None:
        self.written: list[tuple[str, str, Any]] = []
        """The operation (create, delete or patch, and the subresource), the pod's name, and the body."""
        self.refusals = refusals

    async def create(self, kind: Kind, body: Object, namespace: str, name: str, subresource: str) -> Object:
        return self._done(subresource, name, body)

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Object, subresource: str, media: str = ""
    ) -> Object:
        return self._done(f"patch_{subresource}", name, patch)

    async def delete(self, kind: Kind, namespace: str, name: str, options: Object) -> Object:
        return self._done("delete", name, options)

    def _done(self, what: str, name: str, body: Object) -> Object:
        if what in self.refusals:
            raise self.refusals[what]
        self.written.append((what, name, body))
        return body

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(what, name) for what, name, _ in self.written]


class RecordedEvents:
    """A fake EventRecorder."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        """The pod's name, reason and message."""

    def record(self, pod: Object, type: str, reason: str, message: str, **more: Any) -> None:
        self.events.append((pod["metadata"]["name"], reason, message))

    async def flush(self) -> None:
        """Returns at once: nothing is queued."""
