"""Measures the API server alone: TLS, SQLite with durable commits, clients in other processes.

The clients are separate processes speaking plain HTTP/1.1 over TLS with keep-alive, as any client does. The reference
is a bare aiohttp server that echoes the same body, measured in the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from bench.reporting import Row, percentile, print_table, spread_ms

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "schedulerName": "nobody",
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "c",
                "image": "registry.k8s.io/pause:3.10",
                "env": [{"name": f"VAR_{number}", "value": "value" * 5} for number in range(10)],
                "resources": {
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                    "limits": {"cpu": "200m", "memory": "128Mi"},
                },
            }
        ],
    },
}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


class Server:
    """`podfit apiserver` and its admin's credentials."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> float:
        """Seconds from exec to the ready line."""
        began = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "podfit.cli.main",
            "apiserver",
            "--data-dir",
            str(self.folder),
            "--listen",
            "127.0.0.1:0",
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready"), line
        self.url = line.split()[1]
        return time.perf_counter() - began

    def rss_mib(self) -> float:
        assert self.process is not None
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1024

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def access(kubeconfig: Path) -> tuple[str, ssl.SSLContext]:
    from podfit.client.kubeconfig import load

    found = load(str(kubeconfig))
    return found.server, found.tls()


def session(tls: ssl.SSLContext) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0))


async def make_namespace(client: aiohttp.ClientSession, url: str, name: str) -> None:
    await client.post(f"{url}/api/v1/namespaces", json={"metadata": {"name": name}})
    await client.post(f"{url}/api/v1/namespaces/{name}/serviceaccounts", json={"metadata": {"name": "default"}})


async def make_pods(client: aiohttp.ClientSession, url: str, namespace: str, count: int) -> None:
    gate = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        async with gate:
            body = {**POD, "metadata": {"name": f"p{number}"}}
            async with client.post(f"{url}/api/v1/namespaces/{namespace}/pods", json=body) as answer:
                assert answer.status == 201, await answer.text()

    await asyncio.gather(*map(one, range(count)))


def resize_body(number: int) -> bytes:
    limits = {"cpu": f"{200 + number % 2 * 100}m"}
    return json.dumps({"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}).encode()


async def patch_one_by_one(url: str, tls: ssl.SSLContext, pod: str, count: int) -> list[float]:
    times = []
    async with session(tls) as client:
        path = f"{url}/api/v1/namespaces/bench/pods/{pod}/resize"
        for number in range(count):
            began = time.perf_counter()
            async with client.patch(path, data=resize_body(number + 1), headers=STRATEGIC) as answer:
                await answer.read()
                assert answer.status == 200
            times.append(time.perf_counter() - began)
    return times


def in_processes(kubeconfig: Path, clients: int, each: int, mode: str) -> tuple[float, list[float]]:
    """Runs client processes concurrently; returns (requests per second, all latencies)."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.bench_apiserver", "client", str(kubeconfig), str(number), str(each), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(clients)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "set\n"
    began = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    times: list[float] = []
    for worker in workers:
        assert worker.stdout is not None
        times += json.loads(worker.stdout.readline())
        worker.wait()
    return len(times) / (time.perf_counter() - began), times


async def client_main(kubeconfig: Path, number: int, each: int, mode: str) -> None:
    """One client process with several connections: waits for the start signal, then patches its own pods."""
    url, tls = access(kubeconfig)
    connections = 8
    if mode.startswith("echo"):
        url = mode.partition("=")[2]
    async with session(tls) as client:
        async with client.get(f"{url}/version") as answer:
            await answer.read()
        print("set", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

        async def lane(at: int) -> list[float]:
            times = []
            path = f"{url}/api/v1/namespaces/bench/pods/p{number * connections + at}/resize"
            for step in range(each):
                began = time.perf_counter()
                async with client.patch(path, data=resize_body(step + 1), headers=STRATEGIC) as answer:
                    await answer.read()
                    assert answer.status == 200, answer.status
                times.append(time.perf_counter() - began)
            return times

        lanes = await asyncio.gather(*map(lane, range(connections)))
    print(json.dumps([one for times in lanes for one in times]), flush=True)


async def echo_main(cert: str, key: str) -> None:
    """The reference: a bare aiohttp server that sends a pod-sized response to every request."""
    from aiohttp import web

    answer = json.dumps(POD).encode()

    async def handle(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=answer, content_type="application/json")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await asyncio.get_running_loop().create_server(web.Server(handle), "127.0.0.1", 0, ssl=context)  # type: ignore[arg-type]
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


def echo_rate(server: Server, config: Path) -> float:
    pki = server.folder / "pki"
    command = [sys.executable, "-m", "bench.bench_apiserver", "echo", f"{pki}/apiserver.crt", f"{pki}/apiserver.key"]
    echo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        return in_processes(config, 2, 250, f"echo=https://127.0.0.1:{int(echo.stdout.readline())}")[0]
    finally:
        echo.terminate()
        echo.wait()


class Eye(asyncio.Protocol):
    """A watch of one pod that only searches for markers: at 40,000 events a second a full client would be the
    bottleneck."""

    def __init__(self, host: str, wanted: str, sent: dict[str, float], delays: list[float]) -> None:
        self._host, self._wanted, self._sent, self._delays = host, wanted, sent, delays
        self._rest = b""
        self.ready = asyncio.Event()
        self.done = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        query = "watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dp0&timeoutSeconds=60"
        head = f"GET /api/v1/namespaces/bench/pods?{query} HTTP/1.1\r\nHost: {self._host}\r\n\r\n"
        transport.write(head.encode())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"type"'):
                self.ready.set()
            at = line.find(b'"annotations":{"n":"')
            mark = line[at + 20 : line.index(b'"', at + 20)].decode() if at >= 0 else ""
            if mark in self._sent:
                self._delays.append(now - self._sent[mark])
            if mark == self._wanted:
                self.done.set()


async def watchers(url: str, tls: ssl.SSLContext, count: int, writes: int, rate: float) -> list[float]:
    """The delay from a write until each of `count` watchers has received the event."""
    sent: dict[str, float] = {}
    delays: list[float] = []
    host, _, port = url.removeprefix("https://").rpartition(":")
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Eye(host, str(writes - 1), sent, delays), host, int(port), ssl=tls)
        for _ in range(count)
    ]
    eyes = [eye for _, eye in made]
    await asyncio.gather(*(eye.ready.wait() for eye in eyes))
    async with session(tls) as client:
        for number in range(writes):
            sent[str(number)] = time.perf_counter()
            body = json.dumps({"metadata": {"annotations": {"n": str(number)}}})
            headers = {"Content-Type": "application/merge-patch+json"}
            async with client.patch(f"{url}/api/v1/namespaces/bench/pods/p0", data=body, headers=headers) as answer:
                await answer.read()
            await asyncio.sleep(max(0.0, sent[str(number)] + 1 / rate - time.perf_counter()))
        await asyncio.wait_for(asyncio.gather(*(eye.done.wait() for eye in eyes)), 30)
    for transport, _ in made:
        transport.close()
    return delays


async def main() -> None:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        rows.append(Row("start to ready, first start", f"{server.start():.2f} s", "≤ 1 s"))
        server.stop()
        rows.append(Row("start to ready, again", f"{server.start():.2f} s", "≤ 1 s"))
        rows.append(Row("RSS, empty", f"{server.rss_mib():.0f} MiB", "≤ 80 MiB"))
        try:
            await measure(server, rows)
        finally:
            server.stop()
    print_table("API server (SQLite, durable commits, TLS)", rows)


async def measure(server: Server, rows: list[Row]) -> None:
    config = server.folder / "admin.kubeconfig"
    url, tls = access(config)
    async with session(tls) as client:
        await make_namespace(client, url, "bench")
        await make_pods(client, url, "bench", 200)
    times = await patch_one_by_one(url, tls, "p199", 1000)
    rows.append(Row("PATCH /resize, one after the other", spread_ms(times), "p50 ≤ 4 ms, p99 ≤ 10 ms"))
    bare = echo_rate(server, config)
    rate, times = in_processes(config, 2, 250, "resize")
    rows.append(
        Row("PATCH /resize, 16 clients", f"{rate:.0f}/s, p99 {percentile(times, 0.99) * 1000:.1f} ms", "≥ 1,000/s")
    )
    rows.append(Row("… as a share of a bare aiohttp echo", f"{rate / bare:.2f} (echo {bare:.0f}/s)"))
    delays = await watchers(url, tls, 200, 200, 200)
    rows.append(Row("200 watchers, 200 writes/s: write → event", spread_ms(delays), "≤ 20 ms"))
    await lists(server, url, tls, rows)


async def lists(server: Server, url: str, tls: ssl.SSLContext, rows: list[Row]) -> None:
    before = server.rss_mib()
    async with session(tls) as client:
        await make_namespace(client, url, "many")
        await make_pods(client, url, "many", 10_000)
        grown = server.rss_mib() - before
        seconds, size = [], 0
        for _ in range(2):
            began = time.perf_counter()
            async with client.get(f"{url}/api/v1/namespaces/many/pods") as answer:
                size = len(await answer.read())
            seconds.append(time.perf_counter() - began)
    rows.append(
        Row(
            "list of 10,000 pods, then again",
            f"{seconds[0]:.2f} s, {seconds[1]:.2f} s ({size / 2**20:.0f} MiB)",
            "≤ 0.5 s",
        )
    )
    beyond = (grown * 2**20 - size) / 10_000 / 1024
    rows.append(Row("memory a pod beyond its JSON", f"{beyond:.1f} KiB", "≤ 8 KiB"))


def _arguments(values: list[str]) -> Any:
    if values[:1] == ["client"]:
        return client_main(Path(values[1]), int(values[2]), int(values[3]), values[4])
    if values[:1] == ["echo"]:
        return echo_main(values[1], values[2])
    return main()


if __name__ == "__main__":
    import uvloop

    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    uvloop.run(_arguments(sys.argv[1:]))
