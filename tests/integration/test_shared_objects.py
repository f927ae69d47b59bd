"""Objects shared inside a process are read-only, however a component got them: a write to one raises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.objects import Object, SharedObjectChanged
from podfit.api.registry.kinds import POD
from podfit.apiserver.front import local
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.apiserver.storage.events import WatchEvent
from podfit.client import Client
from podfit.client.cache import Cache
from podfit.client.rest import STRATEGIC

RESIZE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}}


def containers(value: Any) -> Iterator[Any]:
    """The value and every dictionary and list in it."""
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def expect_read_only(obj: Any) -> None:
    found = list(containers(obj))
    assert found
    for container in found:
        with pytest.raises(SharedObjectChanged):
            container.clear()


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as whole:
        await whole.client.create(POD, new_pod("p"))
        await becomes(whole.client, POD, "default", "p", running)
        yield whole


@pytest.fixture
def component(whole: Whole) -> Client:
    """A client like that of each component of the process."""
    return whole.up.client(ADMIN, "component")


def new_pod(name: str) -> Object:
    meta = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()}


def running(pod: Object | None) -> bool:
    return ((pod or {}).get("status") or {}).get("phase") == "Running"


async def test_responses_to_writes(component: Client) -> None:
    expect_read_only(await component.create(POD, new_pod("q")))
    expect_read_only(await component.patch(POD, "default", "p", RESIZE, "resize", STRATEGIC))
    labels = {"metadata": {"labels": {"changed": "yes"}}}
    expect_read_only(await component.patch(POD, "default", "p", labels))


async def test_bodies_of_writes(whole: Whole, component: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    handle, bodies = whole.up.server.handle, list[Any]()

    async def noted(request: Request) -> Response:
        if request.shares and request.method in ("POST", "PATCH"):
            bodies.append(request.sent)
        return await handle(request)

    monkeypatch.setattr(whole.up.server, "handle", noted)
    await component.create(POD, new_pod("q"))
    await component.patch(POD, "default", "p", RESIZE, "resize", STRATEGIC)
    assert len(bodies) >= 2
    for body in bodies:
        expect_read_only(body)


async def test_the_server_s_own_objects(whole: Whole) -> None:
    objects = whole.up.server.objects
    expect_read_only(objects.get(POD, "default", "p"))
    for pod in objects.list(POD, "default"):
        expect_read_only(pod)


async def test_what_listeners_of_the_server_get(whole: Whole, component: Client) -> None:
    events: asyncio.Queue[WatchEvent] = asyncio.Queue()
    whole.up.server.hub.listen("test", events.put_nowait, POD.storage_prefix)
    await component.patch(POD, "default", "p", RESIZE, "resize", STRATEGIC)
    event = await events.get()
    expect_read_only(event.new)
    expect_read_only(event.old)


@pytest.mark.parametrize("shares", [True, False])
async def test_what_a_cache_holds_and_reports(whole: Whole, component: Client, shares: bool) -> None:
    client = component if shares else local.local_client(whole.up.server, ADMIN, "test")
    cache, reported, gone = Cache(client, POD), list[Any](), asyncio.Event()

    def changed(before: Object | None, after: Object | None) -> None:
        reported.extend(pod for pod in (before, after) if pod is not None)
        if after is None:
            gone.set()

    cache.subscribe(changed)
    task = whole.up.tasks.start(cache.run(), "cache")
    await cache.ready.wait()
    expect_read_only(cache.get("default", "p"))
    await component.patch(POD, "default", "p", RESIZE, "resize", STRATEGIC)
    await component.delete(POD, "default", "p", {"gracePeriodSeconds": 0})
    await gone.wait()
    assert len(reported) > 3
    for pod in [*reported, *cache]:
        expect_read_only(pod)
    task.cancel()


async def test_the_agents_record_of_a_pod_is_read_only(whole: Whole) -> None:
    [record] = [record for record in whole.up.agents[0].records.values() if record.name == "p"]
    expect_read_only(record.pod)
