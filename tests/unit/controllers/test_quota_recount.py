"""A quota is recounted from caches that may lag behind the controller's own updates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.client import Client
from podfit.controllers.context import ControllerContext, Informers
from podfit.controllers.quota.controller import QUOTA, QuotaController
from podfit.kit.clock import RealClock
from podfit.reconcile import Requeue

KEY = ("ns", "q")


class Server:
    """Stores the quota's status; the test decides when the caches see it."""

    shares = False

    def __init__(self) -> None:
        self.revision = 10

    async def update(self, kind: Kind, body: Object, subresource: str) -> Object:
        assert (kind, subresource) == (QUOTA, "status")
        self.revision += 1
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.revision)}}
        return self.stored


def quota(revision: int, used: str) -> Object:
    meta = {"namespace": "ns", "name": "q", "resourceVersion": str(revision)}
    return {"metadata": meta, "spec": {"hard": {"cpu": "1"}}, "status": {"hard": {"cpu": "1"}, "used": {"cpu": used}}}


def pod(name: str) -> Object:
    meta = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "300m"}}}]}}


async def test_a_count_is_not_compared_with_a_status_that_an_own_update_has_replaced() -> None:
    server = Server()
    informers = Informers(cast(Client, server), RealClock())
    controller = QuotaController(
        cast(ControllerContext, SimpleNamespace(client=server, clock=RealClock(), cache=informers.of))
    )
    quotas: Any = informers.of(QUOTA)
    pods: Any = informers.of(POD)

    # Admission has counted both pods, but the cache of pods has only the first.
    quotas._take("ADDED", quota(10, "600m"))
    pods._take("ADDED", pod("a"))
    await controller._reconcile(KEY)
    assert server.stored["status"]["used"] == {"cpu": "300m"}

    # The second pod arrives before the controller's own update does.
    pods._take("ADDED", pod("b"))
    again = await controller._reconcile(KEY)
    assert isinstance(again, Requeue) and again.after_s < 1, "the periodic recount would be minutes away"
    quotas._take("MODIFIED", server.stored)
    await controller._reconcile(KEY)
    assert server.stored["status"]["used"] == {"cpu": "600m"}
