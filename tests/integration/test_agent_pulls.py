"""How the agent gets images with any runtime: policies, credentials, back-off, and access to images that are
present.
"""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.agentpods import container, create, pod
from tests.support.cluster.expect import becomes
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.images.pull_records import PullRecords
from podfit.agent.runtimes.values import ImageMissing
from podfit.api.registry.kinds import POD, kind_named
from podfit.client.rest import STRATEGIC
from podfit.images.registries.credentials import Credentials

SECRET = kind_named("Secret")


@pytest.fixture
async def node(cluster: Cluster) -> TestNode:
    return await cluster.node()


class Registry:
    """Provides images only for one of its passwords."""

    def __init__(self, node: TestNode, *passwords: str) -> None:
        self.shown: list[str] = []
        self._node, self._passwords = node, passwords
        node.machine.hooks.append(self._asked)

    def _asked(self, when: str, operation: str, image: str, credentials: Credentials | None) -> None:
        if operation != "pull_image" or when != "before":
            return
        self.shown.append(credentials.password if credentials is not None else "")
        if self.shown[-1] not in self._passwords:
            raise ImageMissing(f"denied to {self.shown[-1] or 'nobody'}")
        self._node.machine.missing_images.discard(image)


async def secret(cluster: Cluster, name: str, password: str) -> dict[str, str]:
    auths = {"auths": {"ghcr.io": {"username": "me", "password": password}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    meta = {"name": name, "namespace": "default"}
    kind = "kubernetes.io/dockerconfigjson"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": data}
    await cluster.client.create(SECRET, body)
    return {"name": name}


def waiting(seen: dict[str, Any], at: int = 0) -> tuple[str, str]:
    found = seen["status"]["containerStatuses"][at]["state"].get("waiting") or {}
    return found.get("reason", ""), found.get("message", "")


async def said(cluster: Cluster, name: str = "p") -> list[tuple[str, str]]:
    found = await cluster.events()
    return [(event["reason"], event["message"]) for event in found if event["involvedObject"]["name"] == name]


async def runs(cluster: Cluster, name: str = "p") -> bool:
    status = (await cluster.pod(name))["status"]
    return all("running" in entry["state"] for entry in status.get("containerStatuses") or [{"state": {}}])


async def test_the_policy_always_pulls_an_image_that_exists(cluster: Cluster, node: TestNode) -> None:
    await create(cluster, node, pod("p", container(image="app:1", imagePullPolicy="Always")))
    await node.agent.idle()
    found = dict(await said(cluster))
    assert found["Pulling"] == 'Pulling image "app:1"'
    assert found["Pulled"].startswith('Successfully pulled image "app:1" in 0s (0s including waiting). Image size: ')


async def test_the_policy_never_waits_for_the_image_to_come(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("app:1")
    seen = await create(cluster, node, pod("p", container(image="app:1", imagePullPolicy="Never")))
    why = 'Container image "app:1" is not present with pull policy of Never'
    assert waiting(seen) == ("ErrImageNeverPull", why)
    assert ("ErrImageNeverPull", why) in await said(cluster)
    node.machine.missing_images.clear()
    await node.until(lambda: runs(cluster))


async def test_an_image_that_comes_during_the_back_off_is_used_at_once(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("app:1")
    await create(cluster, node, pod("p", container(image="app:1")))
    await node.pass_time(200)  # by now the pauses are minutes long
    node.machine.missing_images.clear()
    await node.pass_time(15)
    assert await runs(cluster)


async def test_a_container_waits_for_the_images_that_it_mounts(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("data:1")
    volume = {"name": "v", "image": {"reference": "data:1", "pullPolicy": "IfNotPresent"}}
    mount = {"name": "v", "mountPath": "/data", "subPath": "etc"}
    body = pod("p", container("a", volumeMounts=[mount]), container("b"), volumes=[volume])
    seen = await create(cluster, node, body)
    assert waiting(seen)[0] == "ErrImagePull" and "running" in seen["status"]["containerStatuses"][1]["state"]
    node.machine.missing_images.clear()
    await node.pass_time(15)
    assert await runs(cluster)
    image = await node.runtime.image_status("data:1")
    (made,) = [listed.config for listed in node.machine.containers.values() if listed.config.name == "a"]
    (found,) = [entry for entry in made.mounts if entry.container_path == "/data"]
    assert image is not None
    assert (found.image_id, found.sub_path, found.read_only) == (image.id, "etc", True)


async def test_the_secrets_of_a_pod_are_tried_one_after_the_other(cluster: Cluster, node: TestNode) -> None:
    registry, image = Registry(node, "right"), "ghcr.io/team/app:1"
    node.machine.missing_images.add(image)
    refs = [await secret(cluster, "a", "wrong"), await secret(cluster, "b", "right")]
    await create(cluster, node, pod("p", container(image=image), imagePullSecrets=refs))
    await node.until(lambda: runs(cluster))
    assert registry.shown == ["wrong", "right"]


async def test_secrets_that_do_not_help_are_all_in_the_reason(cluster: Cluster, node: TestNode) -> None:
    Registry(node, "right")
    image = "ghcr.io/team/app:1"
    node.machine.missing_images.add(image)
    refs = [await secret(cluster, "a", "one"), await secret(cluster, "b", "two"), {"name": "absent"}]
    seen = await create(cluster, node, pod("p", container(image=image), imagePullSecrets=refs))
    assert waiting(seen) == ("ErrImagePull", "[denied to one, denied to two]")
    await node.agent.idle()
    lost = "Unable to retrieve some image pull secrets (absent); attempting to pull the image may not succeed."
    assert ("FailedToRetrieveImagePullSecret", lost) in await said(cluster)


async def test_a_private_image_is_not_for_pods_without_its_secret(cluster: Cluster, node: TestNode) -> None:
    registry, image = Registry(node, "right"), "ghcr.io/team/app:1"
    node.machine.missing_images.add(image)
    refs = [await secret(cluster, "a", "right")]
    await create(cluster, node, pod("p", container(image=image), imagePullSecrets=refs))
    await node.until(lambda: runs(cluster))
    await create(cluster, node, pod("q", container(image=image), imagePullSecrets=refs))
    await node.until(lambda: runs(cluster, "q"))
    assert registry.shown == ["right"], "who has the same credentials need not pull again"
    seen = await create(cluster, node, pod("stranger", container(image=image)))
    assert waiting(seen) == ("ErrImagePull", "denied to nobody")
    never = container(image=image, imagePullPolicy="Never")
    seen = await create(cluster, node, pod("never", never))
    assert waiting(seen)[0] == "ErrImageNeverPull"


async def test_another_image_in_the_spec_ends_the_back_off(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("absent:1")
    await create(cluster, node, pod("p", container(image="absent:1")))
    await node.pass_time(3)
    patch = {"spec": {"containers": [{"name": "c", "image": "present:1"}]}}
    await cluster.client.patch(POD, "default", "p", patch, content_type=STRATEGIC)
    await node.pass_time(15)
    assert await runs(cluster)


async def test_two_containers_with_one_image_share_its_back_off(cluster: Cluster, node: TestNode) -> None:
    node.machine.missing_images.add("absent:1")
    both = container("c", image="absent:1"), container("d", image="absent:1")
    await create(cluster, node, pod("p", *both))
    await node.pass_time(3)
    seen = await cluster.pod("p")
    assert {waiting(seen, at)[0] for at in (0, 1)} == {"ImagePullBackOff"}
    await node.agent.idle()
    assert [reason for reason, _ in await said(cluster)].count("Pulling") == 1


async def test_a_registry_that_stalls_holds_up_only_its_own_images(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull, under_way = node.runtime.pull_image, []

    async def stalling(image: str, *more: Any) -> str:
        if image.startswith("stalls.example/"):
            under_way.append(image)
            await asyncio.Event().wait()
        return await pull(image, *more)

    monkeypatch.setattr(node.runtime, "pull_image", stalling)
    for number in range(6):
        image = f"stalls.example/app:{number}"
        await create(cluster, node, pod(f"s{number}", container(image=image, imagePullPolicy="Always")))
    await create(cluster, node, pod("p", container(image="works.example/app:1", imagePullPolicy="Always")))
    assert await runs(cluster) and len(under_way) == 4


def is_running(pod: Any) -> bool:
    return bool(pod and pod["status"].get("phase") == "Running")


@pytest.mark.parametrize("most", [1, 3])
async def test_a_limit_for_the_node_counts_pulls_from_all_registries(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    node = await cluster.node(most_pulls=most)
    pull, under_way, counts, go_on = node.runtime.pull_image, set[str](), list[int](), asyncio.Event()

    async def slowly(image: str, *more: Any) -> str:
        under_way.add(image)
        counts.append(len(under_way))
        if len(under_way) == most:
            go_on.set()
        await go_on.wait()
        found = await pull(image, *more)
        under_way.discard(image)
        return found

    monkeypatch.setattr(node.runtime, "pull_image", slowly)
    for number in range(5):
        image = f"r{number}.example/app:1"
        await create(cluster, node, pod(f"p{number}", container(image=image, imagePullPolicy="Always")))
    for number in range(5):
        await becomes(cluster.client, POD, "default", f"p{number}", is_running, 60)
    assert max(counts) == most and len(counts) == 5


def test_pull_records_survive_a_restart_and_are_removed_with_the_image(tmp_path: Path) -> None:
    file, mine, other = tmp_path / "pulls.json", Credentials("me", "a"), Credentials("me", "b")
    PullRecords(file).pulled("sha256:1", mine)
    again = PullRecords(file)
    assert again.may_use("sha256:1", [mine]) and not again.may_use("sha256:1", [other])
    assert again.may_use("sha256:2", []), "an image that was loaded is for all"
    assert b"me" not in file.read_bytes()
    PullRecords(file).pulled("sha256:1", None)
    assert again.may_use("sha256:1", []), "a pull without credentials opens it to all"
    PullRecords(file).pulled("sha256:3", mine)
    again.keep({"sha256:1"})
    assert again.is_open("sha256:3")
