"""What the recommender says of targets that it cannot read, word by word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podfit.api.kinds import VPA, kind_named
from podfit.kit.clock import FakeClock
from podfit.testing.autoscaling import Autoscaled, autoscaled
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.loop import Recommender

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
    told = await reason_for(cluster, version, kind)
    assert told == f"Cannot read targetRef. Reason: {reason.format(f'{version} / {kind} / x')}"


async def test_a_scale_without_a_selector(cluster: Autoscaled) -> None:
    fleet = {"apiVersion": "ex.dev/v1", "kind": "Fleet", "metadata": {"name": "x"}, "spec": {"replicas": 1}}
    await cluster.admin.raw("POST", "/apis/ex.dev/v1/namespaces/default/fleets", body=fleet)
    assert await reason_for(cluster, "ex.dev/v1", "Fleet") == (
        "Cannot read targetRef. Reason: unhandled targetRef ex.dev/v1 / Fleet / x, last error "
        "resource default/x has an empty selector for scale sub-resource"
    )


async def reason_for(cluster: Autoscaled, version: str, kind: str) -> str:
    """The message of condition ConfigUnsupported, once the recommender looked for the target."""
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
    return next(str(one["message"]) for one in conditions if one["type"] == "ConfigUnsupported")
