"""The recommender's messages about targets and objects that it cannot read, word by word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.kit.clock import FakeClock
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.loop import Updater

FLEETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "fleets.ex.dev"},
    "spec": {
        "group": "ex.dev",
        "names": {"kind": "Fleet", "plural": "fleets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ],
    },
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        await made.admin.create(kind_named("CustomResourceDefinition"), FLEETS, "")
        yield made


@pytest.mark.parametrize(
    ("version", "kind", "reason"),
    [
        ("ex.dev/v1", "Foo", 'unhandled targetRef {}, last error no matches for kind "Foo" in group "ex.dev"'),
        ("", "Foo", 'unhandled targetRef {}, last error no matches for kind "Foo" in group ""'),
        ("a/b/c", "Foo", "unexpected GroupVersion string: a/b/c"),
        ("v1", "Pod", "unhandled targetRef {}, last error the server could not find the requested resource"),
        ("ex.dev/v1", "Fleet", 'unhandled targetRef {}, last error fleets.ex.dev "x" not found'),
    ],
)
async def test_a_target_that_cannot_be_read(cluster: Autoscaled, version: str, kind: str, reason: str) -> None:
    reported = await reason_for(cluster, version, kind)
    assert reported == f"Cannot read targetRef. Reason: {reason.format(f'{version} / {kind} / x')}"


async def test_a_scale_without_a_selector(cluster: Autoscaled) -> None:
    fleet = {"apiVersion": "ex.dev/v1", "kind": "Fleet", "metadata": {"name": "x"}, "spec": {"replicas": 1}}
    await cluster.admin.raw("POST", "/apis/ex.dev/v1/namespaces/default/fleets", body=fleet)
    assert await reason_for(cluster, "ex.dev/v1", "Fleet") == (
        "Cannot read targetRef. Reason: unhandled targetRef ex.dev/v1 / Fleet / x, last error "
        "resource default/x has an empty selector for scale sub-resource"
    )


async def reason_for(cluster: Autoscaled, version: str, kind: str) -> str:
    """The message of condition ConfigUnsupported, once the recommender has looked up the target."""
    await cluster.vpa("web", "web", targetRef={"apiVersion": version, "kind": kind, "name": "x"})
    recommender = Recommender(cluster.client, RecommenderConfig(address=""), None, cluster.clock)
    await recommender.start()
    try:
        for _ in range(2):
            await cluster.clock.advance(60)  # type: ignore[attr-defined]
            await recommender.one_pass()
    finally:
        await recommender.stop()
    conditions = (await cluster.admin.get(VPA, "default", "web"))["status"]["conditions"]
    return next(str(condition["message"]) for condition in conditions if condition["type"] == "ConfigUnsupported")


ODD = {"resourcePolicy": {"containerPolicies": [{"containerName": "main", "minAllowed": {"cpu": "1e1.5"}}]}}


async def test_an_autoscaler_that_cannot_be_read_says_so_and_stops_no_other(cluster: Autoscaled) -> None:
    for name, spec in (("good", {}), ("odd", ODD)):
        for pod in await cluster.deployment(name, 2):
            cluster.use(pod, "100m", "500000000")
        await cluster.vpa(name, name, updatePolicy={"updateMode": "InPlaceOrRecreate"}, **spec)
    recommender = Recommender(cluster.client, RecommenderConfig(address=""), None, cluster.clock)
    updater = Updater(cluster.client, UpdaterConfig(address=""), cluster.clock)
    await recommender.start()
    await updater.start()
    try:
        for _ in range(2):
            await cluster.clock.advance(60)  # type: ignore[attr-defined]
            await recommender.one_pass()
        await updater.one_pass()
    finally:
        await updater.stop()
        await recommender.stop()
    good, odd = [(await cluster.admin.get(VPA, "default", name))["status"] for name in ("good", "odd")]
    assert good["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "126m"
    reported = next(condition["message"] for condition in odd["conditions"] if condition["type"] == "ConfigUnsupported")
    assert reported.startswith("Cannot read spec.resourcePolicy.containerPolicies[0].minAllowed[cpu]: quantities")
    assert not odd["recommendation"]
    pods = (await cluster.admin.list(POD, "default"))["items"]
    resized = {pod["metadata"]["labels"]["app"] for pod in pods if pod["metadata"].get("annotations")}
    assert resized == {"good"}
