"""The autoscaler in a whole cluster: pods whose usage rises and falls are resized, and not changed while changes are
disabled.

It is the real autoscaler, with intervals of days reduced to seconds. The test sets the load of a pod: on real cgroups a
program follows a file, on the fake runtime the load is set directly.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, POD, VPA, kind_named
from podfit.meter.meter import MeterConfig
from tests.support.cluster.expect import all_become, becomes

from .seedpods import Lab, conditions, is_ready, is_settled, milli, needs_cgroups, size, sizes, statuses

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("vpa")]

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
DEPLOYMENT, CONFIG_MAP = kind_named("Deployment"), kind_named("ConfigMap")
PATIENCE_S = 90.0
NUMBERS = itertools.count(1)
MIB = 1 << 20
SMALL = sizes("50m/40Mi", "400m/160Mi")
IDLE, BUSY = (0.01, 20), (0.3, 100)
"""The cores and MiB that a pod uses."""
ENOUGH = 100
"""Millicores: on a loaded machine the busy pod does not get all the CPU it could use."""

FLAGS = {
    "recommender": [
        "--recommender-interval=1s",
        "--pod-recommendation-min-memory-mb=16",
        "--confidence-interval-cpu=3s",
        "--confidence-interval-memory=3s",
        "--memory-aggregation-interval=3s",
        "--memory-histogram-decay-half-life=2s",
        "--cpu-histogram-decay-half-life=2s",
    ],
    "updater": [
        "--updater-interval=1s",
        "--in-recommendation-bounds-eviction-lifetime-threshold=1s",
        "--scale-down-delay=2s",
        "--undo-settle=3s",
    ],
}

PROGRAM = """
import sys, time
held = []
while True:
    cores, mib = map(float, open("/load/now").read().split())
    del held[int(mib):]
    while len(held) < mib:
        held.append(bytearray(b"x") * (1 << 20))
    end = time.process_time() + cores / 10
    begun = time.monotonic()
    while time.process_time() < end:
        pass
    time.sleep(max(0.0, begun + 0.1 - time.monotonic()))
"""
"""Works for a part of each tenth of a second; the file is replaced atomically, so it is never read half written."""


class Scaled(Lab):
    """A cluster whose autoscaler has short intervals, and pods whose load can be set."""

    def __init__(self, folder: Path, runtime: str) -> None:
        super().__init__(folder / "up", runtime=runtime, vpa=True, vpa_flags=FLAGS)
        self._loads = folder / "loads"

    async def __aenter__(self) -> Scaled:
        await super().__aenter__()
        assert self.up.meter is not None
        self.up.meter.config = MeterConfig(interval_s=1.0, second_look_s=0.5)
        # It sleeps for as long as its first settings required.
        self.up.meter._wake.set()
        return self

    # --- load
    def _write(self, app: str, load: tuple[float, float]) -> None:
        folder = self._loads / app
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "next").write_text(f"{load[0]} {load[1]}")
        os.replace(folder / "next", folder / "now")

    def load(self, pod: Object, load: tuple[float, float]) -> None:
        """Sets the load of the pod to so many cores and MiB."""
        runtime = self.agent.runtime
        if isinstance(runtime, FakeRuntime):
            runtime.set_load(pod["metadata"]["uid"], "c", load[0], load[1] * MIB)
        else:
            self._write(pod["metadata"]["labels"]["app"], load)

    # --- objects
    async def deploy(
        self,
        app: str,
        resources: Object,
        load: tuple[float, float],
        vpa: Object | None = None,
        notes: Object | None = None,
    ) -> None:
        """A Deployment of one pod (with these annotations) under that load, and its autoscaler."""
        self._write(app, load)
        container = {
            "name": "c",
            "image": "host",
            "command": ["python3", "-c", PROGRAM],
            "resources": resources,
            "volumeMounts": [{"name": "load", "mountPath": "/load"}],
        }
        pod = {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [{"name": "load", "hostPath": {"path": str(self._loads / app)}}],
        }
        load_notes = {"podfit.dev/fake-cpu": f"constant:{load[0]}", "podfit.dev/fake-memory": f"constant:{load[1]}Mi"}
        template = {"metadata": {"labels": {"app": app}, "annotations": {**load_notes, **(notes or {})}}, "spec": pod}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": template}
        if vpa is not None:
            await self.client.create(VPA, vpa)
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"}}
        await self.client.create(DEPLOYMENT, {**body, "spec": spec})

    async def pod_of(self, app: str, true: Callable[[Object], bool] = is_ready) -> Object:
        """The one pod of a Deployment, once the condition holds for it."""

        def so(pods: list[Object]) -> bool:
            return len(pods) == 1 and true(pods[0])

        return (await all_become(self.client, POD, "default", so, PATIENCE_S, labelSelector=f"app={app}"))[0]

    async def recommended(self, app: str, true: Callable[[Object], bool]) -> Object:
        """The target, once the condition holds for it."""

        def so(vpa: Object | None) -> bool:
            found = target(vpa)
            return bool(found) and true(found)

        return target(await becomes(self.client, VPA, "default", app, so, PATIENCE_S))

    async def recommend(self, app: str, cpu: str, memory: str) -> None:
        """Writes a recommendation by hand, for an autoscaler that no recommender serves."""
        amounts = {"cpu": cpu, "memory": memory}
        entry = {"containerName": "c", **dict.fromkeys(("target", "lowerBound", "upperBound"), amounts)}
        provided = {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"recommendation": {"containerRecommendations": [entry]}, "conditions": [provided]}
        await self.client.patch(VPA, "default", app, {"status": status}, "status")

    async def passes(self, more: int) -> None:
        """Waits until the updater has made so many further passes."""
        assert self.up.autoscaler is not None
        updater = self.up.autoscaler.updater
        # The pass in progress may have read the objects already: it does not count.
        end = updater.passes + 1 + more
        async with asyncio.timeout(PATIENCE_S):
            while updater.passes < end:
                await asyncio.sleep(0.05)

    # --- asking as a user does
    async def command(self, *words: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.up.kubeconfig), "HOME": str(self.up.options.data_dir)}
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=environment)
        async with asyncio.timeout(PATIENCE_S):
            out, wrong = await running.communicate()
        assert running.returncode == 0, f"{' '.join(words)}: {out.decode()}{wrong.decode()}"
        return out.decode()

    async def kubectl(self, *words: str) -> list[list[str]]:
        """The rows of a table, as lists of words."""
        return [line.split() for line in (await self.command(str(KUBECTL), *words)).splitlines()]

    async def ask(self, body: Object) -> Object:
        assert self.up.autoscaler is not None
        url = f"http://127.0.0.1:{self.up.autoscaler.recommender.http.port}/recommendationQuery"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
            assert answer.status == 200
            found: Object = await answer.json()
            return found


def autoscaler(app: str) -> Object:
    policy = {
        "containerName": "*",
        "minAllowed": {"cpu": "50m", "memory": "40Mi"},
        "maxAllowed": {"cpu": "1", "memory": "512Mi"},
        "controlledValues": "RequestsAndLimits",
    }
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
            "resourcePolicy": {"containerPolicies": [policy]},
        },
    }


def by_hand(app: str) -> Object:
    """An autoscaler whose recommendations the test writes."""
    made = autoscaler(app)
    made["spec"]["recommenders"] = [{"name": "by-hand"}]
    del made["spec"]["resourcePolicy"]
    return made


def target(vpa: Object | None) -> Object:
    found = (((vpa or {}).get("status") or {}).get("recommendation") or {}).get("containerRecommendations") or []
    return found[0]["target"] if found else {}


def has(cpu: Callable[[int], bool], memory: Callable[[int], bool]) -> Callable[[Object], bool]:
    """Whether the pod runs with such requests, in its spec and according to the node."""

    def so(pod: Object) -> bool:
        if not is_settled(pod):
            return False
        places = pod["spec"]["containers"][0]["resources"], statuses(pod)["c"]["resources"]
        return all(
            cpu(milli(place["requests"]["cpu"])) and memory(size(place["requests"]["memory"])) for place in places
        )

    return so


def large(wanted: Object) -> bool:
    """Whether a recommendation fits the busy load and not the idle one."""
    return milli(wanted["cpu"]) >= ENOUGH and size(wanted["memory"]) >= BUSY[1] * MIB


is_large = has(lambda cpu: cpu >= ENOUGH, lambda memory: memory >= BUSY[1] * MIB)
is_small = has(lambda cpu: cpu <= 80, lambda memory: memory <= 64 * MIB)


def assert_untouched(before: Object, after: Object) -> None:
    """Checks that it is the same pod and the same container, which never terminated."""
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    then, now = statuses(before)["c"], statuses(after)["c"]
    assert now["containerID"] == then["containerID"] and now["restartCount"] == 0


@pytest_asyncio.fixture(
    loop_scope="module",
    scope="module",
    params=["fake", pytest.param("process", marks=[pytest.mark.root, needs_cgroups])],
)
async def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scaled]:
    async with Scaled(tmp_path_factory.mktemp("vpa"), request.param) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def app(lab: Scaled) -> AsyncIterator[str]:
    """A name for a test's objects, which are deleted after it. Each name is new, because history is kept by name."""
    name = f"app-{next(NUMBERS)}"
    yield name
    for kind in (VPA, DEPLOYMENT):
        if await lab.client.find(kind, "default", name) is not None:
            await lab.client.delete(kind, "default", name)
    await all_become(lab.client, POD, "default", lambda pods: not pods, labelSelector=f"app={name}")


# --- claims ---------------------------------------------------------------------------------------------------------


@needs_kubectl
async def test_a_deployment_follows_its_load_up_and_down_in_place(lab: Scaled, app: str) -> None:
    await lab.deploy(app, SMALL, IDLE, autoscaler(app))
    first = await lab.pod_of(app)

    lab.load(first, BUSY)
    grown = await lab.pod_of(app, is_large)
    assert_untouched(first, grown)
    await assert_seen_with_kubectl(lab, app, grown)
    assert_kernel_has(lab, grown, lambda memory: memory >= 4 * BUSY[1] * MIB)
    await assert_explained(lab, app, grown)

    lab.load(first, IDLE)
    shrunk = await lab.pod_of(app, is_small)
    assert_untouched(first, shrunk)
    assert_kernel_has(lab, shrunk, lambda memory: memory <= 4 * 64 * MIB)


async def assert_seen_with_kubectl(lab: Scaled, app: str, pod: Object) -> None:
    heads, row = await lab.kubectl("get", "vpa", app)
    shown = dict(zip(heads, row, strict=True))
    assert (shown["NAME"], shown["MODE"], shown["PROVIDED"]) == (app, "InPlaceOrRecreate", "True")
    assert large({"cpu": shown["CPU"], "memory": shown["MEM"]}), shown
    heads, row = await lab.kubectl("top", "pods", "-l", f"app={app}")
    assert heads == ["NAME", "CPU(cores)", "MEMORY(bytes)"] and row[0] == pod["metadata"]["name"]
    assert milli(row[1]) > milli(SMALL["requests"]["cpu"]) and size(row[2]) >= 0.9 * BUSY[1] * MIB, row


def assert_kernel_has(lab: Scaled, pod: Object, memory: Callable[[int], bool]) -> None:
    if not isinstance(lab.agent.runtime, FakeRuntime):
        assert memory(lab.host(pod, "c").memory), lab.host(pod, "c")


async def assert_explained(lab: Scaled, app: str, pod: Object) -> None:
    """Checks the recommendation for the running pod, for a new pod, and in the output for users."""
    future = {"metadata": {"namespace": "default", "generateName": f"{app}-", "labels": {"app": app}}}
    for asked in (pod, future):
        answer = await lab.ask({"spec": {"pod": asked}})
        assert answer["status"].get("verticalPodAutoscaler") == app, answer["status"]
        [sized] = answer["status"]["recommendation"]["containerRecommendations"]
        assert sized["containerName"] == "c" and large(sized["target"])
    reported = await lab.command(sys.executable, "-m", "podfit.cli.main", "explain", "vpa", app)
    assert f"vpa/{app} scales deployment/{app} (1 pod), mode InPlaceOrRecreate" in reported
    assert "RecommendationProvided=True" in reported and "Container c: " in reported
    assert "cpu target" in reported and "memory target" in reported


async def test_a_pod_that_runs_out_of_memory_is_made_larger(lab: Scaled, app: str) -> None:
    await lab.deploy(app, sizes("50m/48Mi", "400m/48Mi"), (0.01, 90), autoscaler(app))

    def cured(pod: Object) -> bool:
        return is_settled(pod) and size(pod["spec"]["containers"][0]["resources"]["limits"]["memory"]) > 90 * MIB

    seen = await lab.pod_of(app, cured)
    shown = statuses(seen)["c"]
    assert shown["restartCount"] >= 1 and shown["lastState"]["terminated"]["reason"] == "OOMKilled"
    # Usage never exceeded 48Mi, so the recommendation must come from the kill.
    assert size(shown["resources"]["requests"]["memory"]) > 90 * MIB
    assert_kernel_has(lab, seen, lambda memory: memory > 90 * MIB)


async def test_the_panic_button_stops_changes_until_it_is_released(lab: Scaled, app: str) -> None:
    await lab.deploy(app, SMALL, IDLE, autoscaler(app))
    pod = await lab.pod_of(app, is_small)
    panic: dict[str, Any] = {"metadata": {"name": "podfit-panic", "namespace": "kube-system"}}
    await lab.client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **panic, "data": {"reason": "test"}})
    try:
        await within_a_second(lab)
        reported = f"involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={app}"
        await all_become(lab.client, EVENT, "default", any_panic, PATIENCE_S, fieldSelector=reported)
        frozen = await lab.pod_of(app)

        lab.load(pod, BUSY)
        await lab.recommended(app, large)
        await lab.passes(3)
        after = await lab.pod_of(app)
        assert after["spec"] == frozen["spec"] and after["metadata"]["generation"] == frozen["metadata"]["generation"]
        assert_untouched(pod, after)
    finally:
        await lab.client.delete(CONFIG_MAP, "kube-system", "podfit-panic")
    # Only the panic button held the change back.
    assert_untouched(pod, await lab.pod_of(app, is_large))


async def within_a_second(lab: Scaled) -> None:
    """The panic button is observed by then: no change follows, because the updater reads it before each one."""
    assert lab.up.autoscaler is not None
    async with asyncio.timeout(1.0):
        while lab.up.autoscaler.updater.stops.panicking() is None:
            await asyncio.sleep(0.01)


async def test_a_resize_that_ends_in_throttling_is_taken_back(lab: Scaled, app: str) -> None:
    await lab.deploy(app, sizes("200m/160Mi", "400m/320Mi"), (0.3, 20), by_hand(app))
    first = await lab.pod_of(app)
    await lab.recommend(app, "100m", "160Mi")
    lowered = await lab.pod_of(app, has(lambda cpu: cpu == 100, lambda _: True))
    undone = await lab.pod_of(app, has(lambda cpu: cpu == 200, lambda _: True))
    assert_untouched(first, lowered)
    assert_untouched(first, undone)
    assert statuses(undone)["c"]["resources"]["limits"]["cpu"] == "400m"
    await lab.passes(3)
    after = await lab.pod_of(app)
    assert after["metadata"]["generation"] == undone["metadata"]["generation"], "it was lowered again"

    def reported(events: list[Object]) -> bool:
        return any(
            event.get("reason") == "ResizeUndone" and "uses up its CPU limit" in event["message"] for event in events
        )

    about = f"involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={app}"
    await all_become(lab.client, EVENT, "default", reported, PATIENCE_S, fieldSelector=about)


async def test_a_pod_that_requires_an_autoscaler_starts_once_there_is_one(lab: Scaled, app: str) -> None:
    await lab.deploy(app, SMALL, IDLE, notes={"podfit.dev/requires-vpa": "true"})

    def held(pod: Object) -> bool:
        gates = pod["spec"].get("schedulingGates") or []
        why = conditions(pod).get("PodScheduled", {}).get("reason")
        return [gate["name"] for gate in gates] == ["podfit.dev/requires-vpa"] and why == "SchedulingGated"

    waiting = await lab.pod_of(app, held)
    await lab.passes(2)
    assert held(await lab.pod_of(app, lambda _: True)), "nothing selects it yet"
    await lab.client.create(VPA, by_hand(app))
    started = await lab.pod_of(app)
    assert started["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert statuses(started)["c"]["resources"] == SMALL
    assert_kernel_has(lab, started, lambda memory: memory == 160 * MIB)


def any_panic(events: list[Object]) -> bool:
    return any("PanicButton" in (event.get("message") or "") for event in events)
