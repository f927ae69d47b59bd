"""The recommender as an extension API server: who may query it, its answers, and its clients."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.cluster.expect import becomes

from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import Request, Response, User
from podfit.cli.options.ports import with_flags
from podfit.client.rest import Client
from podfit.compose import Up, UpOptions
from podfit.kit.clock import FakeClock
from podfit.vpa.flags import WrongLine
from podfit.vpa.observe.live_recommendations import AGGREGATED, keeping_others
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.recommender.serving.queries import API_VERSION, KIND, PLURAL, Queries, register
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    """An API server that forwards recommendation.podfit.dev to a recommender that knows Deployment web."""
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        for pod in await made.deployment("web", 2):
            made.use(pod, "400m", "300000000")
        await made.vpa("web", "web", updatePolicy={"updateMode": "InPlaceOrRecreate"})
        recommender = Recommender(made.client, RecommenderConfig(address=""), None, made.clock)
        await recommender.start()
        for _ in range(3):
            await made.clock.advance(60)  # type: ignore[attr-defined]
            await recommender.one_pass()
        queries = Queries(recommender)

        async def answer(request: Request) -> Response:
            code, value = await queries.answer(request.method, request.path, request.body)
            return Response(code, msgspec.json.encode(value))

        made.server.register_local_group(API_VERSION, answer)
        await register(made.admin)
        yield made
        await recommender.stop()


def path_in(namespace: str) -> str:
    return f"/apis/{API_VERSION}/namespaces/{namespace}/{PLURAL}"


def query(*containers: dict[str, Any], labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    pod = {"metadata": {"labels": labels or {"app": "web"}}, "spec": {"containers": list(containers)}}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "q"}, "spec": {"pod": pod}, **more}


async def ask(client: Client, body: Any, namespace: str = "default") -> dict[str, Any]:
    found: dict[str, Any] = await client.raw("POST", path_in(namespace), body=body)
    return found


async def test_only_the_pods_own_containers_are_answered_for(cluster: Autoscaled) -> None:
    answer = await ask(cluster.admin, query({"name": "main", "image": "i"}, {"name": "other", "image": "o"}))
    assert answer["metadata"] == {"name": "q", "namespace": "default"}
    [entry] = answer["status"]["recommendation"]["containerRecommendations"]
    assert entry["containerName"] == "main" and entry["target"]["cpu"]


async def test_a_container_of_another_name_is_known_by_what_it_runs(cluster: Autoscaled) -> None:
    by_name = await ask(cluster.admin, query({"name": "main", "image": "i"}))
    renamed = await ask(cluster.admin, query({"name": "app", "image": "i"}))
    [known], [entry] = (obj["status"]["recommendation"]["containerRecommendations"] for obj in (by_name, renamed))
    assert entry == {**known, "containerName": "app"}
    other = await ask(cluster.admin, query({"name": "app", "image": "i", "args": ["--batch"]}))
    assert other["status"] == {"error": "VerticalPodAutoscaler web recommends nothing for container app, only for main"}


async def test_a_pod_of_no_autoscaler_gets_an_error_in_the_answer(cluster: Autoscaled) -> None:
    answer = await ask(cluster.admin, query({"name": "main"}, labels={"app": "x"}))
    assert answer["status"] == {"error": "no VerticalPodAutoscaler controls this pod"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, 400),
        (query(spec={}), 422),
        (query(spec={"pod": {"spec": {}}}), 422),
        (query(metadata={"namespace": "elsewhere"}), 400),
        (query(spec={"pod": {"metadata": {"namespace": "elsewhere"}, "spec": {"containers": []}}}), 400),
    ],
)
async def test_an_invalid_query_is_rejected(cluster: Autoscaled, body: Any, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        await ask(cluster.admin, body)
    assert refused.value.code == code


async def test_only_users_with_the_right_may_ask(cluster: Autoscaled) -> None:
    stranger = local_client(cluster.server, User("jane", ("system:authenticated",)), "jane")
    with pytest.raises(ApiError, match="recommendationqueries.recommendation.podfit.dev is forbidden"):
        await ask(stranger, query())
    bindings = kind_named("RoleBinding")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
    body = {"apiVersion": bindings.api_version, "kind": bindings.kind, "metadata": {"name": "jane"}}
    await cluster.admin.create(bindings, {**body, "roleRef": role, "subjects": [subject]}, "default")
    while cluster.server.hub.seen < cluster.server.config.store.revision:
        await asyncio.sleep(0)
    assert (await ask(stranger, query()))["status"]["verticalPodAutoscaler"] == "web"
    with pytest.raises(ApiError, match="forbidden"):
        await ask(stranger, query(), "kube-system")


async def updated(cluster: Autoscaled, url: str) -> str:
    """The CPU request of a pod after a pass of an updater that queries this recommender."""
    config = UpdaterConfig(address="", in_place_skip_disruption_budget=True, recommender_url=url, scale_down_step=1.0)
    updater = Updater(cluster.client, config, cluster.clock)
    await updater.start()
    await updater.one_pass()
    await updater.stop()
    pod = await cluster.admin.get(POD, "default", "web-1-0")
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def test_the_updater_queries_the_recommender_and_falls_back_to_the_object(cluster: Autoscaled) -> None:
    fresh = (await ask(cluster.admin, query()))["status"]["recommendation"]["containerRecommendations"][0]["target"]
    # The object's recommendation is outdated; only the recommender has the current one.
    await cluster.recommend("web", {"cpu": "300m"}, lowerBound={"cpu": "250m"}, upperBound={"cpu": "2"})
    assert await updated(cluster, "http://127.0.0.1:9") == "300m"
    assert await updated(cluster, AGGREGATED) == fresh["cpu"]


def test_pods_of_other_containers_keep_what_the_object_recommends() -> None:
    """One autoscaler, two kinds of pods: the answer about one of them does not apply to the other."""
    entries = [{"containerName": name, "target": {"cpu": "1"}} for name in ("main", "side")]
    status = {"recommendation": {"containerRecommendations": entries}}
    vpa = {"metadata": {"name": "all"}, "status": status}
    fresh = {
        "metadata": {"name": "all"},
        "status": {"recommendation": {"containerRecommendations": [{"containerName": "main", "target": {"cpu": "2"}}]}},
    }
    found = keeping_others(vpa, fresh)["status"]["recommendation"]["containerRecommendations"]
    assert {entry["containerName"]: entry["target"]["cpu"] for entry in found} == {"main": "2", "side": "1"}


async def test_up_takes_the_autoscalers_flags_and_answers_queries(tmp_path: Path) -> None:
    flags = with_flags({}, recommender=["recommender-interval=7s"], updater=["--min-replicas=1"], admission=None)
    options = UpOptions(
        tmp_path, store="memory", runtime="fake", node_name="n1", vpa_flags=flags, meter_resolution_s=2.0
    )
    everything = Up(options)
    await everything.start()
    try:
        assert everything.autoscaler is not None and everything.meter is not None
        assert everything.autoscaler.recommender.config.recommender_interval == 7.0
        assert everything.autoscaler.updater.config.min_replicas == 1
        assert everything.meter.config.interval_s == 2.0
        file = tmp_path / "query.json"
        file.write_bytes(msgspec.json.encode(query({"name": "main", "image": "i"})))
        words = ("kubectl", "--kubeconfig", everything.kubeconfig, "create", "-o", "json", "-f", file)
        asked = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        answer, _ = await asked.communicate()
        assert msgspec.json.decode(answer)["status"] == {"error": "no VerticalPodAutoscaler controls this pod"}
    finally:
        await everything.stop()


async def test_up_runs_without_the_autoscaler(tmp_path: Path) -> None:
    everything = Up(UpOptions(tmp_path, store="memory", runtime="fake", node_name="n1", vpa=False))
    await everything.start()
    assert everything.autoscaler is None
    await everything.stop()


def test_a_wrong_flag_is_reported_before_anything_starts() -> None:
    with pytest.raises(WrongLine, match="unknown flag: --updater-intervall"):
        with_flags({}, updater=["updater-intervall=5s"])


async def test_a_remote_recommender_answers_only_through_the_api_server(tmp_path: Path) -> None:
    async with autoscaled(tmp_path / "server", FakeClock(time.time())) as made:
        for pod in await made.deployment("web", 2):
            made.use(pod, "400m", "300000000")
        await made.vpa("web", "web")
        with socket.create_server(("127.0.0.1", 0)) as free:
            where = f"127.0.0.1:{free.getsockname()[1]}"
        config = RecommenderConfig(address="", secure_address=where, secure_url=f"https://{where}")
        recommender = Recommender(made.client, config, None, made.clock)
        await recommender.start()
        await made.clock.advance(60)  # type: ignore[attr-defined]
        await recommender.one_pass()
        try:
            name = f"v1.{API_VERSION.partition('/')[0]}"
            await becomes(made.admin, kind_named("APIService"), "", name, _available)
            answer = await ask(made.admin, query({"name": "main"}))
            assert answer["status"]["verticalPodAutoscaler"] == "web"
            async with aiohttp.ClientSession() as session:
                url = f"https://{where}{path_in('default')}"
                async with session.post(url, json=query(), headers={"X-Remote-User": "admin"}, ssl=False) as refused:
                    assert refused.status == 401
        finally:
            await recommender.stop()


def _available(service: Any) -> bool:
    rows = ((service or {}).get("status") or {}).get("conditions") or []
    return any(row["type"] == "Available" and row["status"] == "True" for row in rows)
