"""Nodes and pods for the scheduler's decisions, and a board that has them."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
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
