"""Shared by benchmarks of whole clusters: `podfit up` in its own process, a client of it, and the resources it uses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

from podfit.api.objects import Object

STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
PODS = "/api/v1/namespaces/bench/pods"


def environment() -> dict[str, str]:
    """The environment of an installed podfit: with compiled modules, wherever they can be stored."""
    kept = Path(tempfile.gettempdir(), f"podfit-bench-pycache-{os.getuid()}")
    here = Path(__file__).parent.parent / "src"
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(kept), "PYTHONPATH": str(here)}


class Process:
    """A `podfit …` process started here, which has printed its ready line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        command = ["-m", "podfit.cli.main", *arguments, "--data-dir", str(folder)]
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment()
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready"):
            self._process.wait()
            raise RuntimeError(f"podfit {arguments[0]} did not start: {line!r}")
        self.started_s = time.perf_counter() - began
        self.started_cpu_s = self.cpu_s()
        self.url = line.split()[1]

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        """CPU time of the process so far, all threads included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        """Memory of the process and the helpers it started (pods excluded); shared pages count proportionally."""
        return sum(_pss_mib(pid) for pid in (self.pid, *_keepers(self.pid)))

    def rss_mib(self) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Server(Process):
    """A process that serves the API."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        super().__init__(folder, *arguments, "--listen", "127.0.0.1:0")


class Agent(Process):
    def __init__(self, folder: Path, kubeconfig: Path, name: str, *arguments: str) -> None:
        access = ("--kubeconfig", str(kubeconfig), "--node-name", name, "--port", "0")
        super().__init__(folder, "agent", *access, *arguments)


def _pss_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def _keepers(parent: int) -> list[int]:
    """Container keepers are independent processes; the data directory in their command line identifies their owner."""
    folder = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
    mark = folder[folder.index(b"--data-dir") + 1]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != parent:
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark in line:
                found.append(int(entry.name))
    return found


class Cluster:
    """A client of a cluster in another process; records every state of the pods that its watch delivered."""

    def __init__(self, process: Process) -> None:
        from podfit.client.kubeconfig import load

        access = load(str(process.folder / "admin.kubeconfig"))
        self.process, self.url, self._tls = process, access.server, access.tls()
        self.pods: dict[str, Object] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Cluster:
        self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._tls, limit=64))
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": "bench"}})
        accounts = "/api/v1/namespaces/bench/serviceaccounts"
        while (await self.send("GET", f"{accounts}/default", check=False)).get("kind") != "ServiceAccount":
            await asyncio.sleep(0.02)
        self._watching = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.http.close()

    async def send(self, method: str, path: str, body: Object | None = None, check: bool = True) -> Object:
        headers = STRATEGIC if method == "PATCH" else {"Content-Type": "application/json"}
        data = json.dumps(body) if body is not None else None
        async with self.http.request(method, self.url + path, data=data, headers=headers) as answer:
            content: Object = json.loads(await answer.read())
            if check and answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {content}")
        return content

    async def _watch(self) -> None:
        query = {"watch": "true", "resourceVersion": "0", "timeoutSeconds": "600"}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self.http.get(self.url + PODS, params=query, timeout=timeout, read_bufsize=2**22) as answer:
            async for line in answer.content:
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                if event["type"] == "DELETED":
                    self.pods.pop(name, None)
                else:
                    self.pods[name] = event["object"]
                self._changed.setdefault(name, asyncio.Event()).set()

    async def seen(self, name: str, wanted: Callable[[Object], bool]) -> float:
        """The time (perf_counter) at which the watch showed the pod in the expected state."""
        changed = self._changed.setdefault(name, asyncio.Event())
        while not (name in self.pods and wanted(self.pods[name])):
            changed.clear()
            await asyncio.wait_for(changed.wait(), 60)
        return time.perf_counter()

    async def gone(self, names: list[str]) -> None:
        for name in names:
            changed = self._changed.setdefault(name, asyncio.Event())
            while name in self.pods:
                changed.clear()
                await asyncio.wait_for(changed.wait(), 60)


def pod(name: str, **spec: Any) -> Object:
    container = {
        "name": "c",
        "image": "host",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
    }
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}


def running(one: Object) -> bool:
    return bool(one["status"].get("phase") == "Running")


def size(milli: int) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": f"{milli}m"}}}]}}


def converged(milli: int) -> Callable[[Object], bool]:
    """Whether the status shows the size, and no condition reports a resize in progress."""

    def check(one: Object) -> bool:
        status = one["status"]
        shown = (status.get("containerStatuses") or [{}])[0].get("resources") or {}
        if (shown.get("limits") or {}).get("cpu") != f"{milli}m":
            return False
        return not any(found["type"].startswith("PodResize") for found in status.get("conditions") or ())

    return check


def best_runtime() -> str:
    """The process runtime with real cgroups if this machine and user have them."""
    from podfit.agent.runtimes.process.support import check_support

    return "fake" if check_support() else "process"


@asynccontextmanager
async def cluster(*arguments: str) -> AsyncIterator[Cluster]:
    """`podfit up` for the duration of a benchmark; everything is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="podfit-bench-") as folder:
        process = await asyncio.to_thread(Server, Path(folder), "up", *arguments)
        try:
            async with Cluster(process) as made:
                yield made
        finally:
            await asyncio.to_thread(process.stop)
