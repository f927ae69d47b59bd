"""The images of a node with real containers: kept while used, deleted when the disk is full, reported on the Node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.disks import fill, needs_root, small_disk
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec
from tests.support.containers.images import busybox, oci_archive
from tests.support.containers.registry import Fault, LoopbackRegistry

from podfit.agent.agent import Agent
from podfit.agent.decide.node.images import ImageDisk, ImagePolicy
from podfit.agent.runtimes.process.support import check_support
from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.images.archives import load
from podfit.images.references import parse
from podfit.images.registries.pull import Puller
from podfit.images.store import IMAGES, ImageStore

EVENT = kind_named("Event")


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    if missing := check_support():
        pytest.skip("; ".join(missing))
    async with Whole(tmp_path, runtime="process", stop_pods=True) as running:
        yield running


@pytest.fixture
async def registry() -> AsyncIterator[LoopbackRegistry]:
    async with LoopbackRegistry() as running:
        yield running


async def pulled(whole: Whole, registry: LoopbackRegistry, name: str, **files: bytes) -> str:
    store = ImageStore(whole.up.options.data_dir / IMAGES, durable=False)
    puller = Puller(store)
    made = await puller.pull(parse(registry.push(name, busybox(**files))))
    puller.close()
    return made.tags[0]


async def begin(whole: Whole, name: str, image: str) -> None:
    spec = pod_spec()
    spec["containers"][0] |= {"image": image, "imagePullPolicy": "IfNotPresent"}
    meta = {"name": name, "namespace": "default"}
    await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def is_running(pod: Object | None) -> bool:
    return pod is not None and (pod.get("status") or {}).get("phase") == "Running"


async def run(whole: Whole, name: str, image: str) -> None:
    await begin(whole, name, image)
    await becomes(whole.client, POD, "default", name, is_running)


async def left(agent: Agent) -> set[str]:
    return {tag for image in await agent.runtime.images() for tag in image.tags}


async def test_a_full_image_disk_loses_unused_images_and_no_others(
    whole: Whole, registry: LoopbackRegistry, tmp_path: Path
) -> None:
    agent = whole.up.agents[0]
    used = await pulled(whole, registry, "used:1", used=b"u")
    await pulled(whole, registry, "unused:1", unused=b"n")
    archive = oci_archive(tmp_path / "x.tar", {"loaded:1": busybox(loaded=b"l")})
    load(ImageStore(whole.up.options.data_dir / IMAGES, durable=False), archive)
    await run(whole, "p", used)
    kept = {used, "docker.io/library/loaded:1"}
    await agent.images.collect()
    assert await left(agent) > kept
    agent.images.disk = lambda folder: ImageDisk(10 << 30, 1 << 30)
    await agent.images.collect()
    assert await left(agent) > kept, "images that were just pulled stay for a while"
    agent.images.policy = ImagePolicy(min_age_s=0.0)
    await agent.images.collect()
    assert await left(agent) == kept
    await agent.idle()
    events = (await whole.client.list(EVENT, "default"))["items"]
    warned = [event for event in events if event["reason"] == "FreeDiskSpaceFailed"]
    assert {event["involvedObject"]["kind"] for event in warned} == {"Node"}
    assert all("(90% of 10.0 GiB used)" in entry["message"] for entry in warned)


async def test_a_node_that_is_short_of_disk_deletes_what_no_container_uses(
    whole: Whole, registry: LoopbackRegistry
) -> None:
    agent = whole.up.agents[0]
    used = await pulled(whole, registry, "used:1", used=b"u")
    await pulled(whole, registry, "unused:1", unused=b"n")
    await run(whole, "p", used)
    await agent.pressure.response.reclaim()
    assert await left(agent) == {used}


async def test_an_image_that_comes_to_the_node_is_in_its_status(whole: Whole, registry: LoopbackRegistry) -> None:
    name = await pulled(whole, registry, "reported:1", reported=b"r")
    agent = whole.up.agents[0]
    await agent.images.report()
    node = await whole.client.get(NODE, "", "n1")
    (found,) = node["status"]["images"]
    assert found["names"][1] == name and found["names"][0].startswith(f"{registry.host}/reported@sha256:")


async def waiting(whole: Whole, name: str, words: str) -> None:
    def holds(obj: Object | None) -> bool:
        statuses = ((obj or {}).get("status") or {}).get("containerStatuses") or [{}]
        found = (statuses[0].get("state") or {}).get("waiting") or {}
        return found.get("reason") in ("ErrImagePull", "ImagePullBackOff") and words in found["message"]

    await becomes(whole.client, POD, "default", name, holds)


@needs_root
async def test_pods_wait_with_the_cause_and_run_when_it_is_gone(registry: LoopbackRegistry, tmp_path: Path) -> None:
    """A full image disk, a broken image and a failing registry affect no other pod, and all pods run in the end."""
    if missing := check_support():
        pytest.skip("; ".join(missing))
    broken, fine = busybox(broken=b"b"), busybox(fine=b"f")
    names = [registry.push(f"{name}:1", image) for name, image in (("broken", broken), ("fails", busybox(fails=b"f")))]
    big = registry.push("big:1", busybox(zeros=bytes(120 << 20)))
    digest = next(digest for digest in broken.blobs if digest not in fine.blobs and digest != broken.id)
    registry.faults += [Fault(f"/blobs/{digest}", corrupt=True), Fault("/v2/fails/", status=500)]
    data = tmp_path / "data"
    data.mkdir()
    with small_disk(data / IMAGES, 400 << 20) as disk:
        async with Whole(data, runtime="process", stop_pods=True) as whole:
            fill(disk / "filler", leave=110 << 20)
            for name, image in zip(("broken", "fails", "big"), (*names, big), strict=True):
                await begin(whole, name, image)
            await waiting(whole, "broken", f"failed to verify {digest}")
            await waiting(whole, "fails", "500 Internal Server Error: UNKNOWN: unknown error")
            await waiting(whole, "big", "no space left on the image disk")
            await run(whole, "host", "host")
            await run(whole, "fine", registry.push("fine:1", fine))
            registry.faults.clear()
            (disk / "filler").unlink()
            for name in ("broken", "fails", "big"):
                await becomes(whole.client, POD, "default", name, is_running, patience_s=90)


async def test_a_container_that_falls_back_to_the_hosts_files_has_a_warning_that_names_its_program(
    tmp_path: Path,
) -> None:
    if missing := check_support():
        pytest.skip("; ".join(missing))
    async with Whole(tmp_path, runtime="process", stop_pods=True, image_fallback="host") as whole:
        await run(whole, "p", "nginx:1.25")
        await whole.up.agents[0].idle()
        events = (await whole.client.list(EVENT, "default"))["items"]
        output = {
            event["reason"]: (event["type"], event["message"])
            for event in events
            if event["involvedObject"]["name"] == "p"
        }
        assert output["HostFiles"][0] == "Warning" and "the container runs `sleep 3600`" in output["HostFiles"][1]
        assert "Pulled" not in output and "Pulling" not in output
