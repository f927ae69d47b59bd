"""Failures around containerd: network plugins, addresses, registries, disks, a slow runtime.

Pods wait with the cause in an Event, other pods are not affected, and all pods converge when the cause is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.criproxy import CriProxy
from tests.support.containers.images import Built, build, busybox
from tests.support.containers.registry import Fault, LoopbackRegistry

from .seedpods import Lab, container, is_ready, pod, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("cri-troubles"),
]
PATIENCE_S = 90.0
DISK = 128 << 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Containerd]:
    """A containerd whose network and disk these tests may break: its images are on a small disk of their own."""
    made = Containerd(tmp_path_factory.mktemp("containerd"))
    root = made.folder / "root"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(root)]
    await asyncio.to_thread(subprocess.run, mount, check=True, timeout=60)
    await asyncio.to_thread(made.start)
    yield made
    await asyncio.to_thread(made.stop)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def between(own: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CriProxy]:
    async with CriProxy(tmp_path_factory.mktemp("proxy"), own.endpoint) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(between: CriProxy, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    options = {"runtime": "cri", "runtime_endpoint": between.endpoint, "scheduler": False}
    async with Lab(tmp_path_factory.mktemp("cri"), **options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def registry(own: Containerd) -> AsyncIterator[LoopbackRegistry]:
    async with LoopbackRegistry(listener=socket.create_server((own.host_address, 0))) as made:
        place = own.folder / "certs.d" / made.host
        place.mkdir(parents=True)
        url = f"http://{made.host}"
        (place / "hosts.toml").write_text(f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n')
        yield made


async def says(lab: Lab, name: str, reason: str, *words: str) -> None:
    """An Event of that reason whose message contains one of these texts."""
    async with asyncio.timeout(PATIENCE_S):
        while not any(word in event for event in await lab.events(name, reason) for word in words):
            await asyncio.sleep(0.1)


async def comes_up(lab: Lab, name: str) -> Object:
    return await lab.until(name, is_ready, patience_s=PATIENCE_S)


async def unaffected(lab: Lab, name: str, seen: Object) -> None:
    now = await lab.get(name)
    assert is_ready(now) and statuses(now)["c1"]["containerID"] == statuses(seen)["c1"]["containerID"]


def change_network(own: Containerd, change: Any) -> str:
    """Writes another CNI configuration and returns the previous one."""
    file = own.folder / "cni" / "10-test.conflist"
    before = file.read_text()
    settings = json.loads(before)
    change(settings["plugins"][0])
    file.write_text(json.dumps(settings))
    return before


async def test_a_missing_network_plugin_is_the_reason_that_pods_wait(lab: Lab, own: Containerd) -> None:
    first = await lab.run(pod("here", container("c1")))
    before = change_network(own, lambda plugin: plugin.update(type="no-such-plugin"))
    try:
        await lab.create(pod("p", container("c1")))
        await says(lab, "p", "FailedCreatePodSandBox", "no-such-plugin")
        await unaffected(lab, "here", first)
    finally:
        (own.folder / "cni" / "10-test.conflist").write_text(before)
    await comes_up(lab, "p")


async def test_a_pod_without_a_free_address_waits_for_one(lab: Lab, own: Containerd) -> None:
    def one_address(plugin: Any) -> None:
        subnet = plugin["ipam"]["ranges"][0][0]["subnet"].removesuffix("0/24")
        only = f"{subnet}200"
        plugin["ipam"]["ranges"] = [[{"subnet": f"{subnet}0/24", "rangeStart": only, "rangeEnd": only}]]

    before = change_network(own, one_address)
    try:
        # containerd reads its configuration a moment later: the first pods may still get any address.
        async with asyncio.timeout(PATIENCE_S):
            while not (await lab.run(pod("here", container("c1"))))["status"]["podIP"].endswith(".200"):
                await lab.delete("here")
        first = await lab.get("here")
        await lab.create(pod("p", container("c1")))
        await says(lab, "p", "FailedCreatePodSandBox", "no IP addresses available")
        await unaffected(lab, "here", first)
        await lab.delete("here")
        await comes_up(lab, "p")
    finally:
        (own.folder / "cni" / "10-test.conflist").write_text(before)


async def test_a_registry_that_lies_is_the_reason_that_pods_wait(lab: Lab, registry: LoopbackRegistry) -> None:
    image = registry.push("app:1", busybox(mark=os.urandom(16)))
    registry.faults.append(Fault("/blobs/", corrupt=True))
    await lab.create(pod("p", container("c1", image=image)))
    await says(lab, "p", "Failed", "failed to pull", "unexpected commit digest", "failed commit")
    await lab.run(pod("other", container("c1")))
    registry.faults.clear()
    await comes_up(lab, "p")


async def test_a_registry_that_stalls_holds_up_only_its_own_images(lab: Lab, registry: LoopbackRegistry) -> None:
    image = registry.push("app:2", busybox(mark=os.urandom(16)))
    registry.faults.append(Fault("/blobs/", stall_after=10))
    await lab.create(pod("p", container("c1", image=image)))
    async with asyncio.timeout(PATIENCE_S):
        while not registry.paths("/blobs/"):
            await asyncio.sleep(0.05)
    await lab.run(pod("other", container("c1", image="busybox", imagePullPolicy="Always")))
    shown = statuses(await lab.get("p"))["c1"]["state"]["waiting"]["reason"]
    assert shown in ("ContainerCreating", "ErrImagePull", "ImagePullBackOff")


def broken_image() -> Built:
    """An image whose configuration lists other files than its layers have."""
    one, other = build([{"mark": b"1"}]), build([{"mark": b"2"}])
    manifest = {**json.loads(one.manifest), "layers": json.loads(other.manifest)["layers"]}
    return Built(json.dumps(manifest).encode(), one.config, other.layers, {**one.blobs, **other.blobs})


async def test_an_image_that_is_broken_is_the_reason_that_its_pod_waits(lab: Lab, registry: LoopbackRegistry) -> None:
    image = registry.push("broken:1", broken_image())
    await lab.create(pod("p", container("c1", image=image)))
    await says(lab, "p", "Failed", "wrong diff id")
    await lab.run(pod("other", container("c1")))
    registry.push("broken:1", busybox())
    await comes_up(lab, "p")


async def test_a_full_image_disk_is_the_reason_that_pods_wait(
    lab: Lab, own: Containerd, registry: LoopbackRegistry
) -> None:
    first = await lab.run(pod("here", container("c1")))
    image = registry.push("big:1", busybox(data=os.urandom(8 << 20)))
    filler = own.folder / "root" / "filler"
    _fill(filler, leave=2 << 20)
    try:
        await lab.create(pod("p", container("c1", image=image)))
        await says(lab, "p", "Failed", "no space left on device")
        await unaffected(lab, "here", first)
    finally:
        filler.unlink()
    await comes_up(lab, "p")


def _fill(file: Path, leave: int) -> None:
    disk = os.statvfs(file.parent)
    with file.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, disk.f_bavail * disk.f_frsize - leave)


async def test_a_runtime_that_takes_its_time_with_one_pod_holds_up_no_other(lab: Lab, between: CriProxy) -> None:
    asked, going = asyncio.Event(), asyncio.Event()

    async def slow(request: Any) -> Any:
        if request.config.metadata.name == "slow":
            asked.set()
            await going.wait()
        return await between.forward("RunPodSandbox", request)

    between.answers["RunPodSandbox"] = slow
    try:
        await lab.create(pod("slow", container("c1")))
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        await lab.run(pod("quick", container("c1")))
        assert statuses(await lab.get("slow"))["c1"]["state"]["waiting"]["reason"] == "ContainerCreating"
    finally:
        going.set()
        between.answers.clear()
    await comes_up(lab, "slow")
