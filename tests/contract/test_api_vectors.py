"""Replays every recorded scenario of Kubernetes' API against a server with its controllers.

The replayer comes with the recordings and runs as its own process, so that no code of podfit decides what counts as
equal.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import ADMIN, Request
from podfit.compose import CONTROLLERS, account_client, make_controller_context
from podfit.controllers.all import run_controllers
from podfit.kit.clock import RealClock
from podfit.store.memory import MemoryStore

VECTORS = Path(os.environ.get("PODFIT_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors") / "api"
FOLDERS = (VECTORS, VECTORS.with_name("api-kinds"), VECTORS.with_name("api-services"))
SCENARIOS = [path for folder in FOLDERS for path in sorted(folder.glob("*.json"))]
LONGEST_S = 240

pytestmark = pytest.mark.skipif(not SCENARIOS, reason=f"no recordings in {VECTORS}")


@dataclass
class Served:
    url: str
    folder: Path

    def arguments(self) -> list[str]:
        where = {name: str(self.folder / name) for name in ("ca.crt", "admin.crt", "admin.key", "node.crt", "node.key")}
        return [
            *("--server", self.url, "--ca", where["ca.crt"]),
            *("--cert", where["admin.crt"], "--key", where["admin.key"]),
            *("--node-cert", where["node.crt"], "--node-key", where["node.key"]),
        ]


class ServerThread:
    """A server and its controllers on their own event loop, so that tests may block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.served: Served | None = None

    def start(self) -> Served:
        self._thread.start()
        assert self._ready.wait(30)
        assert self.served is not None
        return self.served

    def stop(self) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        config = Config(MemoryStore(), self._folder, enable_admission=("PodResizeValidator",))
        server = ApiServer(config)
        await server.start()
        reader = local_client(server, CONTROLLERS, "controllers")
        writer = partial(account_client, server)
        world = make_controller_context(reader, RealClock(), server.pki.ca, writer)
        controllers = asyncio.create_task(run_controllers(world))
        await self._add_node(server)
        self._write_certificates(server)
        self.served = Served(server.url, self._folder)
        self._ready.set()
        await self._stop.wait()
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)
        await server.stop()

    async def _add_node(self, server: ApiServer) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}}).encode()
        answer = await server.handle(Request("POST", "/api/v1/nodes", {}, {}, body, ADMIN))
        assert answer.status == 201

    def _write_certificates(self, server: ApiServer) -> None:
        (self._folder / "ca.crt").write_bytes(server.pki.ca)
        for name, pair in (("admin", server.pki.admin), ("node", server.pki.node("node1"))):
            (self._folder / f"{name}.crt").write_bytes(pair.cert)
            (self._folder / f"{name}.key").write_bytes(pair.key)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    thread = ServerThread(tmp_path_factory.mktemp("apiserver"))
    yield thread.start()
    thread.stop()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_a_recorded_scenario_is_answered_as_kubernetes_answers(served: Served, scenario: Path) -> None:
    command = [sys.executable, str(VECTORS / "replay.py"), *served.arguments(), str(scenario)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
