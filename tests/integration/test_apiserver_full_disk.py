"""An API server on a full disk: it reports that, rejects writes that grow, executes deletions, and can be started."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.disks import fill, needs_root, small_disk

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.disk.sqlite import FULL, SqliteStore

pytestmark = needs_root
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
MERGE = {"content-type": "application/merge-patch+json"}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 32 << 20) as folder:
        yield folder


@asynccontextmanager
async def running(disk: Path) -> AsyncIterator[ApiServer]:
    server = ApiServer(Config(SqliteStore(disk / "s.db"), disk / "data", tls=False))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(server: ApiServer, method: str, path: str, body: Any = None) -> Response:
    raw = b"" if body is None else json.dumps(body).encode()
    return await server.handle(Request(method, path, {}, MERGE if method == "PATCH" else {}, raw, ADMIN))


def config_map(name: str, size: int = 9000) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


async def make_room(server: ApiServer, number: int) -> None:
    for item in json.loads((await ask(server, "GET", MAPS)).body)["items"][:number]:
        assert (await ask(server, "DELETE", f"{MAPS}/{item['metadata']['name']}")).status == 200


async def expect_code(server: ApiServer, path: str, code: int) -> None:
    async with asyncio.timeout(60):
        while (await ask(server, "GET", path)).status != code:
            await asyncio.sleep(0.05)


async def refused_for_want_of_room(server: ApiServer, name: str = "more", size: int = 9000) -> None:
    """Creates objects until one is refused."""
    for number in range(100_000):
        answer = await ask(server, "POST", MAPS, config_map(f"{name}-{number}", size))
        if answer.status != 201:
            break
    said = json.loads(answer.body)
    assert (said["code"], said["reason"]) == (503, "ServiceUnavailable")
    assert said["message"].endswith(FULL)


async def test_a_full_disk_fails_readiness_with_its_reason_and_recovers_by_itself(disk: Path) -> None:
    async with running(disk) as server:
        assert (await ask(server, "GET", "/readyz")).status == 200
        fill(disk / "ballast")
        await refused_for_want_of_room(server)
        assert b"[-]store failed" in (await ask(server, "GET", "/readyz")).body
        reason = await ask(server, "GET", "/readyz/store")
        assert (reason.status, reason.body) == (500, f"internal server error: {FULL}\n".encode())
        assert (await ask(server, "GET", "/livez")).status == 200
        (disk / "ballast").unlink()
        async with asyncio.timeout(60):
            while (await ask(server, "GET", "/readyz")).status != 200:
                await asyncio.sleep(0.05)
        assert (await ask(server, "POST", MAPS, config_map("later"))).status == 201


async def test_pods_are_deleted_and_their_end_reported_at_a_full_disk(disk: Path) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}}
    async with running(disk) as server:
        assert (
            await ask(server, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        ).status == 201
        assert (await ask(server, "POST", PODS, pod)).status == 201
        fill(disk / "ballast")
        await refused_for_want_of_room(server)
        answer = await ask(server, "DELETE", f"{PODS}/p")
        assert answer.status == 200 and json.loads(answer.body)["metadata"]["deletionTimestamp"]
        ended = {"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource."}}
        assert (await ask(server, "PATCH", f"{PODS}/p/status", ended)).status == 200
        assert (await ask(server, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})).status == 200
        assert (await ask(server, "GET", f"{PODS}/p")).status == 404


async def test_a_server_starts_at_a_full_disk_and_deletes_make_room(disk: Path) -> None:
    async with running(disk) as server:
        await refused_for_want_of_room(server)
        number = len(json.loads((await ask(server, "GET", MAPS)).body)["items"])
    async with running(disk) as server:
        await make_room(server, number // 2)
        await expect_code(server, "/readyz", 200)
        assert (await ask(server, "POST", MAPS, config_map("later"))).status == 201


async def test_default_objects_that_a_full_disk_has_no_room_for_are_created_when_there_is_room(disk: Path) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit"
    async with running(disk) as server:
        await refused_for_want_of_room(server)
        assert (await ask(server, "DELETE", role)).status == 200
        await refused_for_want_of_room(server, "again", 100)
    async with running(disk) as server:
        assert (await ask(server, "GET", role)).status == 404
        await make_room(server, 500)
        await expect_code(server, role, 200)
