"""The design of 2021 on an API server alone: the test acts as the node, and writes what a node of that design
writes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.nodes import Cluster

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.apiserver.request import User

NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/old/pods"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as made:
        await made.namespace("old", "2021")
        yield made


def manifest(cpu: str = "1", **container: Any) -> Object:
    one = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}, **container}
    return {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [one]}}


class Actor:
    """A client that resizes, and the node that follows; `revision` is the last one that the node has read."""

    def __init__(self, cluster: Cluster) -> None:
        self.ask, self.revision = Asker(cluster.server), ""

    async def resize(self, cpu: str, subresource: str = "") -> Object:
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        code, pod = await self.ask("PATCH", f"{PODS}/p{subresource}", patch, STRATEGIC)
        assert code == 200, pod
        return dict(pod)

    async def check(self) -> Object:
        """The node reads the pod again."""
        _, pod = await self.ask("GET", f"{PODS}/p")
        self.revision = pod["metadata"]["resourceVersion"]
        return dict(pod)

    async def report(
        self, allocated: str | None = None, actual: str | None = None, resize: str | type | None = str
    ) -> tuple[int, Any]:
        """The node patches the status at the revision that it last read. `resize` None unsets the field."""
        pod = (await self.ask("GET", f"{PODS}/p"))[1]
        one = dict(pod["status"]["containerStatuses"][0], state={"running": {"startedAt": "2021-02-05T00:00:00Z"}})
        if allocated is not None:
            one["resourcesAllocated"] = {"cpu": allocated}
        if actual is not None:
            one["resources"] = {"requests": {"cpu": actual}}
        status: Object = {"phase": "Running", "containerStatuses": [one]}
        if resize is not str:
            status["resize"] = {"cpu": resize}
        patch = {"metadata": {"resourceVersion": self.revision}, "status": status}
        code, answer = await self.ask("PATCH", f"{PODS}/p/status", patch, MERGE, user=NODE)
        if code == 200:
            self.revision = answer["metadata"]["resourceVersion"]
        return code, answer


def state(pod: Object) -> tuple[str, str | None, str | None, str | None]:
    """The columns of the document's timeline: requested, allocated, `resize[cpu]`, actual."""
    one = (pod["status"].get("containerStatuses") or [{}])[0]
    return (
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        one.get("resourcesAllocated", {}).get("cpu"),
        pod["status"].get("resize", {}).get("cpu"),
        one.get("resources", {}).get("requests", {}).get("cpu"),
    )


async def test_the_timeline_of_the_document_runs_from_t0_to_t12(cluster: Cluster) -> None:
    actor = Actor(cluster)
    # T=0, T=1: a new pod is created, and the API server applies defaults.
    code, pod = await actor.ask("POST", PODS, manifest("1"))
    assert (code, state(pod)) == (201, ("1", "1", None, None))
    # T=2: the kubelet runs the pod and updates the API.
    await actor.check()
    assert state((await actor.report(actual="1"))[1]) == ("1", "1", None, "1")
    # T=3: resize #1, to 1.5.
    assert state(await actor.resize("1500m")) == ("1500m", "1", "Proposed", "1")
    # T=4: the kubelet sees resize #1 and accepts it.
    await actor.check()
    assert state((await actor.report(allocated="1500m", resize="InProgress"))[1]) == (
        "1500m",
        "1500m",
        "InProgress",
        "1",
    )
    # T=5: resize #2, to 2.
    assert state(await actor.resize("2")) == ("2", "1500m", "Proposed", "1")
    # T=6: the runtime has applied 1.5; the kubelet does not know of resize #2 yet and gets a conflict.
    code, refusal = await actor.report(actual="1500m", resize=None)
    assert (code, refusal["reason"]) == (409, "Conflict")
    # T=7: the kubelet refreshes, sees resize #2, and decides that it is possible, but not right now.
    assert state(await actor.check()) == ("2", "1500m", "Proposed", "1")
    assert state((await actor.report(actual="1500m", resize="Deferred"))[1]) == ("2", "1500m", "Deferred", "1500m")
    # T=8: resize #3, to 1.6.
    assert state(await actor.resize("1600m")) == ("1600m", "1500m", "Proposed", "1500m")
    # T=9: the kubelet sees resize #3 and accepts it.
    await actor.check()
    accepted = (await actor.report(allocated="1600m", resize="InProgress"))[1]
    assert state(accepted) == ("1600m", "1600m", "InProgress", "1500m")
    # T=10: the runtime has applied 1.6.
    assert state((await actor.report(actual="1600m", resize=None))[1]) == ("1600m", "1600m", None, "1600m")
    # T=11: resize #4, to 100.
    assert state(await actor.resize("100")) == ("100", "1600m", "Proposed", "1600m")
    # T=12: this node does not have 100 CPUs.
    await actor.check()
    assert state((await actor.report(resize="Infeasible"))[1]) == ("100", "1600m", "Infeasible", "1600m")


async def test_a_watcher_sees_proposed_inprogress_and_absent_when_our_agent_is_the_node(cluster: Cluster) -> None:
    node = await cluster.node("n1")
    await cluster.client.create(POD, manifest("100m"), "old")
    await node.quiet()
    seen: list[str | None] = []

    async def watch() -> None:
        async for _, pod in cluster.client.watch(POD, "old"):
            word = state(pod)[2]
            if not seen or seen[-1] != word:
                seen.append(word)

    watching = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(10):
            while not seen:
                await asyncio.sleep(0)
            await Actor(cluster).resize("200m")
            await node.quiet()
            while seen[-1] is not None or len(seen) < 2:
                await asyncio.sleep(0)
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert seen == [None, "Proposed", "InProgress", None]


@pytest.mark.parametrize("subresource", ["", "/resize"])
async def test_resources_can_be_changed_on_the_pod_and_on_resize(cluster: Cluster, subresource: str) -> None:
    actor = Actor(cluster)
    await actor.ask("POST", PODS, manifest("1"))
    await actor.check()
    await actor.report(actual="1")
    assert state(await actor.resize("2", subresource)) == ("2", "1", "Proposed", "1")


async def test_a_put_of_the_pod_resizes_it(cluster: Cluster) -> None:
    actor = Actor(cluster)
    await actor.ask("POST", PODS, manifest("1"))
    await actor.check()
    await actor.report(actual="1")
    pod = await actor.check()
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    code, answer = await actor.ask("PUT", f"{PODS}/p", pod)
    assert (code, state(answer)) == (200, ("2", "1", "Proposed", "1"))


async def test_each_resource_has_its_own_word(cluster: Cluster) -> None:
    actor = Actor(cluster)
    body = manifest()
    body["spec"]["containers"][0]["resources"]["requests"]["memory"] = "64Mi"
    await actor.ask("POST", PODS, body)
    one = {"name": "c", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
    sizes = {
        "resourcesAllocated": {"cpu": "1", "memory": "64Mi"},
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
    }
    await actor.ask("PATCH", f"{PODS}/p/status", {"status": {"containerStatuses": [one | sizes]}}, MERGE, user=NODE)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "128Mi"}}}]}}
    _, pod = await actor.ask("PATCH", f"{PODS}/p", patch, STRATEGIC)
    assert pod["status"]["resize"] == {"cpu": "Proposed", "memory": "Proposed"}
    sizes["resourcesAllocated"] = {"cpu": "1", "memory": "128Mi"}
    reported = {"containerStatuses": [one | sizes], "resize": {"cpu": "Deferred", "memory": "InProgress"}}
    code, pod = await actor.ask("PATCH", f"{PODS}/p/status", {"status": reported}, MERGE, user=NODE)
    assert (code, pod["status"]["resize"]) == (200, {"cpu": "Deferred", "memory": "InProgress"})


async def test_an_unknown_value_is_kept_and_means_deferred_natively(cluster: Cluster) -> None:
    actor = Actor(cluster)
    await actor.ask("POST", PODS, manifest("1"))
    await actor.check()
    await actor.report(actual="1")
    await actor.resize("2")
    await actor.check()
    assert state((await actor.report(resize="SomeDay"))[1])[2] == "SomeDay"
    stored = await cluster.native.get(POD, "old", "p")
    pending = [condition for condition in stored["status"]["conditions"] if condition["type"] == "PodResizePending"]
    assert [(event["status"], event["reason"]) for event in pending] == [("True", "SomeDay")]


async def test_only_a_node_changes_resources_allocated(cluster: Cluster) -> None:
    actor = Actor(cluster)
    await actor.ask("POST", PODS, manifest("1"))
    await actor.check()
    await actor.report(actual="1")
    pod = await actor.check()
    pod["status"]["containerStatuses"][0]["resourcesAllocated"] = {"cpu": "3"}
    code, answer = await actor.ask("PUT", f"{PODS}/p/status", pod)
    assert (code, answer["message"]) == (
        403,
        'pods "p" is forbidden: only the node of the pod may change resourcesAllocated',
    )


async def test_restart_policies_have_the_words_of_the_document(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    listed = [{"resourceName": "cpu", "policy": "Restart"}]
    body = manifest(resizePolicy=listed)
    body["spec"]["containers"][0]["resources"]["requests"]["memory"] = "64Mi"
    code, pod = await ask("POST", PODS, body)
    assert code == 201, pod
    assert pod["spec"]["containers"][0]["resizePolicy"] == [
        *listed,
        {"resourceName": "memory", "policy": "RestartNotRequired"},
    ]


@pytest.mark.parametrize(
    ("word", "restart", "message"),
    [
        ("NoRestart", "Always", 'Unsupported value: "NoRestart": supported values: "Restart", "RestartNotRequired"'),
        (
            "RestartContainer",
            "Always",
            'Unsupported value: "RestartContainer": supported values: "Restart", "RestartNotRequired"',
        ),
        (
            "Restart",
            "Never",
            "Invalid value: \"Restart\": must be 'RestartNotRequired' when `restartPolicy` is 'Never'",
        ),
    ],
)
async def test_a_policy_that_the_design_does_not_allow_is_refused(
    cluster: Cluster, word: str, restart: str, message: str
) -> None:
    body = manifest(resizePolicy=[{"resourceName": "cpu", "policy": word}])
    body["spec"]["restartPolicy"] = restart
    code, answer = await Asker(cluster.server)("POST", PODS, body)
    assert (code, answer["message"]) == (422, f'Pod "p" is invalid: spec.containers[0].resizePolicy: {message}')


async def test_a_status_report_without_the_allocation_does_not_change_it(cluster: Cluster) -> None:
    ask = Asker(cluster.server)
    await ask("POST", PODS, manifest())
    report = {"name": "c", "image": "busybox", "imageID": "", "ready": True, "restartCount": 0}
    code, answer = await ask("PATCH", f"{PODS}/p/status", {"status": {"containerStatuses": [report]}}, MERGE)
    assert code == 200, answer
    assert answer["status"]["containerStatuses"][0]["resourcesAllocated"] == {"cpu": "1"}


async def test_the_right_to_resize_does_not_include_the_right_to_write_pods(cluster: Cluster) -> None:
    ask, autoscaler = Asker(cluster.server), User("autoscaler", ("system:authenticated",))
    rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/old"
    rule = {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]}
    await ask("POST", f"{rights}/roles", {"metadata": {"name": "resizer"}, "rules": [rule]})
    subject = {"kind": "User", "name": autoscaler.name, "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "resizer", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "resizer"}, "subjects": [subject], "roleRef": role}
    code, answer = await ask("POST", f"{rights}/rolebindings", binding)
    assert code == 201, answer
    await ask("POST", PODS, manifest())
    while cluster.server.hub.seen < cluster.server.config.store.revision:
        await asyncio.sleep(0)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    codes = [(await ask("PATCH", f"{PODS}/p{door}", patch, STRATEGIC, user=autoscaler))[0] for door in ("", "/resize")]
    assert codes == [403, 200]


async def test_the_resources_of_init_containers_cannot_be_changed(cluster: Cluster) -> None:
    ask, body = Asker(cluster.server), manifest()
    body["spec"]["initContainers"] = [{"name": "i", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]
    await ask("POST", PODS, body)
    patch = {"spec": {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}}
    code, answer = await ask("PATCH", f"{PODS}/p", patch, STRATEGIC)
    assert (code, answer["reason"]) == (422, "Invalid"), answer
