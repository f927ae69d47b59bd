"""The autoscaler on running clusters, with simulated and real containers: free capacity, budgets, freezes, owners,
conflicts, failing webhooks and a history from Prometheus.

If a test is about the effect of a recommendation, it writes the recommendation itself.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import EVENT, POD, VPA, kind_named
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook
from tests.support.cluster.expect import all_become, becomes
from tests.support.servers.prometheus import Prometheus, backfill, installed

from .seedpods import WAITS, Lab, is_ready, is_settled, needs_cgroups, statuses

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("vpa-points")]

DEPLOYMENT, CONFIG_MAP, QUOTA = kind_named("Deployment"), kind_named("ConfigMap"), kind_named("ResourceQuota")
BUDGET, MUTATING = kind_named("PodDisruptionBudget"), kind_named("MutatingWebhookConfiguration")
CRON_JOB, JOB = kind_named("CronJob"), kind_named("Job")
RUNTIMES = ["fake", pytest.param("process", marks=[pytest.mark.root, needs_cgroups])]
CAPACITY = {"cpu": "2", "memory": "4Gi"}
FLAGS = {
    "recommender": ["--recommender-interval=500ms"],
    "updater": ["--updater-interval=300ms", "--scale-down-delay=0", "--eviction-tolerance=1.0"],
}
PATIENCE_S = 60.0
NUMBERS = itertools.count(1)


class Points(Lab):
    """A cluster of one node with two CPUs, and a namespace for each test."""

    def __init__(self, folder: Path, runtime: str, **flags: list[str]) -> None:
        together = {**FLAGS, **{name: [*FLAGS.get(name, []), *more] for name, more in flags.items()}}
        super().__init__(
            folder, runtime=runtime, node_capacity=CAPACITY, vpa=True, vpa_flags=together, meter_resolution_s=1.0
        )

    async def __aenter__(self) -> Points:
        await super().__aenter__()
        return self

    async def deploy(self, ns: str, name: str, replicas: int = 2, container: str = "c", **more: Any) -> None:
        own = {"name": container, "image": "host", "command": ["sh", "-c", WAITS], **more}
        resources = {"requests": {"cpu": "100m", "memory": "32Mi"}}
        pod = {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{**own, "resources": resources}],
        }
        template = {"metadata": {"labels": {"app": name}}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        meta = {"name": name, "namespace": ns}
        await self.client.create(
            DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
        )

    async def scale(self, ns: str, name: str, mode: str, target: str = "", **spec: Any) -> None:
        """An autoscaler of the Deployment with its own name, or of `target`, a kind and a name."""
        kind, _, of = (target or f"Deployment/{name}").partition("/")
        body = {
            "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": of},
            "updatePolicy": {"updateMode": mode},
            "recommenders": [{"name": "by-hand"}],
            **spec,
        }
        meta = {"name": name, "namespace": ns}
        await self.client.create(VPA, {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": meta, "spec": body})

    async def recommend(self, ns: str, name: str, cpu: str, lower: str = "") -> None:
        """Writes a recommendation as a recommender would; the cluster's recommender ignores this autoscaler."""
        entry = {
            "containerName": "c",
            "target": {"cpu": cpu, "memory": "32Mi"},
            "lowerBound": {"cpu": lower or cpu, "memory": "32Mi"},
            "upperBound": {"cpu": "100", "memory": "1Gi"},
        }
        provided = {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"recommendation": {"containerRecommendations": [entry]}, "conditions": [provided]}
        await self.client.patch(VPA, ns, name, {"status": status}, "status")

    async def pods(self, ns: str, true: Callable[[list[Object]], bool], **query: str) -> list[Object]:
        return await all_become(self.client, POD, ns, true, PATIENCE_S, **query)

    async def passes(self, more: int) -> None:
        """Waits until the updater has made so many passes that began after this call."""
        assert self.up.autoscaler is not None
        updater = self.up.autoscaler.updater
        end = updater.passes + 1 + more
        async with asyncio.timeout(PATIENCE_S):
            while updater.passes < end:
                await asyncio.sleep(0.02)

    def verdicts(self, ns: str, name: str) -> dict[str, Any]:
        """The reasons why the updater's last pass left pods unchanged, by pod."""
        assert self.up.autoscaler is not None
        story = self.up.autoscaler.updater.skip_reasons.of((ns, name)) or {"pods": {}}
        return {pod: event["reason"] for pod, event in story["pods"].items()}


def ready(count: int) -> Callable[[list[Object]], bool]:
    return lambda pods: len(pods) == count and all(is_ready(pod) for pod in pods) and not any(map(leaving, pods))


def leaving(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def cpu(pod: Object) -> int:
    return Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli


def names(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=RUNTIMES)
async def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Points]:
    async with Points(tmp_path_factory.mktemp("points"), request.param) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def ns(lab: Points) -> AsyncIterator[str]:
    """A namespace whose pods are deleted after the test, because all tests share the node."""
    name = await lab.namespace(f"ns-{next(NUMBERS)}")
    yield name
    # Jobs leave their pods behind.
    for kind in (VPA, DEPLOYMENT, CRON_JOB, JOB, POD):
        for item in (await lab.client.list(kind, name))["items"]:
            await lab.client.delete(kind, name, item["metadata"]["name"])
    await lab.pods(name, lambda pods: not pods)


# --- room -----------------------------------------------------------------------------------------------------------


async def test_of_two_autoscalers_none_leaves_a_pod_without_a_node(lab: Points, ns: str) -> None:
    """Two CPUs hold one pod of 920m beside pods of 100m: never are two pods without a node at a time."""
    for name in ("a", "b"):
        await lab.deploy(ns, name)
        await lab.scale(ns, name, "Auto")
    await lab.pods(ns, ready(4))
    for name in ("a", "b"):
        await lab.recommend(ns, name, "920m")
    await lab.pods(ns, lambda pods: any(cpu(pod) == 920 for pod in pods))
    await lab.passes(6)
    found = await lab.pods(ns, ready(4))
    assert sorted(pod["metadata"]["labels"]["app"] for pod in found) == ["a", "a", "b", "b"]
    reasons = {**lab.verdicts(ns, "a"), **lab.verdicts(ns, "b")}
    small = {pod["metadata"]["name"] for pod in found if cpu(pod) == 100}
    assert small and {reasons[name] for name in small} == {"NoNodeFits"}


async def test_a_successor_that_must_be_smaller_is_squeezed_towards_its_lower_bound(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "a")
    await lab.scale(ns, "a", "Recreate")
    await lab.pods(ns, ready(2))
    await lab.recommend(ns, "a", "1500m", "300m")
    found = await lab.pods(ns, lambda pods: ready(2)(pods) and all(cpu(pod) >= 300 for pod in pods))
    assert sum(map(cpu, found)) <= 2000


async def test_a_quota_leaves_no_deployment_short_of_a_pod(lab: Points, ns: str) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    await lab.client.create(QUOTA, {**body, "spec": {"hard": {"requests.cpu": "700m"}}}, ns)
    await becomes(lab.client, QUOTA, ns, "q", lambda quota: bool(((quota or {}).get("status") or {}).get("used")))
    await lab.deploy(ns, "a")
    await lab.scale(ns, "a", "Recreate")
    await lab.pods(ns, ready(2))
    await lab.recommend(ns, "a", "500m")
    await lab.pods(ns, lambda pods: any(cpu(pod) == 500 for pod in pods))
    await lab.passes(4)
    found = await lab.pods(ns, ready(2))
    assert sorted(map(cpu, found)) == [100, 500]
    assert "QuotaExceeded" in lab.verdicts(ns, "a").values()


async def test_a_target_beyond_the_node_is_capped_so_that_recreated_pods_run(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "a", 0)
    await lab.scale(ns, "a", "Initial")
    await lab.recommend(ns, "a", "23400m")
    await becomes(lab.client, VPA, ns, "a", lambda vpa: "TargetExceedsNodes" in conditions(vpa), PATIENCE_S)
    await lab.client.patch(DEPLOYMENT, ns, "a", {"spec": {"replicas": 1}})
    [pod] = await lab.pods(ns, ready(1))
    assert 1000 < cpu(pod) <= 2000


def conditions(vpa: Object | None) -> dict[str, Any]:
    found = ((vpa or {}).get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition for condition in found if condition["status"] == "True"}


# --- budgets --------------------------------------------------------------------------------------------------------


async def test_resizes_that_restart_wait_for_the_disruption_budget(lab: Points, ns: str) -> None:
    restarts = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    await lab.deploy(ns, "a", 3, resizePolicy=restarts)
    before = await lab.pods(ns, ready(3))
    budget = {"minAvailable": 3, "selector": {"matchLabels": {"app": "a"}}}
    body = {"apiVersion": BUDGET.api_version, "kind": BUDGET.kind, "metadata": {"name": "b"}, "spec": budget}
    await lab.client.create(BUDGET, body, ns)
    await becomes(lab.client, BUDGET, ns, "b", lambda obj: (obj or {}).get("status", {}).get("currentHealthy") == 3)
    await lab.scale(ns, "a", "InPlaceOrRecreate")
    await lab.recommend(ns, "a", "200m")
    await lab.passes(4)
    kept = await lab.pods(ns, ready(3))
    assert names(kept) == names(before) and {cpu(pod) for pod in kept} == {100}
    assert all(statuses(pod)["c"]["restartCount"] == 0 for pod in kept)
    assert set(lab.verdicts(ns, "a").values()) == {"DisruptionBudget"}
    down = asyncio.ensure_future(_most_down(lab, ns, 3))
    await lab.client.patch(BUDGET, ns, "b", {"spec": {"minAvailable": 1}})
    after = await lab.pods(ns, lambda pods: ready(3)(pods) and all(cpu(pod) == 200 and is_settled(pod) for pod in pods))
    assert names(after) == names(before)
    assert all(statuses(pod)["c"]["restartCount"] == 1 for pod in after)
    assert await down <= 1


async def _most_down(lab: Points, ns: str, count: int) -> int:
    """The largest number of pods that were between their old and new size at a time, until all have the new one."""
    listed = await lab.client.list(POD, ns)
    seen = {pod["metadata"]["name"]: pod for pod in listed["items"]}
    most, revision = 0, listed["metadata"]["resourceVersion"]
    async with aclosing(lab.client.watch(POD, ns, resourceVersion=revision)) as events, asyncio.timeout(PATIENCE_S):
        async for _, pod in events:
            seen[pod["metadata"]["name"]] = pod
            changed = [item for item in seen.values() if cpu(item) == 200]
            most = max(most, sum(not is_settled(item) or statuses(item)["c"]["restartCount"] < 1 for item in changed))
            if len(changed) == count and all(is_settled(item) for item in changed):
                break
    return most


# --- pods that wait, and freezes ------------------------------------------------------------------------------------


async def test_a_pod_that_requires_an_autoscaler_needs_no_samples_to_start(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "a", 0)
    note = {"spec": {"template": {"metadata": {"annotations": {"podfit.dev/requires-vpa": "true"}}}}}
    await lab.client.patch(DEPLOYMENT, ns, "a", note)
    await lab.client.patch(DEPLOYMENT, ns, "a", {"spec": {"replicas": 1}})
    [held] = await lab.pods(ns, lambda pods: len(pods) == 1 and bool(pods[0]["spec"].get("schedulingGates")))
    about = f"involvedObject.name={held['metadata']['name']},reason=WaitingForVPA"
    [event] = await all_become(lab.client, EVENT, ns, lambda found: len(found) == 1, PATIENCE_S, fieldSelector=about)
    assert f"no VerticalPodAutoscaler in namespace {ns} has Deployment a as its target" in event["message"]
    policy = {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "150m"}}]}
    await lab.scale(ns, "a", "Auto", resourcePolicy=policy)
    [started] = await lab.pods(ns, ready(1))
    assert started["metadata"]["uid"] == held["metadata"]["uid"] and cpu(started) == 150


async def test_while_everything_is_frozen_new_pods_keep_their_templates_size(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "a", 1)
    await lab.scale(ns, "a", "Auto")
    await lab.pods(ns, ready(1))
    panic = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "podfit-panic"}}
    await lab.client.create(CONFIG_MAP, panic, "kube-system")
    try:
        assert lab.up.autoscaler is not None
        async with asyncio.timeout(PATIENCE_S):
            while lab.up.autoscaler.admission.stops.panicking() is None:
                await asyncio.sleep(0.01)
        await lab.recommend(ns, "a", "300m")
        await lab.client.patch(DEPLOYMENT, ns, "a", {"spec": {"replicas": 2}})
        frozen = await lab.pods(ns, ready(2))
        await lab.passes(3)
        kept = await lab.pods(ns, ready(2))
        assert names(kept) == names(frozen) and {cpu(pod) for pod in kept} == {100}
        assert set(lab.verdicts(ns, "a").values()) == {"PanicButton"}
    finally:
        await lab.client.delete(CONFIG_MAP, "kube-system", "podfit-panic")
    await lab.pods(ns, lambda pods: ready(2)(pods) and all(cpu(pod) == 300 for pod in pods))


# --- owners and conflicts -------------------------------------------------------------------------------------------


async def test_a_cron_job_without_template_labels_learns_from_its_own_pods_alone(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "other", 1, "foreign")
    container = {"name": "own", "image": "host", "command": ["sh", "-c", WAITS]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    job = {"template": {"spec": pod}}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}
    head = {"apiVersion": "batch/v1"}
    made = await lab.client.create(
        CRON_JOB, {**head, "kind": "CronJob", "metadata": {"name": "cron", "namespace": ns}, "spec": spec}
    )
    owner = {**head, "kind": "CronJob", "name": "cron", "uid": made["metadata"]["uid"], "controller": True}
    meta = {"name": "cron-1", "namespace": ns, "ownerReferences": [owner]}
    await lab.client.create(JOB, {**head, "kind": "Job", "metadata": meta, "spec": job})
    await lab.pods(ns, ready(2))
    await lab.scale(ns, "cron", "Off", "CronJob/cron", recommenders=[])
    await lab.scale(ns, "other", "Off", recommenders=[])
    assert await _recommended(lab, ns, "other") == ["foreign"]
    assert await _recommended(lab, ns, "cron") == ["own"]


async def _recommended(lab: Points, ns: str, name: str) -> list[str]:
    """The containers with a recommendation, once there is at least one."""
    found = await becomes(lab.client, VPA, ns, name, lambda vpa: bool(sized(vpa)), PATIENCE_S)
    return [entry["containerName"] for entry in sized(found)]


def sized(vpa: Object | None) -> list[Object]:
    found = ((vpa or {}).get("status") or {}).get("recommendation") or {}
    return list(found.get("containerRecommendations") or ())


async def test_of_two_autoscalers_for_the_same_pods_the_younger_names_the_older(lab: Points, ns: str) -> None:
    await lab.deploy(ns, "a")
    await lab.pods(ns, ready(2))
    await lab.scale(ns, "a-first", "Initial", "Deployment/a", recommenders=[])
    await lab.scale(ns, "b-second", "InPlaceOrRecreate", "Deployment/a", recommenders=[])
    found = await becomes(lab.client, VPA, ns, "b-second", lambda vpa: "Overruled" in conditions(vpa), PATIENCE_S)
    assert "VerticalPodAutoscaler a-first is older" in conditions(found)["Overruled"]["message"]
    about = "involvedObject.name=b-second,reason=Overruled"
    await all_become(lab.client, EVENT, ns, bool, PATIENCE_S, fieldSelector=about)
    assert "Overruled" not in conditions(await lab.client.get(VPA, ns, "a-first"))


# --- a webhook that dies --------------------------------------------------------------------------------------------


async def test_when_the_registered_webhook_exits_another_takes_over_and_no_pod_is_recreated_unsized(
    lab: Points, ns: str
) -> None:
    assert lab.up.autoscaler is not None
    own = lab.up.autoscaler.admission
    config = AdmissionConfig(
        port=0, host="127.0.0.1", address="", register_by_url=True, webhook_address="127.0.0.1", namespace="kube-system"
    )
    second = AdmissionWebhook(lab.client, config)
    task = asyncio.ensure_future(second.run())
    await asyncio.wait_for(second.registered.wait(), PATIENCE_S)
    await lab.deploy(ns, "a")
    await lab.scale(ns, "a", "Recreate")
    first = await lab.pods(ns, ready(2))
    assert await _port(lab) == second.port
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await lab.recommend(ns, "a", "300m")
    unsized = asyncio.ensure_future(_unsized(lab, ns, names(first)))
    await becomes(
        lab.client,
        MUTATING,
        "",
        "vpa-webhook-config",
        lambda configuration: _port_of(configuration) == own.port,
        PATIENCE_S,
    )
    await lab.pods(ns, lambda pods: ready(2)(pods) and all(cpu(pod) == 300 for pod in pods))
    assert await unsized == []


async def _unsized(lab: Points, ns: str, known: set[str]) -> list[str]:
    """The new pods with the size of their template, until there are two new pods of another size."""
    new: dict[str, int] = {}
    listed = await lab.client.list(POD, ns)
    revision = listed["metadata"]["resourceVersion"]
    async with aclosing(lab.client.watch(POD, ns, resourceVersion=revision)) as events, asyncio.timeout(PATIENCE_S):
        async for _, pod in events:
            if pod["metadata"]["name"] not in known:
                new.setdefault(pod["metadata"]["name"], cpu(pod))
            if sum(size != 100 for size in new.values()) == 2:
                break
    return [name for name, size in new.items() if size == 100]


async def _port(lab: Points) -> int:
    return _port_of(await lab.client.get(MUTATING, "", "vpa-webhook-config"))


def _port_of(found: Object | None) -> int:
    return int(found["webhooks"][0]["clientConfig"]["url"].rpartition(":")[2]) if found else 0


# --- history --------------------------------------------------------------------------------------------------------

STEP, DAYS = 300, 2


def _history(end: int) -> Iterator[str]:
    """Pods of an earlier day that use 0.1 cores and, for one hour in five, a whole one; scraped every five minutes."""
    instants = range(end - DAYS * 86400, end + 1, STEP)
    labels = [f'namespace="default",pod="old-{number}"' for number in range(2)]
    yield "# TYPE container_cpu_usage_seconds counter"
    for label in labels:
        used = 0.0
        for at in instants:
            yield f'container_cpu_usage_seconds_total{{{label},container="c"}} {used} {at}'
            used += STEP * (1.0 if (at - instants[0]) % 18000 < 3600 else 0.1)
    yield "# TYPE container_memory_working_set_bytes gauge"
    for label in labels:
        for at in instants:
            yield f'container_memory_working_set_bytes{{{label},container="c"}} 6e+08 {at}'
    yield "# TYPE kube_pod_labels gauge"
    for label in labels:
        for at in instants:
            yield f'kube_pod_labels{{{label},label_app="web"}} 1 {at}'
    yield "# EOF"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def prometheus(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    if not installed():
        pytest.skip("prometheus and promtool are not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    backfill(folder, _history(int(time.time()) // STEP * STEP))
    made = Prometheus(folder)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_history_from_prometheus_gives_a_recommendation_at_once(
    prometheus: Prometheus, tmp_path: Path, runtime: str
) -> None:
    """Also with a resolution finer than the scrapes, the hourly peaks and the confidence count in full."""
    flags = ["--storage=prometheus", f"--prometheus-address={prometheus.url}", "--history-resolution=1m"]
    async with Points(tmp_path, runtime, recommender=flags) as lab:
        await lab.deploy("default", "web", 1)
        await lab.scale("default", "web", "Off", recommenders=[])
        found = await becomes(lab.client, VPA, "default", "web", lambda vpa: bool(sized(vpa)), PATIENCE_S)
        [entry] = sized(found)
        assert 1000 <= Quantity.parse(entry["target"]["cpu"]).milli <= 1300
        assert 6e8 <= Quantity.parse(entry["target"]["memory"]).value <= 9e8
        assert "LowConfidence" not in conditions(found)
