"""Files made from objects follow them by watch, and tokens are renewed when due."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.furnish.volumes.objects import CONFIG_MAP, SECRET
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.kit.clock import FakeClock


def pod(name: str, *volumes: dict[str, Any], command: str = "sleep 10d") -> dict[str, Any]:
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    container = {"name": "c", "image": "busybox:1", "command": ["sh", "-c", command], "volumeMounts": mounts}
    spec = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": list(volumes),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def settings(colour: str) -> dict[str, Any]:
    meta = {"name": "settings", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"colour": colour}}


MAPPED = {"name": "v", "configMap": {"name": "settings"}}
TOKEN = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as running:
        # The server stamps tokens with real time: the node has to begin there.
        running.clock = FakeClock(time.time())
        yield running


@pytest.fixture
async def node(cluster: Cluster) -> TestNode:
    return await cluster.node(on_disk=True, capacity={"cpu": "2", "memory": "4Gi"})


@pytest.fixture
def asked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, ...]]:
    """The agent's requests to the API: (verb, kind, selector or subresource)."""
    seen: Counter[tuple[str, ...]] = Counter()
    client = cluster.native
    follow, find, create = client.follow, client.find, client.create

    def followed(kind: Any, namespace: str, query: Any, *more: Any) -> Any:
        seen["watch", kind.kind, namespace, query.get("fieldSelector", "")] += 1
        return follow(kind, namespace, query, *more)

    async def found(kind: Any, namespace: str, name: str) -> Any:
        seen["find", kind.kind] += 1
        return await find(kind, namespace, name)

    async def created(
        kind: Any, obj: Any, namespace: str = "", name: str = "", subresource: str = "", **more: str
    ) -> Any:
        seen["create", subresource] += 1
        return await create(kind, obj, namespace, name, subresource, **more)

    monkeypatch.setattr(client, "follow", followed)
    monkeypatch.setattr(client, "find", found)
    monkeypatch.setattr(client, "create", created)
    return seen


async def start(cluster: Cluster, node: TestNode, body: dict[str, Any]) -> Path:
    """The folder of its volume `v`, or of the pod."""
    made = await cluster.client.create(POD, body)
    await node.quiet()
    seen = await cluster.pod(body["metadata"]["name"])
    assert seen["status"]["phase"] == "Running"
    return node.agent.volumes.folder(made["metadata"]["uid"]) / "volumes" / "v"


async def test_a_changed_object_is_in_the_files_without_any_time_passing(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    await cluster.client.create(SECRET, {**secret, "data": {"key": "YQ=="}})
    first = await start(cluster, node, pod("one", MAPPED))
    second = await start(cluster, node, pod("two", {"name": "v", "secret": {"secretName": "s"}}))
    assert ((first / "colour").read_text(), (second / "key").read_text()) == ("blue", "a")
    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "red"}})
    await cluster.client.patch(SECRET, "default", "s", {"data": {"key": "Yg=="}})
    await node.quiet()
    assert ((first / "colour").read_text(), (second / "key").read_text()) == ("red", "b")


async def test_pods_that_mount_the_same_object_share_a_watch_of_only_it(
    cluster: Cluster, node: TestNode, asked: Counter[tuple[str, ...]]
) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    folders = [await start(cluster, node, pod(f"p{number}", MAPPED)) for number in range(3)]
    watches = {key: count for key, count in asked.items() if key[:2] == ("watch", "ConfigMap")}
    assert watches == {("watch", "ConfigMap", "default", "metadata.name=settings"): 1}
    reads = asked["find", "ConfigMap"]
    await node.pass_time(600, 60)
    assert asked["find", "ConfigMap"] == reads
    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "red"}})
    await node.quiet()
    assert [(folder / "colour").read_text() for folder in folders] == ["red"] * 3


async def test_the_watch_ends_with_the_last_pod_deleted_or_done(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    await start(cluster, node, pod("deleted", MAPPED))
    await start(cluster, node, pod("done", MAPPED, command="sleep 5"))
    followed = node.agent.volumes._objects.followed
    await cluster.client.delete(POD, "default", "deleted", {"gracePeriodSeconds": 0})
    await node.quiet()
    assert len(followed) == 1
    await node.pass_time(6)
    assert (await cluster.pod("done"))["status"]["phase"] == "Succeeded"
    assert len(followed) == 0


async def test_pods_without_such_volumes_are_followed_by_nothing(
    cluster: Cluster, node: TestNode, asked: Counter[tuple[str, ...]]
) -> None:
    await start(cluster, node, pod("p", {"name": "v", "emptyDir": {}}))
    await node.pass_time(120, 30)
    assert not [key for key in asked if key[1] in ("ConfigMap", "Secret")]
    assert len(node.agent.volumes._objects.followed) == 0


async def test_a_token_is_renewed_when_four_fifths_of_its_life_are_over(
    cluster: Cluster, node: TestNode, asked: Counter[tuple[str, ...]]
) -> None:
    volume = await start(cluster, node, pod("p", TOKEN))
    assert asked["create", "token"] == 1
    await cluster.client.patch(POD, "default", "p", {"metadata": {"labels": {"new": "label"}}})
    await node.pass_time(2700, 300)
    assert asked["create", "token"] == 1
    await node.pass_time(300, 60)
    assert asked["create", "token"] == 2
    assert (volume / "token").read_text().count(".") == 2


async def test_a_token_that_cannot_be_renewed_stays_while_it_is_good(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = await start(cluster, node, pod("p", TOKEN))
    create = cluster.native.create
    answers: list[bool] = []

    async def refusing(kind: Any, obj: Any, namespace: str = "", name: str = "", sub: str = "", **more: str) -> Any:
        if sub == "token":
            answers.append(len(answers) >= 3)
            if not answers[-1]:
                raise ApiError(500, "InternalError", "not now")
        return await create(kind, obj, namespace, name, sub, **more)

    monkeypatch.setattr(cluster.native, "create", refusing)
    await node.pass_time(2940, 60)
    assert answers and not any(answers)
    assert (volume / "token").read_text().count(".") == 2
    await node.pass_time(240, 60)
    assert answers == [False, False, False, True]
    assert "FailedMount" not in {event["reason"] for event in await cluster.events()}


async def test_downward_api_files_are_updated_at_once(cluster: Cluster, node: TestNode) -> None:
    item = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    volume = await start(cluster, node, pod("p", {"name": "v", "downwardAPI": {"items": [item]}}))
    await cluster.client.patch(POD, "default", "p", {"metadata": {"labels": {"colour": "red"}}})
    await node.quiet()
    assert (volume / "labels").read_text() == 'colour="red"'


async def test_where_watching_is_refused_objects_are_read_every_minute(
    cluster: Cluster, node: TestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    listed = cluster.native.list

    async def refusing(kind: Any, *place: Any, **query: str) -> Any:
        if kind is CONFIG_MAP:
            raise ApiError(403, "Forbidden", "no")
        return await listed(kind, *place, **query)

    monkeypatch.setattr(cluster.native, "list", refusing)
    volume = await start(cluster, node, pod("p", MAPPED))
    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "red"}})
    await node.pass_time(61, 10)
    assert (volume / "colour").read_text() == "red"


async def test_a_mounted_object_that_comes_back_is_mounted_again(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    volume = await start(cluster, node, pod("p", MAPPED))
    await cluster.client.delete(CONFIG_MAP, "default", "settings")
    await node.quiet()
    assert "FailedMount" in {event["reason"] for event in await cluster.events()}
    assert (volume / "colour").read_text() == "blue"
    await cluster.client.create(CONFIG_MAP, settings("green"))
    await node.quiet()
    assert (volume / "colour").read_text() == "green"


async def test_an_agent_that_comes_back_follows_the_objects_of_pods_that_ran_on(
    cluster: Cluster, node: TestNode
) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    volume = await start(cluster, node, pod("p", MAPPED))
    await node.stop()
    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "red"}})
    await node.restart()
    assert (volume / "colour").read_text() == "red"
    await cluster.client.patch(CONFIG_MAP, "default", "settings", {"data": {"colour": "green"}})
    await node.quiet()
    assert (volume / "colour").read_text() == "green"


async def test_files_that_show_objects_are_mounted_read_only_whatever_the_mount_says(
    cluster: Cluster, node: TestNode
) -> None:
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    reported = {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}
    volumes = [
        MAPPED,
        {**TOKEN, "name": "token"},
        {"name": "told", "downwardAPI": reported},
        {"name": "empty", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": "/tmp"}},
    ]
    await start(cluster, node, pod("p", *volumes))
    running = next(iter(node.machine.containers.values()))
    read_only = {
        mount.container_path: mount.read_only for mount in running.config.mounts if "/dev" not in mount.container_path
    }
    of_volumes = {"/v": True, "/token": True, "/told": True, "/empty": False, "/host": False}
    assert read_only == {**of_volumes, "/etc/hosts": False}


async def test_nothing_of_a_pod_is_made_before_its_volumes_are(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(POD, pod("p", MAPPED))
    await node.quiet()
    status = (await cluster.pod("p"))["status"]
    shown = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert (shown["PodReadyToStartContainers"], "podIP" in status, node.machine.pods) == ("False", False, {})
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    reported = {event["reason"]: event["message"] for event in await cluster.events()}
    assert reported == {"FailedMount": 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'}
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}
    with pytest.raises(ApiError, match="QOS"):
        await cluster.resize("p", larger)
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    await node.pass_time(3)
    assert (await cluster.pod("p"))["status"]["phase"] == "Running"


async def test_a_pod_that_waits_for_a_volume_may_be_resized_and_deleted(cluster: Cluster, node: TestNode) -> None:
    body = pod("p", MAPPED)
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    await cluster.client.create(POD, body)
    await node.quiet()
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}})
    await node.quiet()
    status = (await cluster.pod("p"))["status"]
    assert status["allocatedResources"] == {"cpu": "200m"}
    assert "PodResizeInProgress" not in {condition["type"] for condition in status["conditions"]}
    await cluster.client.delete(POD, "default", "p")
    await node.pass_time(3)
    assert await cluster.client.find(POD, "default", "p") is None
    assert not node.agent.volumes.known()


async def test_a_pressure_that_lasts_is_detected_as_soon_as_by_a_kubelet(cluster: Cluster, node: TestNode) -> None:
    body = pod("p")
    body["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    await cluster.client.create(POD, body)
    await node.pass_time(1800, 10)
    await cluster.client.create(CONFIG_MAP, settings("blue"))
    await node.pass_time(16)
    assert (await cluster.pod("p"))["status"]["phase"] == "Running"


async def messages(cluster: Cluster) -> list[str]:
    return sorted(event["message"] for event in await cluster.events() if event["reason"] == "FailedMount")


async def test_every_missing_volume_is_reported(cluster: Cluster, node: TestNode) -> None:
    await cluster.client.create(CONFIG_MAP, settings("red"))
    items = [{"key": "size", "path": "size"}]
    sources = [{"secret": {"name": "gone"}}, {"configMap": {"name": "settings", "items": items}}]
    volumes = [
        {"name": "a", "secret": {"secretName": "gone"}},
        {"name": "b", "configMap": {"name": "settings", "items": items}},
        {"name": "c", "projected": {"sources": sources}},
        MAPPED,
    ]
    await cluster.client.create(POD, pod("p", *volumes))
    await node.quiet()
    failed = "MountVolume.SetUp failed for volume"
    key = "configmap references non-existent config key: size"
    assert await messages(cluster) == [
        f'{failed} "a" : secret "gone" not found',
        f'{failed} "b" : {key}',
        f'{failed} "c" : [secret "gone" not found, {key}]',
    ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("Directory", "a directory"),
        ("DirectoryOrCreate", "a directory"),
        ("Socket", "a socket file"),
        ("CharDevice", "a character device"),
        ("BlockDevice", "a block device"),
    ],
)
async def test_a_host_path_has_to_be_what_its_type_says(
    cluster: Cluster, node: TestNode, tmp_path: Path, kind: str, words: str
) -> None:
    (tmp_path / "file").touch()
    await cluster.client.create(
        POD, pod("p", {"name": "v", "hostPath": {"path": str(tmp_path / "file"), "type": kind}})
    )
    await node.quiet()
    why = f"hostPath type check failed: {tmp_path / 'file'} is not {words}"
    assert await messages(cluster) == [f'MountVolume.SetUp failed for volume "v" : {why}']


async def test_a_host_path_that_is_made_gets_no_folders_around_it(
    cluster: Cluster, node: TestNode, tmp_path: Path
) -> None:
    made = [
        {"name": n, "hostPath": {"path": str(tmp_path / n), "type": t}} for n, t in (("d", "Directory"), ("f", "File"))
    ]
    for entry in made:
        entry["hostPath"]["type"] += "OrCreate"
    await start(cluster, node, pod("p", *made))
    assert (tmp_path / "d").is_dir() and (tmp_path / "f").is_file()
    deep = {"name": "v", "hostPath": {"path": str(tmp_path / "no" / "f"), "type": "FileOrCreate"}}
    await cluster.client.create(POD, pod("q", deep))
    await node.quiet()
    why = f"open {tmp_path / 'no' / 'f'}: no such file or directory"
    assert await messages(cluster) == [f'MountVolume.SetUp failed for volume "v" : {why}']


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("$(NONE)/$(ABSENT)", "missing value for ABSENT, NONE"),
        ("$(EMPTY)", "missing value for EMPTY"),
        ("$(ROOT)", "error SubPath `/x` must not be an absolute path"),
        ("a/$(UP)", "unable to provision SubPath `a/../x`: must not contain '..'"),
    ],
)
async def test_a_sub_path_that_cannot_be_is_the_reason_to_wait(
    cluster: Cluster, node: TestNode, expression: str, why: str
) -> None:
    body = pod("p", {"name": "v", "emptyDir": {}})
    container = body["spec"]["containers"][0]
    container["env"] = [{"name": "EMPTY"}, {"name": "ROOT", "value": "/x"}, {"name": "UP", "value": "../x"}]
    container["volumeMounts"][0]["subPathExpr"] = expression
    await cluster.client.create(POD, body)
    await node.quiet()
    waiting = (await cluster.pod("p"))["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": why}
