"""The expectations of the upstream autoscaler's own end-to-end tests about new pods, on podfit's API server and
webhook.

The names and numbers are those of its suite `admission-controller`: pods of a Deployment with an autoscaler whose
recommendation is set by hand, in a namespace that may have a LimitRange. One test differs on purpose
(docs/differences.md): a container without a recommendation is not scaled to fit the LimitRange of its pod.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import REPLICA_SET, Autoscaled, autoscaled, owner_of

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.client.rest import Client
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.loop import AdmissionWebhook

CONFIG = AdmissionConfig(
    port=0,
    host="127.0.0.1",
    address="",
    register_by_url=True,
    webhook_address="127.0.0.1",
    namespace="kube-system",
    feature_gates={"CPUStartupBoost": True},
)
LIMIT_RANGE = kind_named("LimitRange")
Amounts = Mapping[str, str]


@dataclass
class Scaled:
    cluster: Autoscaled
    webhook: AdmissionWebhook

    @property
    def admin(self) -> Client:
        return self.cluster.admin


@pytest.fixture
async def scaled(tmp_path: Path) -> AsyncIterator[Scaled]:
    async with autoscaled(tmp_path / "server") as made:
        await made.deployment("web", 0)
        webhook = AdmissionWebhook(made.client, CONFIG, made.clock)
        await webhook.start()
        try:
            await webhook.upkeep()
            yield Scaled(made, webhook)
        finally:
            await webhook.stop()


def amounts(text: str) -> Object:
    """`100m/200Mi` as a resource list; {} for an empty text."""
    return dict(zip(("cpu", "memory"), text.split("/"), strict=True)) if text else {}


def container(name: str, requests: str, limits: str = "") -> Object:
    sizes = {"requests": amounts(requests), "limits": amounts(limits)}
    return {"name": name, "image": "i", "resources": {key: value for key, value in sizes.items() if value}}


async def recommends(scaled: Scaled, targets: Mapping[str, str], **spec: Any) -> None:
    await scaled.cluster.vpa("web", "web", **spec)
    rows = [
        {"containerName": name, **dict.fromkeys(("target", "lowerBound", "upperBound"), amounts(target))}
        for name, target in targets.items()
    ]
    if rows:
        status = {"recommendation": {"containerRecommendations": rows}}
        await scaled.admin.patch(VPA, "default", "web", {"status": status}, "status")


async def limited(scaled: Scaled, kind: str, **bounds: Amounts) -> None:
    body = {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": kind, **bounds}]}}
    await scaled.admin.create(LIMIT_RANGE, {"apiVersion": "v1", "kind": "LimitRange", **body}, "default")


async def started(scaled: Scaled, *containers: Object) -> Object:
    await scaled.cluster.caught_up(scaled.webhook.caches.caches)
    owner = owner_of(await scaled.admin.get(REPLICA_SET, "default", "web-1"))
    meta = {"name": "new", "labels": {"app": "web"}, "ownerReferences": [owner]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": list(containers)}}
    return await scaled.admin.create(POD, pod, "default")


def sizes(pod: Object, which: str = "requests") -> list[str]:
    """The sizes of all containers, as `cpu/memory`."""
    lists = [row["resources"].get(which) or {} for row in pod["spec"]["containers"]]
    return ["/".join(row[key] for key in ("cpu", "memory") if key in row) for row in lists]


@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate"])
async def test_a_pod_starts_with_the_recommended_request(scaled: Scaled, mode: str) -> None:
    await recommends(scaled, {"main": "250m/200Mi"}, updatePolicy={"updateMode": mode})
    assert sizes(await started(scaled, container("main", "100m/100Mi"))) == ["250m/200Mi"]


async def test_a_recommendation_for_a_removed_container_harms_nothing(scaled: Scaled) -> None:
    await recommends(scaled, {"removed": "500m/500Mi", "main": "250m/200Mi"})
    assert sizes(await started(scaled, container("main", "100m/100Mi"))) == ["250m/200Mi"]


async def test_a_pod_keeps_its_request_when_no_recommendation_matches(scaled: Scaled) -> None:
    await recommends(scaled, {"removed": "250m/200Mi"})
    assert sizes(await started(scaled, container("main", "100m/100Mi"))) == ["100m/100Mi"]


async def test_a_container_without_recommendation_keeps_its_request_beside_one_with(scaled: Scaled) -> None:
    await recommends(scaled, {"main": "250m/200Mi"})
    pod = await started(scaled, container("main", "100m/100Mi"), container("other", "100m/100Mi"))
    assert sizes(pod) == ["250m/200Mi", "100m/100Mi"]


@pytest.mark.parametrize("targets", [{"main": "500m/500Mi", "other": "250m/200Mi"}, {"main": "250m/200Mi"}])
async def test_the_limit_that_a_limit_range_gives_a_container_holds_its_request_down(
    scaled: Scaled, targets: dict[str, str]
) -> None:
    """The LimitRange's maximum becomes the limit, and the limit has to grow in proportion."""
    await limited(scaled, "Container", max={"cpu": "300m", "memory": "1Gi"})
    await recommends(scaled, targets)
    assert sizes(await started(scaled, container("main", "100m/100Mi"))) == ["100m/100Mi"]


async def test_patches_of_a_running_pod_pass_when_its_recommendation_has_changed(scaled: Scaled) -> None:
    await recommends(scaled, {"main": "250m/200Mi"})
    await started(scaled, container("main", "100m/100Mi"))
    await scaled.cluster.recommend("web", amounts("100m/100Mi"))
    change = {"metadata": {"annotations": {"some": "value"}}}
    patched = await scaled.admin.patch(POD, "default", "new", change)
    assert (patched["metadata"]["annotations"]["some"], sizes(patched)) == ("value", ["250m/200Mi"])


@pytest.mark.parametrize(
    ("limits", "values", "after"),
    [
        ("100m/100Mi", "RequestsAndLimits", "250m/200Mi"),
        ("150m/200Mi", "RequestsAndLimits", "375m/400Mi"),
        ("500m/500Mi", "RequestsOnly", "500m/500Mi"),
    ],
)
async def test_limits_keep_their_proportion_unless_only_requests_are_controlled(
    scaled: Scaled, limits: str, values: str, after: str
) -> None:
    policy = {"containerPolicies": [{"containerName": "main", "controlledValues": values}]}
    await recommends(scaled, {"main": "250m/200Mi"}, resourcePolicy=policy)
    pod = await started(scaled, container("main", "100m/100Mi", limits))
    assert (sizes(pod), sizes(pod, "limits")) == (["250m/200Mi"], [after])


async def test_a_request_is_capped_by_the_limit_ranges_maximum_for_a_container(scaled: Scaled) -> None:
    await limited(scaled, "Container", max={"cpu": "300m", "memory": "1Gi"})
    await recommends(scaled, {"main": "250m/200Mi"})
    pod = await started(scaled, container("main", "100m/100Mi", "150m/200Mi"))
    assert (sizes(pod), sizes(pod, "limits")) == (["200m/200Mi"], ["300m/400Mi"])


async def test_a_request_is_raised_to_the_limit_ranges_minimum_for_a_container(scaled: Scaled) -> None:
    await limited(scaled, "Container", min={"cpu": "50m", "memory": "250Mi"})
    await recommends(scaled, {"main": "250m/100Mi"})
    pod = await started(scaled, container("main", "100m/200Mi", "150m/400Mi"))
    assert (sizes(pod), sizes(pod, "limits")) == (["250m/250Mi"], ["375m/500Mi"])


async def test_requests_are_capped_by_the_limit_ranges_maximum_for_a_pod(scaled: Scaled) -> None:
    await limited(scaled, "Pod", max={"cpu": "600m", "memory": "1Gi"})
    await recommends(scaled, {"main": "250m/200Mi", "other": "250m/200Mi"})
    pod = await started(scaled, *(container(name, "100m/100Mi", "150m/200Mi") for name in ("main", "other")))
    assert (sizes(pod), sizes(pod, "limits")) == (["200m/200Mi"] * 2, ["300m/400Mi"] * 2)


async def test_requests_are_raised_to_the_limit_ranges_minimum_for_a_pod(scaled: Scaled) -> None:
    await limited(scaled, "Pod", min={"cpu": "100m", "memory": "500Mi"})
    await recommends(scaled, {"main": "120m/100Mi", "other": "120m/100Mi"})
    pod = await started(scaled, *(container(name, "100m/200Mi", "150m/400Mi") for name in ("main", "other")))
    assert (sizes(pod), sizes(pod, "limits")) == (["120m/250Mi"] * 2, ["180m/500Mi"] * 2)


@pytest.mark.parametrize(
    ("bound", "cpu", "shares"), [("min", "150m", ["6m", "28m", "118m"]), ("max", "80m", ["2m", "14m", "62m"])]
)
async def test_a_pods_limit_range_is_shared_out_by_recommendation(
    scaled: Scaled, bound: str, cpu: str, shares: list[str]
) -> None:
    """Rounded up to a minimum, and down to a maximum."""
    await limited(scaled, "Pod", **{bound: {"cpu": cpu}})
    targets = {"main": "4m/100Mi", "second": "21m/100Mi", "third": "90m/100Mi"}
    await recommends(scaled, targets)
    pod = await started(scaled, *(container(name, "1m/100Mi", "1m/100Mi") for name in targets))
    assert sizes(pod) == sizes(pod, "limits") == [f"{share}/100Mi" for share in shares]


@pytest.mark.parametrize(
    ("target", "policy", "after"),
    [
        ("250m/200Mi", {"maxAllowed": amounts("233m/150Mi")}, "233m/150Mi"),
        ("50m/60Mi", {"minAllowed": amounts("90m/80Mi")}, "90m/80Mi"),
    ],
)
async def test_a_request_stays_within_what_the_autoscaler_allows(
    scaled: Scaled, target: str, policy: Object, after: str
) -> None:
    rows = {"containerPolicies": [{"containerName": "main", **policy}]}
    await recommends(scaled, {"main": target}, resourcePolicy=rows)
    assert sizes(await started(scaled, container("main", "100m/100Mi"))) == [after]


@pytest.mark.parametrize("requests", ["100m/100Mi", ""])
async def test_without_a_recommendation_a_request_stays_as_it_is_or_empty(scaled: Scaled, requests: str) -> None:
    await recommends(scaled, {})
    assert sizes(await started(scaled, container("main", requests))) == [requests]


@pytest.mark.parametrize(
    ("boost", "mode", "scaling", "cpu"),
    [
        ({"type": "Factor", "factor": 2}, "Recreate", "Auto", "200m"),
        ({"type": "Quantity", "quantity": "500m"}, "Recreate", "Auto", "600m"),
        ({"type": "Factor", "factor": 2}, "Off", "Auto", "200m"),
        ({"type": "Factor", "factor": 2}, "Recreate", "Off", "100m"),
    ],
)
async def test_a_starting_pod_is_boosted_unless_its_container_is_not_scaled(
    scaled: Scaled, boost: Object, mode: str, scaling: str, cpu: str
) -> None:
    await recommends(
        scaled,
        {"main": "100m/100Mi"} if mode != "Off" else {},
        updatePolicy={"updateMode": mode},
        startupBoost={"cpu": {**boost, "durationSeconds": 15}},
        resourcePolicy={"containerPolicies": [{"containerName": "main", "mode": scaling}]},
    )
    pod = await started(scaled, container("main", "100m/100Mi"))
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert Quantity.parse(requests["cpu"]) == Quantity.parse(cpu)
