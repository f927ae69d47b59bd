"""Many clients, slow clients, long responses: each of them costs other clients little, and never brings the
server down.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import logging
import resource
import ssl
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.support.cluster.asking import serving, tls_of

from podfit.apiserver.app import ApiServer
from podfit.apiserver.verbs import delete
from podfit.apiserver.writing import bodies
from podfit.client.kubeconfig import load

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with serving(tmp_path / "data") as made:
        yield made


@pytest.fixture
async def admin(server: ApiServer, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, server.pki.admin, tmp_path), limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector, auto_decompress=False) as session:
        yield session


async def fill(admin: aiohttp.ClientSession, count: int = 700) -> None:
    """More data than is sent in one piece, and more than is kept encoded."""

    async def create(number: int) -> None:
        body = {"metadata": {"name": f"m{number:04}"}, "data": {"text": "x" * 1000}}
        async with admin.post(MAPS, json=body) as answer:
            assert answer.status == 201

    for start in range(0, count, 50):
        await asyncio.gather(*map(create, range(start, start + 50)))


async def read(admin: aiohttp.ClientSession, path: str = MAPS, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    async with admin.get(path, headers={"Accept-Encoding": "identity", **headers}) as answer:
        return answer, await answer.read()


def names_of(value: Any) -> list[str]:
    return [item["metadata"]["name"] for item in value["items"]]


async def test_a_long_list_is_the_same_in_every_encoding(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    await fill(admin)
    _, plain = await read(admin)
    expected = json.loads(plain)
    assert len(plain) > 700_000 and len(names_of(expected)) == 700
    _, again = await read(admin)
    compressed, packed = await read(admin, **{"Accept-Encoding": "gzip"})
    _, indented = await read(admin, f"{MAPS}?pretty=true")
    _, written = await read(admin, Accept="application/yaml")
    assert compressed.headers["Content-Encoding"] == "gzip" and len(packed) < len(plain) / 4
    assert again == plain == gzip.decompress(packed)
    assert indented.startswith(b'{\n  "kind"') and json.loads(indented) == expected
    assert yaml.load(written, Loader=yaml.CSafeLoader) == expected


async def test_a_long_table_has_a_row_for_each_object_in_its_newest_state(
    server: ApiServer, admin: aiohttp.ClientSession
) -> None:
    await fill(admin)
    _, before = await read(admin, Accept=TABLE)
    async with admin.patch(
        f"{MAPS}/m0003", json={"data": {"more": "y"}}, headers={"Content-Type": "application/merge-patch+json"}
    ) as answer:
        assert answer.status == 200
    _, after = await read(admin, Accept=TABLE)
    old, new = json.loads(before)["rows"], json.loads(after)["rows"]
    assert [row["object"]["metadata"]["name"] for row in new] == [row["cells"][0] for row in old]
    changed = [row["cells"] for row, was in zip(new, old, strict=True) if row["object"] != was["object"]]
    assert [cells[:2] for cells in changed] == [["m0003", 2]]


async def test_a_long_list_gives_other_requests_their_turn(server: ApiServer, admin: aiohttp.ClientSession) -> None:
    await fill(admin)
    server.core.parts.long_responses._slice_s = 0.0
    over = asyncio.ensure_future(read(admin, Accept=TABLE))
    async with admin.get(f"{MAPS}/m0001") as answer:
        assert answer.status == 200
    turns = 0
    while not over.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 20 and over.result()[0].status == 200


async def test_the_body_of_a_client_without_rights_is_not_waited_for(server: ApiServer, tmp_path: Path) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.front.port, ssl=tls_of(server, None, tmp_path))
    writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{" % MAPS.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403") and b"connection: close" in head.lower()
    writer.close()


async def test_a_request_whose_body_stalls_is_aborted(server: ApiServer, tmp_path: Path) -> None:
    server.front.timeout_s = 0.05
    tls = tls_of(server, server.pki.admin, tmp_path)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.front.port, ssl=tls)
    writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n{" % MAPS.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 504")
    writer.close()


async def leave_in_the_middle_of_a_body(server: ApiServer, tls: ssl.SSLContext, sent: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.front.port, ssl=tls)
    writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" % MAPS.encode() + b"x" * sent)
    await writer.drain()
    while not server.core.seats.bodies.in_flight:
        await asyncio.sleep(0)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    while server.core.seats.bodies.in_flight:
        await asyncio.sleep(0)


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_not_a_failure_of_the_server(
    server: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await leave_in_the_middle_of_a_body(server, tls_of(server, server.pki.admin, tmp_path), 1000)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_partial_body_is_freed_when_its_client_disconnects(server: ApiServer, tmp_path: Path) -> None:
    tls = tls_of(server, server.pki.admin, tmp_path)
    await leave_in_the_middle_of_a_body(server, tls, 2_500_000)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(10):
            await leave_in_the_middle_of_a_body(server, tls, 2_500_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 5_000_000


async def test_a_client_that_leaves_in_the_middle_gives_its_seat_back(
    server: ApiServer, admin: aiohttp.ClientSession
) -> None:
    await fill(admin)
    for _ in range(server.core.seats.reads.seats + 2):
        answer = await admin.get(MAPS, headers={"Accept": TABLE})
        answer.close()
    assert (await read(admin))[0].status == 200
    while server.core.seats.reads.in_flight:
        await asyncio.sleep(0.01)


async def test_decisions_about_long_paths_are_not_kept(server: ApiServer, tmp_path: Path) -> None:
    connector = aiohttp.TCPConnector(ssl=tls_of(server, None, tmp_path))
    async with aiohttp.ClientSession(server.url, connector=connector) as nobody:
        kept = len(server.authorization._decided)
        for number in range(20):
            async with nobody.get(f"/{'x' * 20_000}/{number}") as answer:
                assert answer.status == 403
    assert len(server.authorization._decided) == kept


def start_with_descriptors(count: int, folder: Path) -> subprocess.Popen[str]:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    command = [sys.executable, "-m", "podfit.cli.main", "apiserver", "--data-dir", str(folder), "--listen"]
    return subprocess.Popen([*command, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True, preexec_fn=few)


async def test_a_server_with_few_descriptors_outlives_a_crowd_of_idle_connections(tmp_path: Path) -> None:
    process = start_with_descriptors(256, tmp_path)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        tls = load(str(tmp_path / "admin.kubeconfig")).tls()
        anonymous = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
        crowd = []
        for _ in range(300):
            try:
                crowd.append(await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), ssl=anonymous))
            except OSError:
                continue
        async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(ssl=tls)) as session:
            async with session.post(MAPS, json={"metadata": {"name": "still-here"}}) as answer:
                assert answer.status == 201
        assert process.poll() is None
        for _, writer in crowd:
            writer.close()
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
async def test_a_large_object_is_made_beside_the_event_loop(
    server: ApiServer, admin: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, media: str
) -> None:
    threads = []
    prepare = type(server.core.writer)._prepare

    def prepared(*arguments: Any) -> None:
        threads.append(threading.get_ident())
        prepare(*arguments)

    monkeypatch.setattr(type(server.core.writer), "_prepare", prepared)
    for name, size in (("small", 10), ("large", 100_000)):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}
        async with admin.post(MAPS, data=json.dumps(body), headers={"Content-Type": media}) as answer:
            assert answer.status == 201, await answer.text()
    assert [ident == threading.get_ident() for ident in threads] == [True, False]
    _, written = await read(admin, f"{MAPS}/large", Accept="application/yaml")
    assert yaml.safe_load(written)["data"]["text"] == "x" * 100_000


POD, DEPLOYMENT = "/api/v1/namespaces/default/pods/x", "/apis/apps/v1/namespaces/default/deployments/x"
DECODERS = {bodies: "decode", delete: "delete_options"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token"),
        ("POST", "/api/v1/namespaces/default/bindings"),
        ("POST", f"{POD}/binding"),
        ("POST", f"{POD}/eviction"),
        ("PUT", f"{DEPLOYMENT}/scale"),
        ("DELETE", POD),
        ("DELETE", "/api/v1/namespaces/default/pods"),
    ],
)
async def test_a_large_body_of_any_request_is_decoded_beside_the_event_loop(
    admin: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    threads = []

    def noting(decode: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            threads.append(threading.get_ident())
            return decode(*arguments, **options)

        return noted

    for module, name in DECODERS.items():
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    body = "metadata: {annotations: {text: " + "x" * 100_000 + "}}"
    async with admin.request(method, path, data=body, headers={"Content-Type": "application/yaml"}) as answer:
        await answer.read()
    assert threads and threading.get_ident() not in threads
