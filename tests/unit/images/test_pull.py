"""Pulling from a registry: requests, verification, resumption, rejections, and error messages."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.disks import fill, needs_root, small_disk
from tests.support.containers.images import Built, build
from tests.support.containers.registry import Fault, LoopbackRegistry

from podfit.images.errors import PullFailed
from podfit.images.references import parse
from podfit.images.registries import pull as pulling
from podfit.images.registries.credentials import Credentials
from podfit.images.registries.pull import Puller
from podfit.images.store import ImageStore

APP = build([{"bin/app": random.Random(1).randbytes(300_000)}, {"etc/conf": b"c"}], {"Cmd": ["/bin/app"]})
BIG = next(digest for digest, content in APP.blobs.items() if len(content) > 100_000)
ME = Credentials("me", "secret")


@pytest.fixture
async def puller(store: ImageStore) -> AsyncIterator[Puller]:
    made = Puller(store, stall_s=0.3)
    yield made
    made.close()


async def why(puller: Puller, name: str, credentials: Credentials | None = None) -> str:
    with pytest.raises(PullFailed) as refusal:
        await puller.pull(parse(name), credentials)
    return str(refusal.value)


def files(store: ImageStore, folder: str) -> list[str]:
    return [path.name for path in (store.folder / folder).iterdir()]


async def test_an_image_is_pulled_and_has_the_names_its_registry_knows(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore
) -> None:
    name = registry.push("team/app:1", APP)
    found = await puller.pull(parse(name))
    assert found.id == APP.id and found.tags == (name,)
    assert found.digests == (f"{registry.host}/team/app@{APP.digest}",)
    assert Path(found.rootfs, "etc/conf").read_bytes() == b"c" and store.find(name) == found
    assert files(store, "partial") == [] and files(store, "work") == []


async def test_the_image_for_this_machine_is_chosen_from_a_list(registry: LoopbackRegistry, puller: Puller) -> None:
    other = build([{"other": b"x"}])
    name = registry.push("app:1", APP, others={"other-arch": other})
    assert (await puller.pull(parse(name))).id == APP.id
    assert BIG in registry.paths("/blobs/")[0] or len(registry.paths("/blobs/")) == len(APP.blobs)


async def test_a_list_without_this_machine_says_what_it_has(registry: LoopbackRegistry, puller: Puller) -> None:
    from tests.support.containers.images import index_of

    from podfit.images.content.manifests import OCI_INDEX

    registry.manifests["app", "1"] = (index_of({"other-arch": APP}), OCI_INDEX)
    assert "(it has linux/other-arch): not found" in await why(puller, f"{registry.host}/app:1")


async def test_existing_layers_are_not_downloaded_again(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    await puller.pull(parse(name))
    registry.requests.clear()
    await puller.pull(parse(name))
    assert registry.paths("/blobs/") == [] and len(registry.paths("/manifests/")) == 1


async def test_a_digest_is_pulled_as_it_is_pinned(registry: LoopbackRegistry, puller: Puller) -> None:
    registry.push("app:1", APP)
    found = await puller.pull(parse(f"{registry.host}/app@{APP.digest}"))
    assert found.id == APP.id and found.tags == ()


async def test_two_pulls_at_once_download_each_layer_once(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    await asyncio.gather(*(puller.pull(parse(name)) for _ in range(4)))
    assert len(registry.paths("/blobs/")) == len(APP.blobs)


# --- authentication
@pytest.mark.parametrize("scheme", ["bearer", "basic"])
async def test_credentials_are_shown_when_they_are_requested(
    registry: LoopbackRegistry, puller: Puller, scheme: str
) -> None:
    registry.users, registry.scheme = {"me": "secret"}, scheme
    name = registry.push("app:1", APP)
    assert (await puller.pull(parse(name), ME)).id == APP.id
    assert "Authorization" not in registry.requests[0][1]


@pytest.mark.parametrize("scheme", ["bearer", "basic"])
@pytest.mark.parametrize("credentials", [None, Credentials("me", "wrong")])
async def test_a_registry_that_wants_other_credentials_is_quoted(
    registry: LoopbackRegistry, puller: Puller, scheme: str, credentials: Credentials | None
) -> None:
    registry.users, registry.scheme = {"me": "secret"}, scheme
    said = await why(puller, registry.push("app:1", APP), credentials)
    assert "failed to resolve reference" in said and "authentication required" in said and "wrong" not in said


async def test_credentials_do_not_follow_a_redirect_to_another_host(registry: LoopbackRegistry, puller: Puller) -> None:
    registry.users, registry.scheme = {"me": "secret"}, "basic"
    name = registry.push("app:1", APP)
    async with LoopbackRegistry() as elsewhere:
        elsewhere.push("app:1", APP)
        for digest in APP.blobs:
            place = f"http://{elsewhere.host}/v2/app/blobs/{digest}?signature=x"
            registry.faults.append(Fault(f"/blobs/{digest}", redirect=place))
        assert (await puller.pull(parse(name), ME)).id == APP.id
        assert len(elsewhere.requests) == len(APP.blobs)
        assert all("Authorization" not in headers for _, headers in elsewhere.requests)


async def test_redirects_end(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault("/manifests/", redirect="/v2/app/manifests/1"))
    assert "redirects more than" in await why(puller, name)


# --- refusals
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "pull access denied, repository does not exist or may require authorization: 403 Forbidden: DENIED"),
        (404, ": not found"),
        (429, "429 Too Many Requests: TOOMANYREQUESTS: You have reached your pull rate limit."),
        (500, "500 Internal Server Error: UNKNOWN: unknown error"),
    ],
)
async def test_a_registry_that_refuses_is_quoted(
    registry: LoopbackRegistry, puller: Puller, status: int, words: str
) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault("/manifests/", status=status))
    said = await why(puller, name)
    assert said.startswith(f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": ')
    assert words in said


async def test_an_absent_image_is_not_found(registry: LoopbackRegistry, puller: Puller) -> None:
    name = f"{registry.host}/nothing:1"
    assert (await why(puller, name)).endswith(f'failed to resolve reference "{name}": {name}: not found')


async def test_an_unreachable_registry_is_named(puller: Puller) -> None:
    assert (await why(puller, "127.0.0.1:1/app:1")).endswith(": cannot connect to 127.0.0.1:1: Connection refused")


async def test_a_manifest_that_is_not_its_digest_is_refused(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault("/manifests/", digest="sha256:" + "0" * 64))
    assert "is not sha256:000" in await why(puller, name)


@pytest.mark.parametrize(
    "manifest", [b"", b"[]", b"{", b'{"schemaVersion":1}', b'{"config":{},"layers":[]}', b'{"layers":3}', b"\xff"]
)
async def test_an_invalid_manifest_is_refused(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore, manifest: bytes
) -> None:
    registry.manifests["app", "1"] = (manifest, "application/json")
    assert await why(puller, f"{registry.host}/app:1")
    assert store.images() == []


# --- layers
async def test_a_download_that_is_cut_off_is_resumed_where_it_ended(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault(f"/blobs/{BIG}", cut_after=100_000))
    assert (await puller.pull(parse(name))).id == APP.id
    asked = [headers.get("Range", "") for path, headers in registry.requests if BIG in path]
    assert asked[0] == "" and len(asked) > 2 and all(range.startswith("bytes=") for range in asked[1:])


async def test_a_download_from_a_registry_that_cannot_resume_starts_over(
    registry: LoopbackRegistry, puller: Puller
) -> None:
    name, registry.ranges = registry.push("app:1", APP), False
    registry.faults.append(Fault(f"/blobs/{BIG}", cut_after=100_000, times=1))
    assert (await puller.pull(parse(name))).id == APP.id


async def test_a_later_pull_resumes_where_a_failed_one_stopped(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore
) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault(f"/blobs/{BIG}", cut_after=100_000, times=1))
    registry.faults.append(Fault(f"/blobs/{BIG}", status=500, times=1))
    await why(puller, name)
    assert BIG.replace(":", "-") in files(store, "partial") and store.images() == []
    registry.requests.clear()
    await puller.pull(parse(name))
    (asked,) = [headers.get("Range", "") for path, headers in registry.requests if BIG in path]
    assert asked.startswith("bytes=") and asked != "bytes=0-"


async def test_a_partial_download_is_not_trusted(registry: LoopbackRegistry, puller: Puller, store: ImageStore) -> None:
    name = registry.push("app:1", APP)
    store.partial(BIG).write_bytes(b"garbage from another time")
    assert (await puller.pull(parse(name))).id == APP.id


async def test_corrupt_content_is_never_used(registry: LoopbackRegistry, puller: Puller, store: ImageStore) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault(f"/blobs/{BIG}", corrupt=True))
    assert f"failed to copy: failed to verify {BIG}" in await why(puller, name)
    # Of the image's other parts, whose downloads this failure ended, verified and resumable data is kept.
    assert store.images() == [] and not store.has(BIG)
    assert not [name for name in files(store, "partial") if name.startswith(BIG.replace(":", "-"))]
    registry.faults.clear()
    assert (await puller.pull(parse(name))).id == APP.id


async def test_content_longer_than_announced_is_refused(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore
) -> None:
    name = registry.push("app:1", APP)
    registry.blobs[BIG] += b"more"
    assert "is longer than the" in await why(puller, name)
    assert not store.has(BIG)


async def test_content_shorter_than_announced_is_refused(registry: LoopbackRegistry, puller: Puller) -> None:
    name = registry.push("app:1", APP)
    registry.blobs[BIG], registry.ranges = registry.blobs[BIG][:1000], False
    assert await why(puller, name)


@pytest.mark.parametrize("path", ["/manifests/", "/blobs/"])
async def test_a_pull_from_a_stalled_registry_times_out(registry: LoopbackRegistry, puller: Puller, path: str) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault(path, stall_after=10))
    assert "does not answer" in await why(puller, name)
    registry.faults.clear()
    assert (await puller.pull(parse(name))).id == APP.id


async def test_an_image_larger_than_the_disk_is_not_begun(
    registry: LoopbackRegistry, puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = registry.push("app:1", APP)
    monkeypatch.setattr(pulling, "_SPARE", 1 << 62)
    assert "no space left on the image disk" in await why(puller, name)
    assert registry.paths("/blobs/") == []


async def test_a_layer_that_does_not_unpack_to_its_configuration_is_refused(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore
) -> None:
    broken = _with_other_diff_ids(APP)
    assert "unpacks to content that is not" in await why(puller, registry.push("app:1", broken))
    assert store.images() == [] and files(store, "rootfs") == []


def _with_other_diff_ids(image: Built) -> Built:
    import json

    from podfit.images.content.digests import sha256

    config = json.loads(image.config)
    config["rootfs"]["diff_ids"][0] = "sha256:" + "1" * 64
    raw = json.dumps(config).encode()
    manifest = json.loads(image.manifest)
    manifest["config"] |= {"digest": sha256(raw), "size": len(raw)}
    blobs = {digest: content for digest, content in image.blobs.items() if digest != image.id} | {sha256(raw): raw}
    return Built(json.dumps(manifest).encode(), raw, image.layers, blobs)


PULLER = """
import asyncio, sys
from pathlib import Path
from podfit.images.registries.pull import Puller
from podfit.images.references import parse
from podfit.images.store import ImageStore

async def main():
    store = ImageStore(Path(sys.argv[1]))
    store.prepare()
    await Puller(store).pull(parse(sys.argv[2]))

asyncio.run(main())
"""


async def test_a_process_killed_in_the_middle_of_a_pull_leaves_nothing_that_is_used(
    registry: LoopbackRegistry, puller: Puller, store: ImageStore
) -> None:
    name = registry.push("app:1", APP)
    registry.faults.append(Fault(f"/blobs/{BIG}", stall_after=150_000))
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PULLER, str(store.folder), name)
    async with asyncio.timeout(60):
        while not registry.paths(f"/blobs/{BIG}"):
            await asyncio.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert store.find(name) is None and not store.has(BIG)
    registry.faults.clear()
    store.prepare()
    assert (await puller.pull(parse(name))).id == APP.id
    assert files(store, "work") == [] and files(store, "partial") == []


@needs_root
async def test_an_image_that_fills_the_disk_leaves_nothing_and_is_pulled_once_there_is_room(
    registry: LoopbackRegistry, tmp_path: Path
) -> None:
    """The image is small while compressed: the disk fills up in the middle of unpacking."""
    name = registry.push("big:1", build([{"zeros": bytes(120 << 20)}]))
    with small_disk(tmp_path / "disk", 300 << 20) as disk:
        store = ImageStore(disk / "images", durable=False)
        store.prepare()
        puller = Puller(store)
        fill(disk / "filler", leave=80 << 20)
        assert "no space left on the image disk" in await why(puller, name)
        assert store.images() == [] and files(store, "rootfs") == [] and files(store, "work") == []
        (disk / "filler").unlink()
        assert (await puller.pull(parse(name))).tags == (name,)
        puller.close()
