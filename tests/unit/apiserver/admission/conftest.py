"""Fixtures for tests of admission plugins: an in-memory cluster, and the attributes of a write."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from podfit.api.registry.kinds import POD, Kind, kind_named
from podfit.api.status import MODIFIED, conflict
from podfit.apiserver.admission.base import CREATE, Attributes
from podfit.apiserver.request import ADMIN, User


class DictCluster:
    """The objects that plugins read, and the number of their writes."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.revision = 0
        self.writes = 0
        self.before_write: Any = None

    def put(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        self.revision += 1
        obj = deepcopy(obj)
        meta = obj.setdefault("metadata", {})
        meta["resourceVersion"] = str(self.revision)
        meta.setdefault("uid", f"00000000-0000-0000-0000-{self.revision:012d}")
        self.objects[kind.plural, meta.get("namespace", ""), meta["name"]] = obj
        return obj

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        self.objects.pop((kind.plural, namespace, name), None)

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((kind.plural, namespace, name))

    def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        rows = sorted(self.objects.items())
        return [obj for (plural, space, _), obj in rows if plural == kind.plural and namespace in ("", space)]

    async def update_status(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self.before_write is not None:
            self.before_write()
        meta = obj["metadata"]
        stored = self.objects[kind.plural, meta.get("namespace", ""), meta["name"]]
        if stored["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise conflict(kind.plural, meta["name"], MODIFIED)
        self.writes += 1
        return self.put(kind, obj)


@pytest.fixture
def cluster() -> DictCluster:
    made = DictCluster()
    for name in ("default", "kube-system", "kube-node-lease", "ns"):
        made.put(kind_named("Namespace"), {"metadata": {"name": name}, "status": {"phase": "Active"}})
    made.put(kind_named("ServiceAccount"), {"metadata": {"namespace": "ns", "name": "default"}})
    return made


@pytest.fixture
def write():
    """Builds attributes: write(obj), write(obj, old=…, subresource="resize", …)."""

    def build(obj: Any, *, kind: Kind = POD, operation: str = "", user: User = ADMIN, **more: Any) -> Attributes:
        old = more.pop("old", None)
        meta = (obj or old)["metadata"]
        return Attributes(
            operation or ("UPDATE" if old is not None else CREATE),
            kind,
            more.pop("subresource", ""),
            more.pop("namespace", "ns" if kind.namespaced else ""),
            more.pop("name", meta.get("name", "")),
            obj,
            old,
            user,
            **more,
        )

    return build


@pytest.fixture
def pod():
    def build(name: str = "p", *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
        containers = [
            {"name": f"c{i}", "image": "pause", "resources": each} for i, each in enumerate(resources or ({},), 1)
        ]
        return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"containers": containers, **spec}}

    return build
