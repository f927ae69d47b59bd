"""Measures how a flood of requests delays another client's PATCH: p99 during the flood against p99 on an idle server.

The server holds 10,000 pods. One process repeats the same request over eight connections, as fast as responses arrive;
another process patches one pod after the other. Each has its own credentials.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import aiohttp

from bench.bench_apiserver import STRATEGIC, Server, access, make_namespace, make_pods, resize_body, session
from bench.reporting import Row, percentile, print_table
from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfig
from podfit.client.kubeconfig import load

PODS = 10_000
CONNECTIONS = 8
SECONDS = 8.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_LONG_SELECTOR = quote(",".join(f"key-{number}!=value" for number in range(1500)))
LIST = "/api/v1/namespaces/many/pods"
FLOODS: dict[str, tuple[str, str, dict[str, str]]] = {
    "lists": ("GET", LIST, {}),
    "lists, compressed": ("GET", LIST, {"Accept-Encoding": "gzip"}),
    "lists as Table": ("GET", LIST, {"Accept": TABLE}),
    "lists as Table, compressed": ("GET", LIST, {"Accept": TABLE, "Accept-Encoding": "gzip"}),
    "lists as YAML": ("GET", LIST, {"Accept": "application/yaml"}),
    "lists, indented": ("GET", f"{LIST}?pretty=true", {}),
    "lists with 1,500 selector terms": ("GET", f"{LIST}?labelSelector={_LONG_SELECTOR}", {}),
    "single reads": ("GET", f"{LIST}/p1", {}),
    "requests that are refused": ("GET", "/api/v1/namespaces/many/nothing", {}),
    "writes": ("PATCH", f"{LIST}/p{{}}/resize", STRATEGIC),
}


async def patching(kubeconfig: Path, seconds: float) -> list[float]:
    url, tls = access(kubeconfig)
    times = []
    async with session(tls) as client:
        path, number, end = f"{url}/api/v1/namespaces/bench/pods/p0/resize", 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            number += 1
            began = time.perf_counter()
            async with client.patch(path, data=resize_body(number), headers=STRATEGIC) as answer:
                await answer.read()
                assert answer.status == 200, answer.status
            times.append(time.perf_counter() - began)
            await asyncio.sleep(0.005)
    return times


async def flooding(kubeconfig: Path, name: str) -> None:
    """Sends requests until the process is terminated."""
    found = load(str(kubeconfig))
    url, tls, bearer = found.server, found.tls(), {"Authorization": f"Bearer {found.token}"}
    method, path, headers = FLOODS[name]

    async def ask(client: aiohttp.ClientSession, connection: int) -> None:
        number, target, sent = 0, url + path.format(connection), {**bearer, **headers}
        while True:
            number += 1
            body = resize_body(number) if method == "PATCH" else None
            async with client.request(method, target, headers=sent, data=body) as answer:
                async for _ in answer.content.iter_any():
                    pass

    async with session(tls) as client:
        client._auto_decompress = False
        print("set", flush=True)
        await asyncio.gather(*(ask(client, number) for number in range(CONNECTIONS)))


async def other_user(client: aiohttp.ClientSession, server: Server, url: str) -> Path:
    """The kubeconfig of a second user: request limits apply per user, not per connection."""
    accounts = f"{url}/api/v1/namespaces/many/serviceaccounts"
    await client.post(accounts, json={"metadata": {"name": "flood"}})
    binding = {
        "metadata": {"name": "flood"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "flood", "namespace": "many"}],
    }
    await client.post(f"{url}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json=binding)
    async with client.post(f"{accounts}/flood/token", json={}) as answer:
        token = (await answer.json())["status"]["token"]
    made = server.folder / "flood.kubeconfig"
    write_kubeconfig(made, url, (server.folder / "pki" / "ca.crt").read_bytes(), token=token)
    return made


def run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "bench.bench_flood", *words], stdout=subprocess.PIPE, text=True)


def patch_p99(config: Path) -> tuple[float, float, int]:
    worker = run("patch", str(config), str(SECONDS))
    assert worker.stdout is not None
    times = json.loads(worker.stdout.readline())
    worker.wait()
    return percentile(times, 0.5), percentile(times, 0.99), len(times)


async def main(wanted: list[str]) -> None:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        server.start()
        try:
            config = server.folder / "admin.kubeconfig"
            url, tls = access(config)
            async with session(tls) as client:
                await make_namespace(client, url, "bench")
                await make_namespace(client, url, "many")
                await make_pods(client, url, "bench", 1)
                await make_pods(client, url, "many", PODS)
                flooder = await other_user(client, server, url)
            measure(server, config, flooder, rows, wanted)
        finally:
            server.stop()
    print_table("PATCH /resize during a flood by eight connections, 10,000 pods", rows)


def measure(server: Server, config: Path, flooder: Path, rows: list[Row], wanted: list[str]) -> None:
    quiet_p50, quiet, _ = patch_p99(config)
    rows.append(Row("quiet", f"p50 {quiet_p50 * 1000:.1f} ms, p99 {quiet * 1000:.1f} ms"))
    for name in wanted or FLOODS:
        flood = run("flood", str(flooder), name)
        try:
            assert flood.stdout is not None and flood.stdout.readline() == "set\n"
            p50, p99, count = patch_p99(config)
        finally:
            flood.terminate()
            flood.wait()
        shown = f"p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms = {p99 / quiet:.1f} × quiet ({count})"
        rows.append(Row(name, shown, "≤ 3 ×"))
        print(name, shown, f"{server.rss_mib():.0f} MiB", flush=True)


if __name__ == "__main__":
    import uvloop

    match sys.argv[1:]:
        case ["patch", config, seconds]:
            print(json.dumps(uvloop.run(patching(Path(config), float(seconds)))), flush=True)
        case ["flood", config, name]:
            uvloop.run(flooding(Path(config), name))
        case names:
            uvloop.run(main(names))
